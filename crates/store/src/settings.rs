//! How a store is made.

use sublet_types::{Bytes, PAGE_BYTES};

use crate::eviction::MakeEviction;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Address space to reserve: the most that the arena can ever hold.
    pub capacity: Bytes,
    /// What the arena may hold at first, index included.
    pub limit: Bytes,
    /// The largest value, head included (memcached's `-I`).
    pub item_max: Bytes,
    /// Seed of the item hashes: drawn anew at each start.
    pub seed: u64,
    /// Whether a full arena evicts (memcached) or refuses (memcached `-M`).
    pub evicts: bool,
    /// How the page store is made.
    pub pages: PageSettings,
}

/// How a page store is made.
#[derive(Clone, Copy, Debug)]
pub struct PageSettings {
    /// Bytes of a page: 4,096; the simulator keeps a 16-byte stamp for each.
    pub page_bytes: usize,
    /// Shards of each tenant, 1 to 256: so many threads can work on its pages side by side.
    pub shards: usize,
    /// An eviction of the caller's own, for each shard of each tenant. It rules whatever is chosen for a tenant.
    pub eviction: Option<MakeEviction>,
}

impl Default for PageSettings {
    fn default() -> PageSettings {
        PageSettings {
            page_bytes: PAGE_BYTES as usize,
            shards: 128,
            eviction: None,
        }
    }
}
