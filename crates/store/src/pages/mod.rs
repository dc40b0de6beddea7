//! The page store: transcendent memory's put, get and flush over frames of the arena's blocks.
//!
//! A tenant's pages lie in shards by the hash of pool and object, so that an object's pages share one
//! lock. A shard has a directory, an eviction for its ephemeral pages, and a stock of free frames. A page
//! is copied in or out once, under its shard's lock and its worker's pin: so it is never torn, and a put
//! that replaces cannot fail half-way (R-P1, R-P3, R-G5).

mod ahead;
mod arrivals;
mod blocks;
mod desk;
mod directory;
mod evict;
mod expected;
mod frame_source;
mod freed_ahead;
mod group;
mod holdings;
mod leaf;
mod locked_shard;
mod pools;
mod removal;
mod rows;
mod save;
mod shard;
mod shard_debt;
mod shards_with_spare;
mod shared;
mod shared_pools;
mod shrink;
mod siblings;
mod slots;
mod sweep;
mod tally;
mod to_remove;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sublet_types::{EvictionKind, Pages as PageCount, PoolFlags, PoolId, Second};

use crate::api::{PageFigures, PageOverhead, PoolError, TENANTS_MAX};
use crate::arena::{Arena, BlockId, Claimant, Living, PageKind};
use crate::frames::{FrameId, Frames, Key, STAMPS, Seed};
use crate::settings::{PageSettings, StoreSettings};
use crate::tenants::{Tenant, Tenants};
pub(crate) use desk::{Desk, FoundPages};
#[cfg(test)]
pub(crate) use evict::WINDOW_PAGES;
pub(crate) use frame_source::{Displacing, PutAttempt, Shortage, Siblings, Terms};
pub(crate) use group::{PageVerb, Places};
use holdings::Fitting;
pub(crate) use holdings::{Holdings, ShownEviction};
pub(crate) use pools::{Pool, Pools, Space};
pub(crate) use save::{Head, Loader, Renumbered, check as check_save};
use shard::Shard;
use shards_with_spare::SHARDS_MAX;
pub use shared::SHARERS_MAX;
use shared_pools::SharedPools;
pub use to_remove::Removal;

/// Stamps come round when the arena was written so many times over.
const STAMPED_TURNOVERS: u64 = 8;

/// The engine: pools, frames, and what sweeping needs.
pub(crate) struct Pages {
    pub(crate) arena: Arc<Arena>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) frames: Frames,
    pub(crate) pools: Pools,
    /// What each tenant has, by its number.
    holdings: Box<[OnceLock<Holdings>]>,
    pub(crate) seed: Seed,
    shared: Mutex<SharedPools>,
    settings: PageSettings,
    /// Bytes between two of the stamps of frames, as a power of two.
    tick_bits: u32,
    /// Dropped blocks whose frame tables are to be swept.
    unswept: Mutex<Vec<BlockId>>,
    /// Held while a block is swept.
    sweeping: Mutex<()>,
    /// Blocks that were emptied by moving pages, since the start.
    evacuated: AtomicU32,
}

impl Pages {
    pub(crate) fn new(
        arena: Arc<Arena>,
        tenants: Arc<Tenants>,
        settings: &StoreSettings,
    ) -> std::io::Result<Pages> {
        let seed = Seed(settings.seed ^ 0x5bd1_e995_7b93_a4c7);
        let settings = PageSettings {
            shards: settings.pages.shards.clamp(1, SHARDS_MAX),
            ..settings.pages
        };
        let capacity = arena.blocks().count() as u64 * arena.block_bytes() as u64;
        Ok(Pages {
            frames: Frames::new(&arena, settings.page_bytes, settings.shards, seed)?,
            pools: Pools::new(),
            holdings: (0..TENANTS_MAX).map(|_| OnceLock::new()).collect(),
            tick_bits: (capacity * STAMPED_TURNOVERS / u64::from(STAMPS))
                .max(1)
                .next_power_of_two()
                .ilog2(),
            arena,
            tenants,
            seed,
            shared: Mutex::default(),
            settings,
            unswept: Mutex::default(),
            sweeping: Mutex::default(),
            evacuated: AtomicU32::new(0),
        })
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.settings.page_bytes
    }

