//! How many pages of each pool are in memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most pools of a daemon, including handles on shared ones.
pub(crate) const POOLS_MAX: usize = 16 << 10;

/// Pages in frames, by pool. Those of a dropped block count until the block is swept.
pub(crate) struct PoolPages {
    pools: Box<[OnceLock<ShardCounters>]>,
    /// Shards of a tenant.
    shards: usize,
}

/// A pool's pages in each shard. Only the holder of the shard's lock counts there, with plain stores. An atomic
/// addition would wait until every earlier page write has reached memory.
type ShardCounters = Box<[AtomicU32]>;

impl PoolPages {
    /// Empty counters for this many pools, whose tenants have this many shards each.
    pub(super) fn new(pools: usize, shards: usize) -> PoolPages {
        PoolPages {
            pools: (0..pools).map(|_| OnceLock::new()).collect(),
            shards,
        }
    }

    /// Allocates a pool's counters, so that no put has to.
    pub(crate) fn begin(&self, pool: u32) {
        self.in_shard(pool, 0);
    }

    fn in_shard(&self, pool: u32, shard: u8) -> &AtomicU32 {
        let none = || (0..self.shards).map(|_| AtomicU32::new(0)).collect();
        let shards = self.pools[pool as usize].get_or_init(none);
        &shards[usize::from(shard)]
    }

    /// Counts a page that came into a frame. The caller holds the shard's lock.
    #[inline]
    pub(crate) fn count_in(&self, pool: u32, shard: u8) {
        let pages = self.in_shard(pool, shard);
        pages.store(pages.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a page that left its frame. The caller holds the shard's lock.
    #[inline]
    pub(crate) fn count_out(&self, pool: u32, shard: u8) {
        let pages = self.in_shard(pool, shard);
        pages.store(pages.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Pages of a pool that are in frames, now.
    pub(crate) fn of(&self, pool: u32) -> u64 {
        let shards = self.pools.get(pool as usize).and_then(OnceLock::get);
        let pages = shards.into_iter().flat_map(|shards| shards.iter());
        pages
            .map(|pages| u64::from(pages.load(Ordering::Relaxed)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_for_their_pool_in_whichever_shard() {
        let pages = PoolPages::new(4, 256);
        for shard in [0, 3, 3, 255] {
            pages.count_in(1, shard);
        }
        pages.count_in(2, 0);
        pages.count_out(1, 3);
        assert_eq!([0, 1, 2, 3].map(|pool| pages.of(pool)), [0, 3, 1, 0]);
    }
}
