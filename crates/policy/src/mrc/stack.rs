//! The stack of an exclusive tier: it models every size of the tier at once.
//!
//! ```text
//!            1   2   3   4   5         a tier of n pages holds what stands in the first n places
//!            D   ·   B   A   ·         · is a hole: a page that a get or a flush took away
//!  put E     E   D   B   A   ·         E goes on top and pushes down; the topmost hole takes the push in
//!  put F     F   E   D   B   A
//!  get D     F   E   ·   B   A         D would have been a hit for any tier of 3 pages or more
//! ```
//!
//! A count of the distinct pages put since would not do. Below a hole nothing moves, so a page that was put before many
//! others may still be within reach. A count of those still there would not do either: what a small tier evicted does
//! not come back when a hole opens above it. With holes the stack is exact for a tier that evicts by age of the put.
//! (Stacks with holes are known from invalidations in the memories of multiprocessors: Thompson and Smith, TOCS 1989.)

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::fenwick::FenwickTree;

/// A new stack has room for this many stamps.
const STAMPS_MIN: usize = 64;

/// A page, a hole or nothing, at the stamp of its put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StackEntry {
    Page(u64),
    /// It keeps the hash of the page that left it, so that holes are thinned out as pages are.
    Hole(u64),
    Gone,
}

/// Pages of one tenant by when they were put.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExclusiveStack {
    /// By stamp, the oldest first.
    slots: Vec<StackEntry>,
    /// Counts the slots that are pages or holes.
    standing: FenwickTree,
    capacity: usize,
    stamps: HashMap<u64, u32, BuildHasherDefault<MixHasher>>,
    holes: BTreeSet<u32>,
}

impl ExclusiveStack {
    /// The number of pages and holes.
    pub(crate) fn len(&self) -> usize {
        self.stamps.len() + self.holes.len()
    }

    /// Puts a page on top.
    pub(crate) fn push(&mut self, hash: u64) {
        if self.slots.len() == self.capacity {
            self.sweep(usize::MAX, |_| true);
        }
        self.take(hash);
        if let Some(hole) = self.holes.pop_last() {
            self.standing.fell(hole as usize);
            self.slots[hole as usize] = StackEntry::Gone;
        }
        let stamp = self.slots.len();
        self.slots.push(StackEntry::Page(hash));
        self.standing.raise(stamp);
        self.stamps.insert(hash, stamp as u32);
    }

    /// Turns a page into a hole, for a get or a flush. Returns how many pages and holes stood above it, if it was
    /// there.
    pub(crate) fn take(&mut self, hash: u64) -> Option<usize> {
        let stamp = self.stamps.remove(&hash)?;
        self.slots[stamp as usize] = StackEntry::Hole(hash);
        self.holes.insert(stamp);
        Some(self.above(stamp))
    }

    fn above(&self, stamp: u32) -> usize {
        self.len() - self.standing.standing_up_to(stamp as usize)
    }

    /// Drops entries that `keep` rejects, all but the `most` newest, and the holes at the bottom, which make no
    /// difference. Makes room for as many stamps again.
    pub(crate) fn sweep(&mut self, most: usize, keep: impl Fn(u64) -> bool) {
        let kept = |slot: &StackEntry| match *slot {
            StackEntry::Page(hash) | StackEntry::Hole(hash) => keep(hash),
            StackEntry::Gone => false,
        };
        let mut slots: Vec<StackEntry> = self.slots.iter().copied().filter(kept).collect();
        let too_old = slots.len().saturating_sub(most);
        let is_page = |slot: &StackEntry| matches!(slot, StackEntry::Page(_));
        let bottom = slots[too_old..].iter().position(is_page);
        slots.drain(..bottom.map_or(slots.len(), |holes| too_old + holes));
        self.rebuild(slots);
    }

    fn rebuild(&mut self, mut slots: Vec<StackEntry>) {
        self.capacity = (slots.len() * 2).max(STAMPS_MIN);
        slots.reserve_exact(self.capacity - slots.len());
        self.standing = FenwickTree::new(self.capacity, slots.len());
        self.stamps.clear();
        self.holes.clear();
        for (stamp, slot) in slots.iter().enumerate() {
            match slot {
                StackEntry::Page(hash) => {
                    self.stamps.insert(*hash, stamp as u32);
                }
                StackEntry::Hole(_) => {
                    self.holes.insert(stamp as u32);
                }
                StackEntry::Gone => {}
            }
        }
        self.slots = slots;
    }
}

/// Spreads the bits of a hash, some of which a sample fixes (the finaliser of SplitMix64).
pub(crate) fn mix_bits(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// A hasher for keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct MixHasher(u64);

impl Hasher for MixHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = mix_bits(self.0 ^ hash);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exclusive tiers of every size, each kept on its own.
    struct Tiers(Vec<Vec<u64>>);

    impl Tiers {
        fn put(&mut self, page: u64) {
            for (size, tier) in self.0.iter_mut().enumerate() {
                tier.retain(|other| *other != page);
                tier.push(page);
                if tier.len() > size {
                    tier.remove(0);
                }
            }
        }

        /// The smallest tier that had the page.
        fn take(&mut self, page: u64) -> Option<usize> {
            let has = |tier: &Vec<u64>| tier.contains(&page);
            let smallest = self.0.iter().position(has);
            for tier in &mut self.0 {
                tier.retain(|other| *other != page);
            }
            smallest
        }
    }

    proptest! {
        #[test]
        fn a_hit_is_one_for_exactly_the_tiers_that_held_the_page(
            turns in prop::collection::vec((any::<bool>(), 0u64..20), 0..400),
        ) {
            let mut tiers = Tiers(vec![Vec::new(); 24]);
            let mut stack = ExclusiveStack::default();
            for (is_put, page) in turns {
                if is_put {
                    tiers.put(page);
                    stack.push(page);
                } else {
                    prop_assert_eq!(stack.take(page).map(|above| above + 1), tiers.take(page));
                }
            }
        }

        #[test]
        fn a_sweep_changes_no_distance_of_what_it_keeps(
            turns in prop::collection::vec((any::<bool>(), 0u64..40), 0..200),
        ) {
            let mut stack = ExclusiveStack::default();
            for (is_put, page) in turns {
                if is_put { stack.push(page) } else { stack.take(page); }
            }
            let mut swept = stack.clone();
            swept.sweep(10, |_| true);
            prop_assert!(swept.len() <= 10);
            for page in 0..40 {
                let (stays, was) = (swept.clone().take(page), stack.clone().take(page));
                prop_assert_eq!(stays, was.filter(|above| *above < 10));
            }
        }
    }

    #[test]
    fn stamps_never_run_out() {
        let mut stack = ExclusiveStack::default();
        for turn in 0..10_000u64 {
            stack.push(turn % 100);
        }
        assert_eq!(stack.len(), 100);
        assert!(stack.capacity <= 256);
        assert_eq!(stack.take(0), Some(99));
    }
}
