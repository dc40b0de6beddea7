//! Chooses connections that a worker reads without polling the kernel for events.
//!
//! On a busy worker, a client that just got a reply soon sends its next request. Reading its socket straight away finds
//! the request and saves the poll. With a few busy connections a poll costs a tenth of a small request.
//!
//! The worker still polls after a few rounds, so that no other connection waits for long. It also polls where
//! speculation does not pay.

use mio::Token;

/// The most connections that are read speculatively. With more connections than these, one poll returns many events and
/// costs little for each.
const CANDIDATES_MAX: usize = 8;

/// The most speculative rounds in a row before the worker polls the kernel.
const ROUNDS_MAX: u32 = 8;

/// After this many misses in a row, a connection is no longer read speculatively until the kernel reports it again.
const MISSES_MAX: u8 = 2;

/// The most waits without speculation after rounds that did not pay.
const PAUSE_MAX: u32 = 255;

/// The connections of one worker from which it expects another request.
#[derive(Debug, Default)]
pub(super) struct SpeculativeReads {
    expected: Vec<Candidate>,
    /// More connections were reported than are worthwhile, and all shall be treated alike.
    crowded: bool,
    /// Rounds since the last poll of the kernel.
    rounds: u32,
    /// Waits that are still to pass without speculation.
    pause: u32,
    /// The length of the last pause, in waits.
    paused: u32,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: Token,
    misses: u8,
}

impl SpeculativeReads {
    /// Records that the kernel reported input of a connection.
    pub(super) fn record_input(&mut self, token: Token) {
        let room = self.expected.len() < CANDIDATES_MAX;
        match self.expected.iter_mut().find(|one| one.token == token) {
            Some(one) => one.misses = 0,
            None if room => self.expected.push(Candidate { token, misses: 0 }),
            None => self.crowded = true,
        }
    }

    /// Tries the expected connections, unless a poll of the kernel is due. `try_one` returns whether input had come.
    /// The round returns whether any input had come.
    pub(super) fn round(&mut self, mut try_one: impl FnMut(Token) -> bool) -> bool {
        if !self.is_due() {
            return false;
        }
        let tries = self.expected.len();
        let mut hits = 0;
        self.expected.retain_mut(|one| {
            let hit = try_one(one.token);
            hits += usize::from(hit);
            one.misses = if hit { 0 } else { one.misses + 1 };
            one.misses < MISSES_MAX
        });
        self.adjust_pause(hits, tries);
        if hits == 0 {
            self.rounds = 0; // the caller polls the kernel now
        }
        hits > 0
    }

    fn is_due(&mut self) -> bool {
        if std::mem::take(&mut self.crowded) {
            self.expected.clear();
        }
        let pauses = self.pause > 0;
        self.pause = self.pause.saturating_sub(1);
        let due = !pauses && !self.expected.is_empty() && self.rounds < ROUNDS_MAX;
        self.rounds = if due { self.rounds + 1 } else { 0 };
        due
    }

    /// Adapts the pause to the hits. A vain read costs about half of what a poll costs for each connection that it
    /// reports.
    fn adjust_pause(&mut self, hits: usize, tries: usize) {
        if 2 * hits >= tries {
            self.paused = 0;
        } else {
            self.paused = (2 * self.paused + 1).min(PAUSE_MAX);
            self.pause = self.paused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expecting(connections: usize) -> SpeculativeReads {
        let mut speculative = SpeculativeReads::default();
        (0..connections).for_each(|n| speculative.record_input(Token(n)));
        speculative
    }

    #[test]
    fn only_reported_connections_are_read_speculatively() {
        assert!(!SpeculativeReads::default().round(|_| panic!("no connection was reported")));
    }

    #[test]
    fn a_connection_that_always_hits_is_read_until_a_poll_is_due() {
        let mut speculative = expecting(3);
        let mut tried = Vec::new();
        let mut rounds = 0;
        while speculative.round(|token| {
            tried.push(token.0);
            true
        }) {
            rounds += 1;
        }
        assert_eq!(rounds, ROUNDS_MAX);
        assert_eq!(tried, [0, 1, 2].repeat(rounds as usize));
        assert!(
            speculative.round(|_| true),
            "after the kernel was asked once"
        );
    }

    #[test]
    fn one_miss_keeps_a_candidate_and_two_misses_drop_it() {
        let mut speculative = expecting(4);
        for _ in 0..2 {
            assert!(speculative.round(|token| token.0 != 2));
        }
        speculative.round(|token| {
            assert_ne!(token.0, 2);
            true
        });
        speculative.record_input(Token(2));
        let mut tried = Vec::new();
        speculative.round(|token| {
            tried.push(token.0);
            true
        });
        assert_eq!(tried, [0, 1, 3, 2]);
    }

    #[test]
    fn vain_guesses_become_rare() {
        let (mut speculative, mut tries) = (expecting(1), 0);
        const WAITS: u32 = 10_000;
        for _ in 0..WAITS {
            speculative.record_input(Token(0));
            speculative.round(|_| {
                tries += 1;
                false
            });
        }
        assert!(tries < WAITS / 100, "{tries} of {WAITS}");
        speculative.pause = 0;
        speculative.record_input(Token(0));
        speculative.round(|_| true);
        assert_eq!(speculative.paused, 0, "one that pays forgets them");
    }

    #[test]
    fn in_a_crowd_nobody_is_preferred() {
        let mut speculative = expecting(CANDIDATES_MAX + 1);
        assert!(!speculative.round(|_| panic!("the kernel is polled first")));
        speculative.record_input(Token(0));
        assert!(speculative.round(|_| true), "the crowd is gone");
    }
}
