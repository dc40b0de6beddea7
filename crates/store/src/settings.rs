//! How a store is made.

use sublet_types::{Bytes, PAGE_BYTES};

use crate::eviction::MakeEviction;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Address space to reserve. The arena can never hold more.
    pub capacity: Bytes,
    /// What the arena may hold at first, including the index.
    pub limit: Bytes,
    /// The size of the largest value, including its head (memcached's `-I`).
    pub item_max: Bytes,
    /// The seed of the item hashes. It is drawn anew at each start.
    pub seed: u64,
    /// Whether a full arena evicts (memcached) or refuses (memcached `-M`).
    pub evicts: bool,
    /// How the page store is made.
    pub pages: PageSettings,
}

/// How a page store is made.
#[derive(Clone, Copy, Debug)]
pub struct PageSettings {
    /// Bytes of a page. This is 4,096; the simulator keeps a 16-byte stamp for each page.
    pub page_bytes: usize,
    /// Shards of each tenant, 1 to 256. As many threads can work on its pages in parallel.
    pub shards: usize,
    /// The most blocks of lenders that pages may lie in. 0 if none is ever borrowed.
    pub far_blocks: u32,
    /// Pages of the outbox, which hold bytes on their way to lenders. Without a borrowed block there is no outbox.
    pub outbox_pages: u16,
    /// The caller's own eviction, made for each shard of each tenant. It overrides what is chosen for a tenant.
    pub eviction: Option<MakeEviction>,
}

impl Default for PageSettings {
    fn default() -> PageSettings {
        PageSettings {
            page_bytes: PAGE_BYTES as usize,
            shards: 128,
            far_blocks: 0,
            outbox_pages: 1024,
            eviction: None,
        }
    }
}
