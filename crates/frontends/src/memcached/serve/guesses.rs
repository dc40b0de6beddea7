//! Whose socket is read without asking the kernel who is ready.
//!
//! On a busy worker who was answered soon asks again. Reading such a socket straight away finds the next request and
//! saves the question for events, which with a few busy connections costs a tenth of a small request. It is asked all
//! the same after a few rounds, so that nobody else waits for long, and where guessing does not pay.

use mio::Token;

/// Connections that are guessed at. Of more than these, a question for events brings many at once and costs little each.
const GUESSED_MAX: usize = 8;

/// Rounds of guesses in a row before the kernel is asked.
const ROUNDS_MAX: u32 = 8;

/// Misses in a row after which a connection is guessed at no longer, until it is heard of again.
const MISSES_MAX: u8 = 2;

/// Waits without guesses after rounds that did not pay, at the most.
const PAUSE_MAX: u32 = 255;

/// The connections of one worker that are expected to ask again.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    expected: Vec<Expected>,
    /// More were heard of than are worth it, and all shall be treated alike.
    crowded: bool,
    /// Rounds since the kernel was asked.
    rounds: u32,
    /// Waits that are still to pass without guesses.
    pause: u32,
    /// How long the last pause was.
    paused: u32,
}

#[derive(Clone, Copy, Debug)]
struct Expected {
    token: Token,
    misses: u8,
}

impl Guesses {
    /// A connection sent something that the kernel told of.
    pub(super) fn note(&mut self, token: Token) {
        let room = self.expected.len() < GUESSED_MAX;
        match self.expected.iter_mut().find(|one| one.token == token) {
            Some(one) => one.misses = 0,
            None if room => self.expected.push(Expected { token, misses: 0 }),
            None => self.crowded = true,
        }
    }

    /// Tries whoever is expected, unless it is time to ask the kernel. `try_one` says whether something had come; this
    /// says whether anything had.
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
        self.learn(hits, tries);
        if hits == 0 {
            self.rounds = 0; // the kernel is asked now
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

    /// A vain read costs about half of what a question for events does for each connection that it brings.
    fn learn(&mut self, hits: usize, tries: usize) {
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

    fn expecting(connections: usize) -> Guesses {
        let mut guesses = Guesses::default();
        (0..connections).for_each(|n| guesses.note(Token(n)));
        guesses
    }

    #[test]
    fn nobody_heard_of_is_guessed_at() {
        assert!(!Guesses::default().round(|_| panic!("nobody is there")));
    }

    #[test]
    fn who_asks_each_time_is_read_until_the_kernel_is_due() {
        let mut guesses = expecting(3);
        let mut tried = Vec::new();
        let mut rounds = 0;
        while guesses.round(|token| {
            tried.push(token.0);
            true
        }) {
            rounds += 1;
        }
        assert_eq!(rounds, ROUNDS_MAX);
        assert_eq!(tried, [0, 1, 2].repeat(rounds as usize));
        assert!(guesses.round(|_| true), "after the kernel was asked once");
    }

    #[test]
    fn who_misses_once_stays_and_who_misses_twice_goes() {
        let mut guesses = expecting(4);
        for _ in 0..2 {
            assert!(guesses.round(|token| token.0 != 2));
        }
        guesses.round(|token| {
            assert_ne!(token.0, 2);
            true
        });
        guesses.note(Token(2));
        let mut tried = Vec::new();
        guesses.round(|token| {
            tried.push(token.0);
            true
        });
        assert_eq!(tried, [0, 1, 3, 2]);
    }

    #[test]
    fn vain_guesses_become_rare() {
        let (mut guesses, mut tries) = (expecting(1), 0);
        const WAITS: u32 = 10_000;
        for _ in 0..WAITS {
            guesses.note(Token(0));
            guesses.round(|_| {
                tries += 1;
                false
            });
        }
        assert!(tries < WAITS / 100, "{tries} of {WAITS}");
        guesses.pause = 0;
        guesses.note(Token(0));
        guesses.round(|_| true);
        assert_eq!(guesses.paused, 0, "one that pays forgets them");
    }

    #[test]
    fn in_a_crowd_nobody_is_preferred() {
        let mut guesses = expecting(GUESSED_MAX + 1);
        assert!(!guesses.round(|_| panic!("the kernel says who is first")));
        guesses.note(Token(0));
        assert!(guesses.round(|_| true), "the crowd is gone");
    }
}