    /// What a tenant has of the page store; made when it is first needed.
    pub(crate) fn holdings(&self, tenant: &Tenant) -> &Holdings {
        self.holdings[usize::from(tenant.id.0)].get_or_init(|| {
            let PageSettings {
                shards, eviction, ..
            } = self.settings;
            Holdings::new(shards, self.seed, eviction)
        })
    }

    /// What a tenant has of the page store, if it ever had anything.
    pub(crate) fn known(&self, tenant: &Tenant) -> Option<&Holdings> {
        self.holdings[usize::from(tenant.id.0)].get()
    }

    /// What all tenants have of the page store.
    fn all_known(&self) -> impl Iterator<Item = &Holdings> {
        self.holdings.iter().filter_map(OnceLock::get)
    }

    /// The bytes of a frame, for whoever holds its shard's lock and is pinned.
    pub(crate) fn bytes(&self, frame: FrameId) -> &[u8] {
        let len = self.settings.page_bytes;
        let at = self.frames.place(frame) as usize * len;
        self.arena.page(self.frames.block(frame), at, len)
    }

    /// Writes a frame; as for [`bytes`](Pages::bytes).
    pub(crate) fn write(&self, frame: FrameId, write: impl FnOnce(&mut [u8])) {
        let len = self.settings.page_bytes;
        let at = self.frames.place(frame) as usize * len;
        self.arena
            .write_page(self.frames.block(frame), at, len, write);
    }

    /// Notes that a frame's page is put or used now.
    fn stamp(&self, frame: FrameId) {
        let tick = self.arena.clock() >> self.tick_bits;
        self.frames.get(frame).set_stamp(tick as u32 % STAMPS);
    }

    /// When a frame's page was put or used last, by the arena's clock. One that was put a round of the stamps ago, eight times as much
    /// as the arena ever holds or more, seems young.
    fn written_at(&self, frame: FrameId) -> u64 {
        let now = self.arena.clock() >> self.tick_bits;
        let age = (now as u32).wrapping_sub(self.frames.get(frame).stamp()) % STAMPS;
        now.saturating_sub(age.into()) << self.tick_bits
    }

    /// Has the arena's clock count pages that came.
    fn tell_clock(&self, pages: u32) {
        self.arena
            .advance(u64::from(pages) * self.settings.page_bytes as u64);
    }

    /// Has a frame's block count pages that came into it, of which the frame has one.
    fn gain(&self, frame: FrameId, pages: u32) {
        let spread = self.frames.get(frame).shard().into();
        self.arena
            .gain_pages(self.frames.block(frame), pages, spread);
    }

    /// Has a frame's block count one page fewer.
    fn lose(&self, frame: FrameId) {
        let spread = self.frames.get(frame).shard().into();
        self.arena.lose_page(self.frames.block(frame), spread);
    }

    /// The page in a frame, if one is, with its object's hash.
    fn page_in(&self, frame: FrameId) -> Option<(u64, Key)> {
        let facts = self.frames.get(frame);
        let key = facts.is_live().then(|| facts.key())?;
        Some((self.seed.object(key.pool, key.object), key))
    }

    /// Whether a frame's block is being emptied, so that nothing new may come into it.
    fn is_leaving(&self, frame: FrameId) -> bool {
        let block = self.arena.block(self.frames.block(frame));
        block.is_leaving()
    }

    /// Whether a page of the tenant may come into a frame: its block is of such pages still, and stays so.
    fn takes_pages(&self, frame: FrameId, tenant: &Tenant, kind: PageKind) -> bool {
        let block = self.arena.block(self.frames.block(frame));
        block.is_of_pages(tenant.id, kind) && !block.is_leaving()
    }

    /// Takes back a frame whose page has left.
    fn free(&self, shard: &mut Shard, frame: FrameId, kind: PageKind) {
        if !self.is_leaving(frame) {
            shard.push_free(&self.frames, frame, kind);
        }
    }

    /// Opens a block from the free list for a tenant's pages. Says whether there was one. The caller holds no
    /// shard's lock.
    pub(crate) fn open_block(&self, tenant: &Tenant, kind: PageKind, now: Second) -> bool {
        let holdings = self.holdings(tenant);
        let Some(_opening) = holdings.begin_opening(kind) else {
            return true; // somebody else just opened one
        };
        if tenant.is_at_limit(1) {
            return false;
        }
        let owner = Claimant::Pages(tenant.id, kind);
        let Some(block) = self.arena.take(owner, self.arena.reserve(), now) else {
            return false;
        };
        tenant.gained_block();
        if kind == PageKind::Persistent {
            tenant.pinned_block();
        }
        self.sweep(block);
        self.frames.note_block(block);
        holdings.open(kind, &self.arena, block);
        holdings.fit(self.frames.per_block(), Fitting::Grown);
        true
    }

