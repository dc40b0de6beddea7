//! Ghosts: pages that left recently. Each is a part of the page's hash with the uses that it had.
//!
//! A ghost takes four bytes. Ghosts are kept in buckets of one cache line. Each bucket is a small queue of its own: its
//! oldest ghost goes when a new one needs the place. All buckets together forget almost like one queue.

use crate::arena::PrefetchAddress;

/// Ghosts in a bucket.
const BUCKET: usize = 16;

/// Bits of the hash that a ghost keeps; two more hold its uses.
const NAME_BITS: u32 = 30;

/// Growth per step: a quarter.
const GROWTH: usize = 4;

/// The least number of departures in a row that must need little of the space before it is given back.
const DEPARTURES: usize = 2048;

/// The empty place; names are never zero.
const NONE: u32 = 0;

/// Some ghosts, the newest first. A bucket is a cache line.
#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
struct Bucket([u32; BUCKET]);

/// The ghosts of one shard.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    buckets: Vec<Bucket>,
    /// Departures in a row that found most of the space unneeded.
    too_large: usize,
}

impl Ghosts {
    /// Makes space for at least `count` ghosts.
    pub(crate) fn make_place(&mut self, count: usize) {
        let wanted = count.div_ceil(BUCKET);
        if wanted > self.buckets.len() {
            self.resize(wanted.max(self.buckets.len() + self.buckets.len() / GROWTH));
        }
    }

    /// Gives back space that `count` ghosts have not needed for as many departures as there are buckets. A shard that
    /// is small only for a moment keeps its ghosts and pays nothing.
    pub(crate) fn shrink_to(&mut self, count: usize) {
        let wanted = count.div_ceil(BUCKET);
        if wanted >= self.buckets.len() / 4 {
            self.too_large = 0;
            return;
        }
        self.too_large += 1;
        if self.too_large > self.buckets.len().max(DEPARTURES) {
            self.resize(wanted);
        }
    }

    fn resize(&mut self, buckets: usize) {
        self.too_large = 0;
        let old = std::mem::replace(&mut self.buckets, vec![Bucket([NONE; BUCKET]); buckets]);
        // From the oldest on, so that each bucket keeps its order.
        for age in (0..BUCKET).rev() {
            for ghost in old
                .iter()
                .map(|bucket| bucket.0[age])
                .filter(|ghost| *ghost != NONE)
            {
                self.push(ghost);
            }
        }
    }

    fn name(hash: u64) -> u32 {
        ((hash >> (64 - NAME_BITS)) as u32).max(1) << (32 - NAME_BITS)
    }

    fn bucket(&self, ghost: u32) -> usize {
        let name = u64::from(ghost >> (32 - NAME_BITS));
        ((name * self.buckets.len() as u64) >> NAME_BITS) as usize
    }

    fn push(&mut self, ghost: u32) {
        if self.buckets.is_empty() {
            return;
        }
        let at = self.bucket(ghost);
        let bucket = &mut self.buckets[at].0;
        let before = *bucket;
        bucket[0] = ghost;
        bucket[1..].copy_from_slice(&before[..BUCKET - 1]);
    }

    /// Remembers a page that had `hits` uses, at most 3.
    pub(crate) fn remember(&mut self, hash: u64, hits: u8) {
        self.push(Self::name(hash) | u32::from(hits & 3));
    }

    /// Removes a page's ghost and returns the uses that it had.
    pub(crate) fn recall(&mut self, hash: u64) -> Option<u8> {
        if self.buckets.is_empty() {
            return None;
        }
        let name = Self::name(hash);
        let at = self.bucket(name);
        let bucket = &mut self.buckets[at].0;
        let place = place_of(bucket, name)?;
        let hits = (bucket[place] & 3) as u8;
        bucket.copy_within(place + 1.., place);
        bucket[BUCKET - 1] = NONE;
        Some(hits)
    }

    /// The cache line of a page's ghost.
    pub(crate) fn line(&self, hash: u64) -> Option<PrefetchAddress> {
        if self.buckets.is_empty() {
            return None;
        }
        Some(PrefetchAddress::of(
            &self.buckets[self.bucket(Self::name(hash))],
        ))
    }

    /// Bytes that the ghosts take.
    pub(crate) fn bytes(&self) -> u64 {
        (self.buckets.capacity() * size_of::<Bucket>()) as u64
    }
}

/// The index of the newest ghost of a name. All are compared side by side, because most often none matches.
fn place_of(bucket: &[u32; BUCKET], name: u32) -> Option<usize> {
    let same = |ghost: &u32| u32::from(ghost & !3 == name);
    let found = (0..)
        .zip(bucket)
        .fold(0, |found, (place, ghost)| found | same(ghost) << place);
    (found != 0).then(|| found.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn what_left_last_is_remembered_with_its_uses_and_recalled_once() {
        let mut ghosts = Ghosts::default();
        ghosts.remember(hash(1), 1);
        assert_eq!(ghosts.recall(hash(1)), None, "no place was made");
        ghosts.make_place(1000);
        for n in 1..=1000 {
            ghosts.remember(hash(n), (n % 4) as u8);
        }
        let newest = (801..=1000).filter(|n| ghosts.recall(hash(*n)) == Some((n % 4) as u8));
        assert!(newest.count() > 190);
        assert_eq!(ghosts.recall(hash(1000)), None, "it was recalled");
    }

    #[test]
    fn growing_forgets_nothing_and_keeps_the_order() {
        let mut ghosts = Ghosts::default();
        ghosts.make_place(4000);
        (1..=1000).for_each(|n| ghosts.remember(hash(n), 0));
        ghosts.make_place(9000);
        (1001..=9000).for_each(|n| ghosts.remember(hash(n), 0));
        let newer = (7001..=9000).filter(|n| ghosts.recall(hash(*n)).is_some());
        assert!(newer.count() > 1900);
        let older = (1..=100).filter(|n| ghosts.recall(hash(*n)).is_some());
        assert!(older.count() > 40, "9,000 places for 9,000 pages");
    }

    #[test]
    fn place_is_given_back_that_was_not_needed_for_long() {
        let mut ghosts = Ghosts::default();
        ghosts.make_place(9000);
        let large = ghosts.bytes();
        for _ in 0..3 {
            (0..2000).for_each(|_| ghosts.shrink_to(100));
            assert_eq!(ghosts.bytes(), large);
            ghosts.shrink_to(3000);
        }
        (0..2100).for_each(|_| ghosts.shrink_to(100));
        assert!(ghosts.bytes() <= 1000);
    }
}
