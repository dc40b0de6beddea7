//! History: pages that left a tenant recently. Each is a part of the page's hash with the uses that it had.
//!
//! A page takes ten bytes. A cache line is two queues: six pages that were evicted, and ten that were taken. All lines
//! together forget almost like one queue of each kind. The shards share the history: a page's line does not depend on
//! its object. So an object that comes all at once is remembered as long as any other.
//!
//! Threads read and write words without a lock. If two threads meet in a line, a page may be lost from it or stay there
//! twice. Either is only a wrong guess at what will be asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::PrefetchAddress;

/// Words of a line, in pairs that are read and written at once. The newer word is in the lower half.
const PAIRS: usize = 8;

/// Pairs of pages that were evicted. An equal split between the kinds missed more of loops
/// (docs/decisions/2026-11-25-one-order-over-shards.md).
const EVICTED_PAIRS: usize = 3;

/// Bits of a word that hold uses. The rest is the page's name.
const USES_BITS: u32 = 4;

/// The most uses that are distinguished.
pub(super) const USES_MAX: u8 = (1 << USES_BITS) - 1;

/// Lines of a row. Bits of the hash that are in no name choose among them.
const PARTS: usize = 16;

/// Pages of a tenant per row. That gives each nearly one evicted and 1.6 taken pages of history. The load of lines
/// varies by chance, and with less space some lines forget too soon.
const ROW_PAGES: u64 = 100;

/// History is rebuilt if its rows exceed or fall short of what it needs by more than this fraction.
const SLACK_ONE_IN: usize = 32;

/// How a page left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It was evicted.
    Evicted,
    /// Its owner took it or invalidated it.
    Taken,
}

/// A line: a queue of words for each kind, newest first.
#[repr(align(64))]
#[derive(Debug, Default)]
struct HistoryLine([AtomicU64; PAIRS]);

/// One in each half of a pair.
const ONES: u64 = 1 << 32 | 1;

/// Nonzero if a word of the pair has this name. Uses are not compared.
fn named(pair: u64, name: u32) -> u64 {
    let other = (pair ^ (u64::from(name) * ONES)) & !(u64::from(USES_MAX) * ONES);
    // The topmost bit is set only in a half that is zero, or in the half above one that is: it is borrowed.
    other.wrapping_sub(ONES) & !other & ONES << 31
}

impl HistoryLine {
    fn queue(&self, left: Departure) -> &[AtomicU64] {
        let (evicted, taken) = self.0.split_at(EVICTED_PAIRS);
        match left {
            Departure::Evicted => evicted,
            Departure::Taken => taken,
        }
    }

    /// Each pair takes the older word of the pair before it.
    fn push(&self, left: Departure, word: u32) {
        let mut newer = word;
        for pair in self.queue(left) {
            let words = pair.load(Ordering::Relaxed);
            pair.store(words << 32 | u64::from(newer), Ordering::Relaxed);
            newer = (words >> 32) as u32;
            if newer == 0 {
                return;
            }
        }
    }

    /// Removes the newest word of a name and returns it. Most often there is none.
    fn remove(&self, name: u32) -> Option<u32> {
        let found = self.0.iter().fold(0, |found, pair| {
            found | named(pair.load(Ordering::Relaxed), name)
        });
        if found == 0 {
            return None;
        }
        let mut kinds = [Departure::Evicted, Departure::Taken].into_iter();
        kinds.find_map(|left| self.remove_from(left, name))
    }

    fn remove_from(&self, left: Departure, name: u32) -> Option<u32> {
        let queue = self.queue(left);
        let pair = |at: usize| queue.get(at).map_or(0, |pair| pair.load(Ordering::Relaxed));
        let mut pairs = (0..queue.len()).map(|at| (at, pair(at)));
        let (first, words) = pairs.find(|(_, words)| named(*words, name) != 0)?;
        let (newer, older) = (words as u32, (words >> 32) as u32);
        let (word, mut stays) = match newer & !u32::from(USES_MAX) == name {
            true => (newer, older),
            false => (older, newer),
        };
        // The older words move up.
        for (at, pair_there) in queue.iter().enumerate().skip(first) {
            let next = pair(at + 1);
            pair_there.store(next << 32 | u64::from(stays), Ordering::Relaxed);
            stays = (next >> 32) as u32;
        }
        Some(word)
    }
}

/// What is remembered of the pages that left a tenant.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Lines, in rows of [`PARTS`].
    lines: Box<[HistoryLine]>,
}