    /// Gives a tenant's ephemeral pages another eviction.
    pub(crate) fn set_eviction(&self, tenant: &Tenant, kind: EvictionKind, now: Second) {
        self.holdings(tenant).set_eviction(kind, &self.frames, now);
    }

    /// Makes a pool for a tenant.
    ///
    /// # Errors
    ///
    /// There are too many.
    pub(crate) fn add_pool(
        &self,
        tenant: &Tenant,
        flags: PoolFlags,
        space: Option<Arc<Space>>,
    ) -> Result<PoolId, PoolError> {
        let id = self.pools.add(tenant.id, flags, None, space)?;
        self.frames.of_pools().begin(id.slot);
        if flags.keeping && !flags.persistent {
            self.keep_read(tenant);
        }
        Ok(id)
    }

    /// Hears that a tenant has, or is to have, a pool that keeps pages that are read.
    pub(crate) fn keep_read(&self, tenant: &Tenant) {
        self.holdings(tenant).keep_read(true, &self.frames);
    }

    /// Sets what was set of a tenant before it went as for one that was never there.
    pub(crate) fn begin_anew(&self, tenant: &Tenant) {
        if let Some(holdings) = self.known(tenant) {
            holdings.begin_anew(&self.frames);
        }
    }

    /// A tenant's blocks of a kind, in the order of their numbers.
    fn all_blocks_of_kind(&self, tenant: &Tenant, kind: PageKind) -> Vec<BlockId> {
        let holdings = self.known(tenant);
        holdings.map_or_else(Vec::new, |holdings| {
            holdings.list(kind).all_blocks(&self.arena)
        })
    }

    /// Has what is remembered of tenants' pages suit the memory that they have. Of what they had more it stays for some ten minutes: pages
    /// that were flushed may come back.
    pub(crate) fn fit_all(&self, now: Second) {
        let fitting = match now.0.is_multiple_of(FORGETS_EVERY_SECS) {
            true => Fitting::Later,
            false => Fitting::Exact,
        };
        let holdings = self.all_known();
        holdings.for_each(|holdings| holdings.fit(self.frames.per_block(), fitting));
    }

    /// What a tenant's pages are, now, where so much of it lives.
    pub(crate) fn figures(&self, tenant: &Tenant, living: Living) -> PageFigures {
        let Some(holdings) = self.known(tenant) else {
            return PageFigures::default();
        };
        let counts = holdings.counts();
        let mut figures = PageFigures {
            tally: counts.sum(),
            on_disk: counts.on_disk(),
            ..PageFigures::default()
        };
        let per_block = u64::from(self.frames.per_block());
        let held = |kind| PageCount(u64::from(holdings.blocks(kind)) * per_block);
        figures.used = PageCount(living.pages);
        figures.held_ephemeral = held(PageKind::Ephemeral);
        figures.held_persistent = held(PageKind::Persistent);
        let frames = figures.held_ephemeral.0 + figures.held_persistent.0;
        figures.free = PageCount(frames.saturating_sub(figures.used.0));
        figures
    }

    /// Bytes of directories, frame table and ghosts. Locks each shard in turn: for benches.
    pub(crate) fn overhead(&self) -> PageOverhead {
        let mut overhead = PageOverhead {
            frames: self.frames.bytes(),
            evacuated: self.evacuated.load(Ordering::Relaxed),
            ..PageOverhead::default()
        };
        for holdings in self.all_known() {
            overhead.ghosts += holdings.order_bytes();
            for shard in holdings.shards() {
                let shard = shard.lock();
                overhead.directory += shard.directory.bytes() + shard.rows.bytes();
                overhead.ghosts += shard.eviction.ghost_bytes();
            }
        }
        overhead
    }
}

/// How often a sixteenth of what is remembered for frames that are gone is forgotten, seconds: half of it in 12 minutes.
const FORGETS_EVERY_SECS: u32 = 64;
