//! The shadow of one tenant's items: a stack by last use, in which each item weighs its bytes.
//!
//! ```text
//!  most recent                    least         a cache of n bytes holds what stands within the first n bytes
//!   A 100   B 700   C 50   D 400
//!  get C     C 50   A 100   B 700   D 400       C would have been a hit with 850 bytes and more
//! ```
//!
//! This is SHARDS for items: items are sampled by hash as pages are, and thinned out by hash
//! ([`Shadow`](super::Shadow)). A get moves an item to the top, so there are no holes. The curve ignores what a cache
//! of segments does better or worse than this order.

use std::collections::HashMap;

use sublet_types::{Curve, PAGE_BYTES, Pages, Second};

use super::histogram::{HitHistogram, ReuseDistance, SHORT};
use super::sampling_rate::SamplingRate;
use super::shadow::SAMPLE_ONE_IN;

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemAccess {
    /// It was stored, and takes this many bytes.
    Stored(u32),
    /// It was asked for.
    Get,
    /// It was deleted, or has expired.
    Gone,
}

/// Stamps that a new stack has room for.
const STAMPS_MIN: usize = 64;

/// How many hits a tenant's items would have with more or less memory, learnt from sampled uses.
#[derive(Clone, Debug)]
pub struct ItemShadow {
    entries_max: usize,
    sample: SamplingRate,
    /// No cache is larger than this, so the shadow remembers nothing deeper.
    reach: Pages,
    stack: WeightedStack,
    histogram: HitHistogram,
}

impl ItemShadow {
    /// An empty shadow with room for `entries_max` items, for a tenant that could have at most `reach`.
    pub fn new(now: Second, reach: Pages, entries_max: usize) -> ItemShadow {
        ItemShadow {
            entries_max: entries_max.max(1),
            sample: SamplingRate::default(),
            reach,
            stack: WeightedStack::default(),
            histogram: HitHistogram::new(now),
        }
    }

    /// Takes in a use of a sampled item.
    pub fn feed(&mut self, hash: u64, access: ItemAccess) {
        if !self.sample.has(hash) {
            return;
        }
        match access {
            ItemAccess::Stored(bytes) => self.store(hash, bytes),
            ItemAccess::Get => self.get(hash),
            ItemAccess::Gone => {
                self.stack.take(hash);
            }
        }
    }

    fn get(&mut self, hash: u64) {
        let scale = self.scale();
        self.histogram.get(scale);
        let mean = self.stack.mean_bytes();
        if let Some((above, bytes)) = self.stack.take(hash) {
            let needed = (above as f64 * scale + f64::from(bytes)) / PAGE_BYTES as f64;
            let distance = match above < SHORT as u64 * mean {
                true => ReuseDistance::Short,
                false => ReuseDistance::Long,
            };
            self.histogram.hit_at(needed as u64 + 1, distance, scale);
            self.stack.push(hash, bytes);
        }
    }

    fn store(&mut self, hash: u64, bytes: u32) {
        self.stack.take(hash);
        self.stack.push(hash, bytes);
        if self.stack.len() > self.entries_max {
            self.make_room();
        }
    }

    /// Forgets what is out of reach, and thins the sample out if that is not enough.
    fn make_room(&mut self) {
        let within_reach = self.reach.0 as f64 * PAGE_BYTES as f64 / self.scale();
        self.stack.sweep(within_reach as u64, |_| true);
        let staying = SamplingRate::staying(self.entries_max);
        while self.stack.len() > staying && self.sample.thin() {
            let sample = self.sample;
            self.stack.sweep(u64::MAX, |hash| sample.has(hash));
        }
    }

    /// The number of items that each entry stands for.
    fn scale(&self) -> f64 {
        SAMPLE_ONE_IN as f64 * self.sample.one_in()
    }

    /// Gets per second, lately: the curve's hits are a part of them.
    pub fn gets_a_second(&self) -> f64 {
        self.histogram.gets_a_second()
    }

