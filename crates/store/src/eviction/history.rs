//! History: the pages that left a tenant not long ago, by a part of their hash, with the uses they had.
//!
//! Ten bytes a page, in pairs of lines of sixteen words: of pages that were evicted, and of pages that somebody
//! came for. Each line is a little queue of its own, so all together forget like one queue, nearly. Shards share it: a page's
//! place says nothing of its object, so that an object that comes all at once is remembered as long as any.
//!
//! Words are read and written without a lock. Whoever meets another in a line may lose a page from it, or leave it there
//! twice; neither is more than a wrong guess at what will be asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Step;
use crate::arena::Line;

/// Pages that a line remembers.
pub(super) const LINE: usize = 16;

/// Bits of a word that are uses; the rest are its page's name.
const USES_BITS: u32 = 4;

/// Uses that are told apart.
pub(super) const USES_MAX: u8 = (1 << USES_BITS) - 1;

/// Places of a row, told by bits of the hash that are in no name.
const PARTS: usize = 16;

/// Pages of a tenant for which a row is enough: five words of each kind for four pages. A line's load differs from
/// another's by chance, and with less some forget too soon.
const ROW_PAGES: u64 = (PARTS * LINE) as u64 * 4 / 5;

/// History is made anew where it has more or fewer rows than it needs by one in so many.
const SLACK_ONE_IN: usize = 32;

/// How a page left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// It had to go.
    Evicted,
    /// Its owner has it, or made it void.
    Taken,
}

/// A line of words, the newest first.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Words([AtomicU64; PAIRS]);

/// Words that are read and written at once: the newer one in the lower half.
const PAIRS: usize = LINE / 2;

impl Words {
    fn get(&self, at: usize) -> u32 {
        (self.pair(at / 2) >> (at % 2 * 32)) as u32
    }

    fn pair(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// Each pair takes over the older word of the one before.
    fn push(&self, word: u32) {
        let mut newer = word;
        for at in 0..PAIRS {
            let pair = self.pair(at);
            self.0[at].store(pair << 32 | u64::from(newer), Ordering::Relaxed);
            newer = (pair >> 32) as u32;
            if newer == 0 {
                return;
            }
        }
    }

    /// Takes the newest word of a name.
    fn take(&self, name: u32) -> Option<u32> {
        let is_named = |word: u32| word & !u32::from(USES_MAX) == name;
        let is_in = |pair: u64| is_named(pair as u32) || is_named((pair >> 32) as u32);
        let first = (0..PAIRS).find(|at| is_in(self.pair(*at)))?;
        let at = 2 * first + usize::from(!is_named(self.get(2 * first)));
        let word = self.get(at);
        // The older ones move up.
        let words = |at: usize| match at {
            LINE => 0,
            at => u64::from(self.get(at)),
        };
        for pair in first..PAIRS {
            let newer = match 2 * pair < at {
                true => words(2 * pair),
                false => words(2 * pair + 1),
            };
            let older = words(2 * pair + 2);
            self.0[pair].store(older << 32 | newer, Ordering::Relaxed);
        }
        Some(word)
    }
}

/// Both lines of a place.
#[derive(Debug, Default)]
struct Place([Words; 2]);

/// What is remembered of a tenant's pages.
#[derive(Debug, Default)]
pub(super) struct History {
    rows: Box<[[Place; PARTS]]>,
}

impl History {
    /// The same with as much place as so many pages need; `None` if it has that, or nearly.
    pub(super) fn fitted(&self, pages: u64) -> Option<History> {
        let has = self.rows.len();
        let needs = (pages / ROW_PAGES).max(pages.min(1)) as usize;
        let is_fit = has.abs_diff(needs) <= needs / SLACK_ONE_IN;
        (!is_fit).then(|| self.resized(needs))
    }

    /// With so many rows. From the oldest word of each line on, so that lines keep their order.
    fn resized(&self, rows: usize) -> History {
        let resized = History {
            rows: (0..rows).map(|_| Default::default()).collect(),
        };
        for at in (0..LINE).rev() {
            for (part, place) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
                for (from, left) in place.0.iter().zip(0..) {
                    let word = from.get(at);
                    if word != 0 && rows > 0 {
                        resized.rows[row_of(word, rows)][part].0[left].push(word);
                    }
                }
            }
        }
        resized
    }

    fn place_of(&self, hash: u64) -> Option<&Place> {
        let rows = self.rows.len();
        let part = (hash >> (64 - u32::BITS)) as usize % PARTS;
        (rows > 0).then(|| &self.rows[row_of(name(hash), rows)][part])
    }

    /// Remembers a page that had so many uses.
    pub(super) fn remember(&self, hash: u64, uses: u8, left: Left) {
        if let Some(place) = self.place_of(hash) {
            place.0[left as usize].push(name(hash) | u32::from(uses.min(USES_MAX)));
        }
    }

    /// Takes a page's uses from it, if it is remembered.
    pub(super) fn recall(&self, hash: u64) -> Option<u8> {
        let lines = &self.place_of(hash)?.0;
        let word = lines.iter().find_map(|line| line.take(name(hash)))?;
        Some(word as u8 & USES_MAX)
    }

    /// What it touches when that happens to a page: the first line, and how many.
    pub(super) fn lines(&self, hash: u64, step: Step) -> Option<(Line, usize)> {
        let [evicted, taken] = &self.place_of(hash)?.0;
        Some(match step {
            Step::Comes => (Line::of(evicted), 2),
            Step::Leaves => (Line::of(taken), 1),
            Step::Goes => (Line::of(evicted), 1),
        })
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.rows) as u64
    }
}

/// A page's name: 28 bits of its hash, above the bits of its uses. Never none.
fn name(hash: u64) -> u32 {
    let name = (hash >> 32) as u32 & !u32::from(USES_MAX);
    name.max(u32::from(USES_MAX) + 1)
}

/// The row of a name, or of a word with it.
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
        history.remember(hash(1), 1, Left::Taken);
        assert_eq!(history.recall(hash(1)), None, "no place was made");
        let history = history.fitted(1000).expect("larger");
        for n in 1..=1000 {
            history.remember(hash(n), (n % 40) as u8, Left::Evicted);
            history.remember(hash(n + 5000), 7, Left::Taken);
        }
        let uses = |n: &u64| history.recall(hash(*n)) == Some((n % 40).min(15) as u8);
        assert!((1..=1000).filter(uses).count() > 900);
        assert!(found(&history, 5001..=6000) > 900);
        assert_eq!(found(&history, 1..=1000), 0);
    }

    #[test]
    fn a_larger_size_forgets_nothing_and_a_smaller_one_what_has_no_place() {
        let small = History::default().fitted(4000).expect("larger");
        (1..=3000).for_each(|n| small.remember(hash(n), 1, Left::Evicted));
        assert!(small.fitted(4050).is_none(), "nearly the same");
        let large = small.fitted(40_000).expect("larger");
        assert!(found(&large, 1..=1000) > 980);
        (1..=1000).for_each(|n| large.remember(hash(n), 1, Left::Evicted));
        let small = large.fitted(1500).expect("smaller");
        assert!(small.bytes() <= 10 * 1500 + 2048, "{}", small.bytes());
        let left = found(&small, 1..=3000);
        assert!((1200..1900).contains(&left), "{left}");
    }
}
