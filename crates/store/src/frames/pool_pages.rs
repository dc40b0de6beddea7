//! How many pages of each pool are in memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// The most pools of a daemon, handles on shared ones among them.
pub(crate) const POOLS_MAX: usize = 16 << 10;

/// Counters of a pool, so that threads seldom write the same line. A power of two.
const STRIPES: usize = 4;

/// Pages in frames, by pool. Those of a dropped block count until it is swept.
pub(crate) struct PoolPages {
    pools: Box<[OnceLock<Box<Stripes>>]>,
}

/// Parts of a count. A part may be below zero, as it wraps: the sum is right.
type Stripes = [CachePadded<AtomicU64>; STRIPES];

impl PoolPages {
    /// None yet, of so many pools.
    pub(super) fn new(pools: usize) -> PoolPages {
        PoolPages {
            pools: (0..pools).map(|_| OnceLock::new()).collect(),
        }
    }

    fn part(&self, pool: u32, shard: u8) -> &AtomicU64 {
        let stripes = self.pools[pool as usize].get_or_init(Box::default);
        &stripes[usize::from(shard) % STRIPES]
    }

    /// Counts a page that came into a frame.
    #[inline]
    pub(crate) fn came(&self, pool: u32, shard: u8) {
        self.part(pool, shard).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a page that left its frame.
    #[inline]
    pub(crate) fn went(&self, pool: u32, shard: u8) {
        self.part(pool, shard).fetch_sub(1, Ordering::Relaxed);
    }

    /// Pages of a pool that are in frames, now.
    pub(crate) fn of(&self, pool: u32) -> u64 {
        let stripes = self.pools.get(pool as usize).and_then(OnceLock::get);
        let parts = stripes.into_iter().flat_map(|stripes| stripes.iter());
        let sum = parts.fold(0_u64, |sum, part| {
            sum.wrapping_add(part.load(Ordering::Relaxed))
        });
        u64::try_from(sum as i64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_for_their_pool_whichever_shard_they_go_from() {
        let pages = PoolPages::new(4);
        for shard in 0..10 {
            pages.came(1, shard);
        }
        pages.came(2, 0);
        for shard in [3, 3, 3, 7] {
            pages.went(1, shard);
        }
        assert_eq!([0, 1, 2, 3].map(|pool| pages.of(pool)), [0, 6, 1, 0]);
    }
}