    /// Ends an interval in which the tenant had `gets` gets, sampled or not. Returns the hits that it would have had
    /// lately with more or less memory, in bytes of items. `reach` is what it could have from now on.
    pub fn close(&mut self, now: Second, gets: u64, reach: Pages) -> Curve {
        self.reach = reach;
        self.histogram.close(now, gets);
        self.histogram.curve()
    }
}

/// Items by when they were used last.
#[derive(Clone, Debug, Default)]
struct WeightedStack {
    /// By stamp, the longest unused first.
    slots: Vec<Option<(u64, u32)>>,
    /// A Fenwick tree over their bytes: `sums[n - 1]` covers the stamps from n minus its lowest set bit up to n.
    sums: Vec<u64>,
    /// Bytes of all of them.
    bytes: u64,
    stamps: HashMap<u64, u32>,
}

impl WeightedStack {
    fn len(&self) -> usize {
        self.stamps.len()
    }

    /// The mean bytes per item.
    fn mean_bytes(&self) -> u64 {
        self.bytes / (self.len() as u64).max(1)
    }

    /// Puts an item on top. The item must not be there yet.
    fn push(&mut self, hash: u64, bytes: u32) {
        if self.slots.len() == self.sums.len() {
            self.sweep(u64::MAX, |_| true);
        }
        let stamp = self.slots.len();
        self.slots.push(Some((hash, bytes)));
        self.walk(stamp, |sum| sum + u64::from(bytes));
        self.bytes += u64::from(bytes);
        self.stamps.insert(hash, stamp as u32);
    }

    /// Removes an item. Returns how many bytes stood above it, and its own bytes.
    fn take(&mut self, hash: u64) -> Option<(u64, u32)> {
        let stamp = self.stamps.remove(&hash)? as usize;
        let (_, bytes) = self.slots[stamp].take()?;
        let above = self.bytes - self.up_to(stamp);
        self.walk(stamp, |sum| sum - u64::from(bytes));
        self.bytes -= u64::from(bytes);
        Some((above, bytes))
    }

    fn up_to(&self, stamp: usize) -> u64 {
        let mut n = stamp + 1;
        let mut sum = 0;
        while n > 0 {
            sum += self.sums[n - 1];
            n &= n - 1;
        }
        sum
    }

    fn walk(&mut self, stamp: usize, change: impl Fn(u64) -> u64) {
        let mut n = stamp + 1;
        while n <= self.sums.len() {
            self.sums[n - 1] = change(self.sums[n - 1]);
            n += n & n.wrapping_neg();
        }
    }

