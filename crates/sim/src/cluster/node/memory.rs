//! The memory of a node: a real store with one tenant, which has a pool for a disk and a pool for a ring.
//!
//! A page has room for more than its stamp, so that a block of 16 of them is as large as the smallest that the store can
//! live in.

use std::io;
use std::sync::Arc;

use sublet_lend::node::LendingInput;
use sublet_store::{
    AwayTicket, GetOutcome, MappedMemory, PageKey, PageSending, PageSettings, Release, Store,
    StoreSettings, UnwrittenPage, Worker,
};
use sublet_types::{
    Bytes, EvictionKind, ObjectId, PageIndex, PoolFlags, PoolId, ReleaseMode, Second, TenantId,
    TenantSettings, Weight,
};

use crate::cluster::content::{GuestPage, GuestPool, STAMP_BYTES};
use crate::cluster::judges::NodeBooks;
use crate::machine::tier_store::StoreTierError;

/// Pages of a block.
pub(in crate::cluster) const BLOCK_PAGES: u64 = 16;

/// Bytes of a page.
const PAGE: usize = 1 << 10;

/// Bytes of a block.
pub(in crate::cluster) const BLOCK: u64 = BLOCK_PAGES * PAGE as u64;

/// Pages of the outbox.
const OUTBOX_PAGES: u16 = 64;

/// Blocks that the outbox takes.
const OUTBOX_BLOCKS: u64 = OUTBOX_PAGES as u64 / BLOCK_PAGES;

/// The index of items, and what the arena keeps back.
const UNOWNED_BLOCKS: u64 = 3;

/// One block of records for so many borrowed blocks, and a few more.
const BLOCKS_PER_RECORD_BLOCK: u64 = 4;

/// Pages of a guest's pool that belong to one object.
const OBJECT_PAGES: u32 = 32;

/// How large a node's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct MemoryShape {
    /// The most blocks that the host ever lets it have.
    pub(in crate::cluster) own_max: u64,
    /// The most blocks that it borrows.
    pub(in crate::cluster) far_max: u32,
    /// The seed of its hashes.
    pub(in crate::cluster) seed: u64,
}

/// A get: its outcome, and the stamp if it was a hit.
pub(in crate::cluster) type PageGet = (GetOutcome, Option<[u8; STAMP_BYTES]>);

/// The memory of a node.
pub(in crate::cluster) struct NodeMemory {
    pub(in crate::cluster) store: Arc<Store>,
    pub(in crate::cluster) worker: Worker,
    tenant: TenantId,
    pools: [PoolId; 2],
    own: u64,
}

