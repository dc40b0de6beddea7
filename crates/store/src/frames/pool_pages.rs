//! How many pages of each pool are in memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most pools of a daemon, handles on shared ones among them.
pub(crate) const POOLS_MAX: usize = 16 << 10;

/// Pages in frames, by pool. Those of a dropped block count until it is swept.
pub(crate) struct PoolPages {
    pools: Box<[OnceLock<Shards>]>,
    /// Shards of a tenant.
    shards: usize,
}

/// A pool's pages in each shard. Only who holds the shard's lock counts there, and with plain stores: an atomic addition would
/// wait until every page that was written before has gone its way to memory.
type Shards = Box<[AtomicU32]>;

impl PoolPages {
    /// None yet, of so many pools, whose tenants have so many shards each.
    pub(super) fn new(pools: usize, shards: usize) -> PoolPages {
        PoolPages {
            pools: (0..pools).map(|_| OnceLock::new()).collect(),
            shards,
        }
    }

    /// Has room for what a pool counts, so that no put makes it.
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
    pub(crate) fn came(&self, pool: u32, shard: u8) {
        let pages = self.in_shard(pool, shard);
        pages.store(pages.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a page that left its frame. The caller holds the shard's lock.
    #[inline]
    pub(crate) fn went(&self, pool: u32, shard: u8) {
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
            pages.came(1, shard);
        }
        pages.came(2, 0);
        pages.went(1, 3);
        assert_eq!([0, 1, 2, 3].map(|pool| pages.of(pool)), [0, 3, 1, 0]);
    }
}