impl History {
    /// A copy with the space that this many pages need. `None` if the history has about that much already.
    pub(super) fn fitted(&self, pages: u64) -> Option<History> {
        let has = self.lines.len() / PARTS;
        let needs = (pages / ROW_PAGES).max(pages.min(1)) as usize;
        let is_fit = has.abs_diff(needs) <= needs / SLACK_ONE_IN;
        (!is_fit).then(|| self.resized(needs))
    }

    /// A copy with this many rows. It starts at the oldest word of each line, so that lines keep their order.
    fn resized(&self, rows: usize) -> History {
        let resized = History {
            lines: (0..rows * PARTS).map(|_| HistoryLine::default()).collect(),
        };
        for at in (0..PAIRS).rev() {
            for (nth, place) in self.lines.iter().enumerate() {
                for left in [Departure::Evicted, Departure::Taken] {
                    let pair = place.queue(left).get(at);
                    let pair = pair.map_or(0, |pair| pair.load(Ordering::Relaxed));
                    for word in [(pair >> 32) as u32, pair as u32] {
                        resized.keep(left, word, nth % PARTS);
                    }
                }
            }
        }
        resized
    }

    /// Adds a word, unless it is empty.
    fn keep(&self, left: Departure, word: u32, part: usize) {
        let row = row_of(word, self.lines.len() / PARTS);
        if word != 0
            && let Some(place) = self.lines.get(row * PARTS + part)
        {
            place.push(left, word);
        }
    }

    #[inline]
    fn line_of(&self, hash: u64) -> Option<&HistoryLine> {
        let row = row_of(name(hash), self.lines.len() / PARTS);
        let part = (hash >> (64 - u32::BITS)) as usize % PARTS;
        self.lines.get(row * PARTS + part)
    }

    /// Remembers a page that had this many uses.
    pub(super) fn remember(&self, hash: u64, uses: u8, left: Departure) {
        if let Some(place) = self.line_of(hash) {
            place.push(left, name(hash) | u32::from(uses.min(USES_MAX)));
        }
    }

    /// Removes a page and returns its uses, if it is remembered.
    pub(super) fn recall(&self, hash: u64) -> Option<u8> {
        let word = self.line_of(hash)?.remove(name(hash))?;
        Some(word as u8 & USES_MAX)
    }

    /// The cache line that holds a page's word.
    pub(super) fn line(&self, hash: u64) -> Option<PrefetchAddress> {
        self.line_of(hash).map(PrefetchAddress::of)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.lines) as u64
    }
}

/// A page's name: 28 bits of its hash, above the bits of its uses. It is never zero.
fn name(hash: u64) -> u32 {
    let name = (hash >> 32) as u32 & !u32::from(USES_MAX);
    name.max(u32::from(USES_MAX) + 1)
}

/// The row of a name, or of a word with that name.
fn row_of(word: u32, rows: usize) -> usize {
    let name = u64::from(word >> USES_BITS);
    ((name * rows as u64) >> (u32::BITS - USES_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn found(history: &History, pages: std::ops::RangeInclusive<u64>) -> usize {
        pages.filter(|n| history.recall(hash(*n)).is_some()).count()
    }

    #[test]
    fn what_left_is_remembered_with_its_uses_and_recalled_once() {
        let history = History::default();
        history.remember(hash(1), 1, Departure::Taken);
        assert_eq!(history.recall(hash(1)), None, "no place was made");
        let history = history.fitted(1000).expect("larger");
        for n in 1..=1000 {
            history.remember(hash(n), (n % 40) as u8, Departure::Evicted);
            history.remember(hash(n + 5000), 7, Departure::Taken);
        }
        let uses = |n: &u64| history.recall(hash(*n)) == Some((n % 40).min(15) as u8);
        assert!((1..=1000).filter(uses).count() > 900);
        assert!(found(&history, 5001..=6000) > 900);
        assert_eq!(found(&history, 1..=1000), 0);
    }

    #[test]
    fn a_larger_size_forgets_nothing_and_a_smaller_one_what_has_no_place() {
        let small = History::default().fitted(4000).expect("larger");
        (1..=1500).for_each(|n| small.remember(hash(n), 1, Departure::Evicted));
        assert!(small.fitted(4050).is_none(), "nearly the same");
        let large = small.fitted(40_000).expect("larger");
        assert!(found(&large, 1..=500) > 490);
        (1..=500).for_each(|n| large.remember(hash(n), 1, Departure::Evicted));
        let small = large.fitted(1000).expect("smaller");
        assert!(small.bytes() <= 12 * 1000, "{}", small.bytes());
        let left = found(&small, 1..=1500);
        assert!((850..=960).contains(&left), "{left}");
    }
}