impl NodeMemory {
    /// Memory that may have all its blocks.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(in crate::cluster) fn new(shape: MemoryShape) -> Result<NodeMemory, StoreTierError> {
        let records = u64::from(shape.far_max) / BLOCKS_PER_RECORD_BLOCK + 2;
        let blocks = shape.own_max + UNOWNED_BLOCKS + OUTBOX_BLOCKS + records;
        let memory = MappedMemory::reserve((blocks * BLOCK) as usize, BLOCK as usize)?;
        let settings = StoreSettings {
            capacity: Bytes(blocks * BLOCK),
            limit: Bytes((shape.own_max + UNOWNED_BLOCKS) * BLOCK),
            item_max: Bytes(BLOCK / 4),
            seed: shape.seed,
            evicts: true,
            pages: PageSettings {
                page_bytes: PAGE,
                shards: 1,
                far_blocks: shape.far_max,
                outbox_pages: OUTBOX_PAGES,
                ..PageSettings::default()
            },
        };
        let store = Store::over(Box::new(memory), BLOCK as usize, settings)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let tenant = store.add_tenant(TenantSettings {
            name: "guest".parse().expect("letters are a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        })?;
        store.set_eviction(tenant, EvictionKind::Lru, Second(0));
        let keeping = PoolFlags {
            keeping: true,
            ..PoolFlags::default()
        };
        let pools = [
            store.create_pool(tenant, keeping, None)?,
            store.create_pool(tenant, PoolFlags::default(), None)?,
        ];
        Ok(NodeMemory {
            worker: store.worker()?,
            store,
            tenant,
            pools,
            own: shape.own_max,
        })
    }

    /// Sets how many blocks of its own the host lets it have. It gives nothing back.
    pub(in crate::cluster) fn set_own(&mut self, blocks: u64) {
        self.own = blocks;
        self.follow_records();
    }

    /// Lets the arena be larger by what the records of borrowed blocks take.
    pub(in crate::cluster) fn follow_records(&self) {
        let own = Bytes((self.own + UNOWNED_BLOCKS) * BLOCK);
        self.store.set_limit(own + self.store.far_overhead());
    }

    /// Gives the host back what is held above the limit, at once.
    pub(in crate::cluster) fn fit(&self, now: Second) {
        let amount = self.store.held() - self.store.limit();
        if amount > Bytes::ZERO {
            let release = Release {
                amount,
                mode: ReleaseMode::Fast,
                tenant: None,
            };
            self.worker.release(release, now);
        }
    }

    /// How large the arena may be, and how much of that nobody uses.
    pub(in crate::cluster) fn arena(&self) -> LendingInput {
        let blocks = |bytes: Bytes| u32::try_from(bytes.0 / BLOCK).unwrap_or(u32::MAX);
        let (limit, figures) = (self.store.limit(), self.store.figures());
        LendingInput::Arena {
            total: blocks(limit),
            free: blocks(limit - figures.held + figures.free),
        }
    }

    /// Does the chores of a second.
    pub(in crate::cluster) fn do_chores(&self, now: Second) {
        while self.worker.upkeep(now) {}
        self.follow_records();
    }

    /// Puts a page. Returns whether it is stored.
    pub(in crate::cluster) fn put(
        &self,
        page: GuestPage,
        stamp: &[u8; STAMP_BYTES],
        now: Second,
    ) -> bool {
        let mut bytes = [0; PAGE];
        bytes[..STAMP_BYTES].copy_from_slice(stamp);
        let fill = |unwritten: &mut UnwrittenPage<'_>| unwritten.copy_from_slice(&bytes);
        let put = self.worker.put_page(self.tenant, self.key(page), now, fill);
        put.is_stored()
    }

    /// Gets a page.
    pub(in crate::cluster) fn get(&self, page: GuestPage, now: Second) -> PageGet {
        let mut stamp = None;
        let visit = |bytes: &[u8]| stamp = stamp_of(bytes);
        let got = self
            .worker
            .get_page(self.tenant, self.key(page), now, visit);
        (got, stamp)
    }

    /// Ends a get by the bytes that a lender gave.
    pub(in crate::cluster) fn arrived(
        &self,
        page: GuestPage,
        ticket: &AwayTicket,
        stamp: &[u8; STAMP_BYTES],
        now: Second,
    ) -> PageGet {
        let mut bytes = [0; PAGE];
        bytes[..STAMP_BYTES].copy_from_slice(stamp);
        let mut came = None;
        let visit = |bytes: &[u8]| came = stamp_of(bytes);
        let key = self.key(page);
        let got = self
            .worker
            .arrived(self.tenant, key, ticket, &bytes, now, visit);
        (got, came)
    }

    /// Ends a get whose page no lender has.
    pub(in crate::cluster) fn gone(
        &self,
        page: GuestPage,
        ticket: &AwayTicket,
        now: Second,
    ) -> PageGet {
        let mut came = None;
        let visit = |bytes: &[u8]| came = stamp_of(bytes);
        let got = self
            .worker
            .gone(self.tenant, self.key(page), ticket, now, visit);
        (got, came)
    }

    /// Flushes a page.
    pub(in crate::cluster) fn flush(&self, page: GuestPage, now: Second) {
        self.worker.flush_page(self.tenant, self.key(page), now);
    }

    /// Sets whether evicted pages go to lenders.
    pub(in crate::cluster) fn set_sending(&self, sending: PageSending) {
        for pool in self.pools {
            self.store.set_sending(pool, sending);
        }
    }

    /// What the store counts. The tables' counts are the caller's.
    pub(in crate::cluster) fn books(&self) -> NodeBooks {
        let figures = self.store.figures();
        let blocks = |bytes: Bytes| bytes.0 / BLOCK;
        let owned = self.store.all_held();
        NodeBooks {
            held: blocks(figures.held),
            owned: owned.iter().map(|(_, held)| blocks(*held)).sum(),
            unowned: blocks(figures.free) + blocks(figures.limbo) + blocks(figures.index),
            lent: self.store.lent().into(),
            borrowed: blocks(figures.far.borrowed),
            ..NodeBooks::default()
        }
    }

    fn key(&self, page: GuestPage) -> PageKey {
        let pool = match page.pool {
            GuestPool::Disk => self.pools[0],
            GuestPool::Ring => self.pools[1],
        };
        PageKey {
            pool,
            object: ObjectId(u64::from(page.number / OBJECT_PAGES)),
            index: PageIndex(page.number % OBJECT_PAGES),
        }
    }
}

/// The stamp of a page, or of its sealed bytes.
pub(in crate::cluster) fn stamp_of(page: &[u8]) -> Option<[u8; STAMP_BYTES]> {
    page.first_chunk().copied()
}

/// Fills a page of a lent block with sealed bytes.
pub(in crate::cluster) fn fill_lent(page: &mut [u8], sealed: &[u8; STAMP_BYTES]) {
    if let Some(stamp) = page.first_chunk_mut() {
        *stamp = *sealed;
    }
}