    /// Drops entries that `keep` rejects and those below the uppermost `most` bytes. Makes room for as many stamps
    /// again.
    fn sweep(&mut self, most: u64, keep: impl Fn(u64) -> bool) {
        let mut bytes = 0;
        let standing = self.slots.iter().rev().flatten();
        let mut kept: Vec<(u64, u32)> = standing
            .filter(|(hash, _)| keep(*hash))
            .take_while(|(_, own)| {
                bytes += u64::from(*own);
                bytes <= most
            })
            .copied()
            .collect();
        kept.reverse();
        self.sums = vec![0; (kept.len() * 2).max(STAMPS_MIN)];
        self.slots = Vec::with_capacity(self.sums.len());
        self.stamps.clear();
        self.bytes = 0;
        for (hash, bytes) in kept {
            self.push(hash, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same operation on a list, the most recent item first.
    fn take_plain(list: &mut Vec<(u64, u32)>, hash: u64) -> Option<(u64, u32)> {
        let at = list.iter().position(|one| one.0 == hash)?;
        let above = list[..at].iter().map(|one| u64::from(one.1)).sum();
        Some((above, list.remove(at).1))
    }

    proptest! {
        #[test]
        fn it_weighs_as_a_plain_list_does(
            turns in prop::collection::vec((any::<bool>(), 0u64..40, 1u32..5000), 0..400),
            most in 0u64..60_000,
        ) {
            let (mut stack, mut plain) = (WeightedStack::default(), Vec::new());
            for (is_stored, hash, bytes) in turns {
                let taken = stack.take(hash);
                prop_assert_eq!(taken, take_plain(&mut plain, hash));
                if let Some(bytes) = is_stored.then_some(bytes).or(taken.map(|one| one.1)) {
                    stack.push(hash, bytes);
                    plain.insert(0, (hash, bytes));
                }
            }
            stack.sweep(most, |hash| hash % 3 > 0);
            plain.retain(|one| one.0 % 3 > 0);
            let mut bytes = 0;
            let fits = |one: &&(u64, u32)| { bytes += u64::from(one.1); bytes <= most };
            let left = plain.iter().take_while(fits).count();
            plain.truncate(left);
            prop_assert_eq!(stack.len(), plain.len());
            for hash in 0..40 {
                prop_assert_eq!(stack.clone().take(hash), take_plain(&mut plain.clone(), hash));
            }
        }
    }

    fn points(curve: &Curve) -> Vec<(u64, f64)> {
        let points = curve.points.iter().map(|(pages, hits)| (pages.0, *hits));
        points.collect()
    }

    /// Each sampled item stands for sixteen. Three above of 8 KiB, and the item itself, need 97 pages and more.
    #[test]
    fn a_hit_needs_the_bytes_above_it_and_its_own() {
        let mut shadow = ItemShadow::new(Second(0), Pages(1 << 20), 100);
        for hash in 1..=4 {
            shadow.feed(hash * 16, ItemAccess::Stored(8192));
        }
        shadow.feed(16, ItemAccess::Get);
        shadow.feed(32, ItemAccess::Gone);
        shadow.feed(32, ItemAccess::Get);
        let curve = shadow.close(Second(10), 32, Pages(1 << 20));
        let kept = crate::decay::kept_after(10);
        let [nothing, below, all] = points(&curve)[..] else {
            panic!("three points: {curve:?}");
        };
        assert_eq!(nothing, (0, 0.0));
        assert_eq!(below.1, 0.0);
        // 3 × 16 × 2 pages above, 2 of its own: the bucket of 99 is 96 to 99.
        assert!(
            below.0 < 99 && all.0 >= 99 && all.0 - below.0 <= 8,
            "{curve:?}"
        );
        assert!(
            (all.1 - 16.0 * kept / (10.0 * kept)).abs() < 1e-9,
            "{curve:?}"
        );
    }

    #[test]
    fn a_stream_of_many_items_is_measured_by_few_entries() {
        let items = 200_000u64;
        let mut shadow = ItemShadow::new(Second(0), Pages(1 << 20), 2000);
        let hash = |n: u64| super::super::stack::mix_bits(n ^ 0x5bd1_e995);
        let mut gets = 0;
        // A loop over all of them hits for a cache that holds all, and for no other.
        for n in (0..items).cycle().take(3 * items as usize) {
            gets += 1;
            let hash = hash(n);
            if super::super::is_sampled(hash) {
                shadow.feed(hash, ItemAccess::Get);
                shadow.feed(hash, ItemAccess::Stored(1024));
            }
        }
        let curve = shadow.close(Second(0), gets, Pages(1 << 20));
        assert!(shadow.stack.len() <= 2000);
        assert_eq!(curve.points.len(), 1, "no second has passed: {curve:?}");
        let curve = shadow.close(Second(1), 0, Pages(1 << 20));
        let hit_curve = super::super::MonotoneCurve::of(&curve);
        let all = items * 1024 / PAGE_BYTES;
        let (few, most) = (hit_curve.hits(all * 8 / 10), hit_curve.hits(all * 12 / 10));
        assert!(few < 0.02 * most && most > 0.0, "{few} of {most}");
    }
}
