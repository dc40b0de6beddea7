//! History: the pages that left a tenant not long ago, by a part of their hash, with the uses they had.
//!
//! Ten bytes a page, in cache lines of two queues: six pages that were evicted, and ten that somebody came for. All lines
//! together forget like one queue of each kind, nearly. Shards share it: a page's place says nothing of its object, so that an
//! object that comes all at once is remembered as long as any.
//!
//! Words are read and written without a lock. Whoever meets another in a line may lose a page from it, or leave it there
//! twice; neither is more than a wrong guess at what will be asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::Line;

/// Words of a line, in pairs that are read and written at once: the newer one in the lower half.
const PAIRS: usize = 8;

/// Those of pages that were evicted. With as many for each kind more was missed of loops
/// (docs/decisions/2026-11-25-one-order-over-shards.md).
const EVICTED_PAIRS: usize = 3;

/// Bits of a word that are uses; the rest are its page's name.
const USES_BITS: u32 = 4;

/// Uses that are told apart.
pub(super) const USES_MAX: u8 = (1 << USES_BITS) - 1;

/// Places of a row, told by bits of the hash that are in no name.
const PARTS: usize = 16;

/// Pages of a tenant for which a row is enough: nearly one that was evicted and 1.6 that were taken for each. A line's load
/// differs from another's by chance, and with less some forget too soon.
const ROW_PAGES: u64 = 100;

/// History is made anew where it has more or fewer rows than it needs by one in so many.
const SLACK_ONE_IN: usize = 32;

/// How a page left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It had to go.
    Evicted,
    /// Its owner has it, or made it void.
    Taken,
}

/// A place: a queue of words of each kind, the newest first.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Place([AtomicU64; PAIRS]);

/// One in each half of a pair.
const ONES: u64 = 1 << 32 | 1;

/// What is not zero where a word of a pair has this name: its uses are not compared.
fn named(pair: u64, name: u32) -> u64 {
    let other = (pair ^ (u64::from(name) * ONES)) & !(u64::from(USES_MAX) * ONES);
    // Of a half that is zero alone the topmost bit is borrowed, or of one above such a half.
    other.wrapping_sub(ONES) & !other & ONES << 31
}

impl Place {
    fn queue(&self, left: Left) -> &[AtomicU64] {
        let (evicted, taken) = self.0.split_at(EVICTED_PAIRS);
        match left {
            Left::Evicted => evicted,
            Left::Taken => taken,
        }
    }

    /// Each pair takes over the older word of the one before.
    fn push(&self, left: Left, word: u32) {
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

    /// Takes the newest word of a name. Most often there is none.
    fn take(&self, name: u32) -> Option<u32> {
        let found = self.0.iter().fold(0, |found, pair| {
            found | named(pair.load(Ordering::Relaxed), name)
        });
        if found == 0 {
            return None;
        }
        let mut kinds = [Left::Evicted, Left::Taken].into_iter();
        kinds.find_map(|left| self.take_of(left, name))
    }

    fn take_of(&self, left: Left, name: u32) -> Option<u32> {
        let queue = self.queue(left);
        let pair = |at: usize| queue.get(at).map_or(0, |pair| pair.load(Ordering::Relaxed));
        let mut pairs = (0..queue.len()).map(|at| (at, pair(at)));
        let (first, words) = pairs.find(|(_, words)| named(*words, name) != 0)?;
        let (newer, older) = (words as u32, (words >> 32) as u32);
        let (word, mut stays) = match newer & !u32::from(USES_MAX) == name {
            true => (newer, older),
            false => (older, newer),
        };
        // The older ones move up.
        for (at, pair_there) in queue.iter().enumerate().skip(first) {
            let next = pair(at + 1);
            pair_there.store(next << 32 | u64::from(stays), Ordering::Relaxed);
            stays = (next >> 32) as u32;
        }
        Some(word)
    }
}

/// What is remembered of a tenant's pages.
#[derive(Debug, Default)]
pub(super) struct History {
    /// In rows of [`PARTS`].
    places: Box<[Place]>,
}

impl History {
    /// The same with as much place as so many pages need; `None` if it has that, or nearly.
    pub(super) fn fitted(&self, pages: u64) -> Option<History> {
        let has = self.places.len() / PARTS;
        let needs = (pages / ROW_PAGES).max(pages.min(1)) as usize;
        let is_fit = has.abs_diff(needs) <= needs / SLACK_ONE_IN;
        (!is_fit).then(|| self.resized(needs))
    }

    /// With so many rows. From the oldest word of each line on, so that lines keep their order.
    fn resized(&self, rows: usize) -> History {
        let resized = History {
            places: (0..rows * PARTS).map(|_| Place::default()).collect(),
        };
        for at in (0..PAIRS).rev() {
            for (nth, place) in self.places.iter().enumerate() {
                for left in [Left::Evicted, Left::Taken] {
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

    /// Takes over a word, if it is one.
    fn keep(&self, left: Left, word: u32, part: usize) {
        let row = row_of(word, self.places.len() / PARTS);
        if word != 0
            && let Some(place) = self.places.get(row * PARTS + part)
        {
            place.push(left, word);
        }
    }

    #[inline]
    fn place_of(&self, hash: u64) -> Option<&Place> {
        let row = row_of(name(hash), self.places.len() / PARTS);
        let part = (hash >> (64 - u32::BITS)) as usize % PARTS;
        self.places.get(row * PARTS + part)
    }

    /// Remembers a page that had so many uses.
    pub(super) fn remember(&self, hash: u64, uses: u8, left: Left) {
        if let Some(place) = self.place_of(hash) {
            place.push(left, name(hash) | u32::from(uses.min(USES_MAX)));
        }
    }

    /// Takes a page's uses from it, if it is remembered.
    pub(super) fn recall(&self, hash: u64) -> Option<u8> {
        let word = self.place_of(hash)?.take(name(hash))?;
        Some(word as u8 & USES_MAX)
    }

    /// The line that it touches for a page.
    pub(super) fn line(&self, hash: u64) -> Option<Line> {
        self.place_of(hash).map(Line::of)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.places) as u64
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
        (1..=1500).for_each(|n| small.remember(hash(n), 1, Left::Evicted));
        assert!(small.fitted(4050).is_none(), "nearly the same");
        let large = small.fitted(40_000).expect("larger");
        assert!(found(&large, 1..=500) > 490);
        (1..=500).for_each(|n| large.remember(hash(n), 1, Left::Evicted));
        let small = large.fitted(1000).expect("smaller");
        assert!(small.bytes() <= 12 * 1000, "{}", small.bytes());
        let left = found(&small, 1..=1500);
        assert!((850..=960).contains(&left), "{left}");
    }
}
