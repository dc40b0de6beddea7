//! The store: tenants' items in one arena, and the handle by which a thread works on it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sublet_types::{
    BLOCK_BYTES, Bytes, Nanos, Second, Shrinking, TenantId, TenantName, TenantSettings,
};

use crate::api::*;
use crate::arena::{Arena, Claimant, Mapped, Memory, PinSlot};
use crate::engine::Engines;
use crate::floors::FloorFigures;
use crate::giving::Giver;
use crate::items::{BLOCKS_MAX, Ear, Entry, Items, Moment};
use crate::pages::{FoundPages, Pages};
use crate::reclaim::{Need, Reclaim, capacity};
use crate::tenants::{Tenant, Tenants};
use crate::thread::Thread;

/// The place of each engine among all of them.
pub(crate) const PAGES: usize = 0;
pub(crate) const ITEMS: usize = 1;

/// The store, shared by all threads.
pub struct Store {
    pub(crate) arena: Arc<Arena>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) items: Items,
    pub(crate) pages: Pages,
    /// Whether who is over its target is brought down to it.
    pub(crate) shrinks: AtomicBool,
    /// The last second whose chores were done.
    last_chores: AtomicU32,
}

impl Store {
    /// A store with nothing in it, over memory of this process. Holds one block, for its index.
    ///
    /// # Errors
    ///
    /// The kernel refuses the address space (strict overcommit) or the first block.
    pub fn new(settings: StoreSettings) -> std::io::Result<Arc<Store>> {
        Store::in_blocks(Bytes(BLOCK_BYTES), settings)
    }

    /// The same in blocks of another size: a power of two from 64 KiB to 2 MiB. Small blocks suit a small store.
    ///
    /// # Errors
    ///
    /// Those of [`Store::new`].
    pub fn in_blocks(block: Bytes, settings: StoreSettings) -> std::io::Result<Arc<Store>> {
        let block_bytes = block.0 as usize;
        let least = ARENA_MIN.0 as usize / block_bytes;
        let blocks = (settings.capacity.0 as usize / block_bytes).clamp(least, BLOCKS_MAX);
        let memory = Mapped::reserve(blocks * block_bytes, BLOCK_BYTES as usize)?;
        Store::over(Box::new(memory), block_bytes, settings)
            .ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
    }

    /// A store over any memory, in blocks of any size: a power of two from 64 KiB to 2 MiB. `None` if the
    /// memory does not even give a block for the index.
    pub fn over(
        memory: Box<dyn Memory>,
        block_bytes: usize,
        settings: StoreSettings,
    ) -> Option<Arc<Store>> {
        let first = Bytes(block_bytes as u64).max(settings.limit);
        let arena = Arena::new(memory, block_bytes, first);
        arena.grow().ok()?;
        let index = arena.take(Claimant::None, 0, Second(0))?;
        arena.set_limit(settings.limit);
        let (arena, tenants) = (Arc::new(arena), Arc::new(Tenants::new(block_bytes)));
        let pages = Pages::new(Arc::clone(&arena), Arc::clone(&tenants), &settings).ok()?;
        let items = Items::new(Arc::clone(&arena), Arc::clone(&tenants), index, &settings);
        Some(Arc::new(Store {
            arena,
            tenants,
            items,
            pages,
            shrinks: AtomicBool::new(true),
            last_chores: AtomicU32::new(0),
        }))
    }

    /// Keeps what the arena holds, and the table of its frames, off the host's swap: memory that has to be read from a disk
    /// first is worth nothing here, and the host is given it back instead.
    ///
    /// # Errors
    ///
    /// The process may not lock so much (`RLIMIT_MEMLOCK`, `CAP_IPC_LOCK`).
    pub fn lock_in_memory(&self) -> std::io::Result<()> {
        self.arena.lock()?;
        self.pages.frames.lock()
    }

    /// A handle for one thread.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, TooManyWorkers> {
        let slot = self.arena.epochs().enroll()?;
        Ok(Worker {
            store: Arc::clone(self),
            slot,
            pins: Cell::new(0),
            lent: Cell::new(0),
            luck: Cell::new(0x9e37_79b9_7f4a_7c15),
            found: Cell::new(FoundPages::new()),
        })
    }

    /// Adds a tenant.
    pub fn add_tenant(&self, settings: TenantSettings) -> Result<TenantId, TenantError> {
        let id = self.tenants.add(settings)?;
        // Who has a number that somebody had before has nothing else of what that one was.
        if let Some(tenant) = self.tenants.get(id) {
            self.pages.begin_anew(tenant);
            self.items.begin_anew(tenant);
        }
        Ok(id)
    }

    /// Removes a tenant. It is found by its name no more, and what it holds goes back; one that is added later, of that name
    /// or another, may have its number. Its pools have to be ended before, and nobody may act for it any more.
    pub fn remove_tenant(&self, id: TenantId) {
        if let Some(tenant) = self.tenants.get(id) {
            tenant.go();
        }
    }

    /// The tenant of that name.
    pub fn tenant(&self, name: &TenantName) -> Option<TenantId> {
        self.tenants.by_name(name).map(|tenant| tenant.id)
    }

    /// Whether [`set_tenant`](Store::set_tenant) would take these settings now.
    pub fn check_tenant(&self, id: TenantId, settings: &TenantSettings) -> Result<(), TenantError> {
        let tenant = self.tenants.get(id).ok_or(TenantError::Unknown)?;
        tenant.check(settings)
    }

    /// Changes weight, floor and ceiling.
    pub fn set_tenant(&self, id: TenantId, settings: TenantSettings) -> Result<(), TenantError> {
        self.tenants
            .get(id)
            .ok_or(TenantError::Unknown)?
            .set(&settings)
    }

    /// Every tenant, now.
    pub fn tenants(&self) -> Vec<TenantFigures> {
        let live = self.live();
        self.tenants
            .present()
            .map(|tenant| self.figures_of(tenant, &live))
            .collect()
    }

    /// One tenant, now. Its number is one that [`add_tenant`](Store::add_tenant) gave.
    pub fn tenant_figures(&self, id: TenantId) -> TenantFigures {
        let tenant = self.tenants.get(id).expect("a tenant of this store");
        self.figures_of(tenant, &self.live())
    }

    /// Live items of each tenant.
    fn live(&self) -> Vec<Live> {
        let tenants: Vec<&Tenant> = self.tenants.iter().collect();
        let mut live = vec![Live::default(); tenants.len()];
        for (_, block) in self.arena.blocks() {
            let Claimant::Tenant(owner) = block.owner() else {
                continue;
            };
            let place = owner.0 as usize;
            if place < live.len()
                && !self
                    .items
                    .part(tenants[place])
                    .segments
                    .is_flushed(block.sequence())
            {
                let live = &mut live[place];
                let items = u64::from(block.live_items.load(Ordering::Relaxed));
                live.items += items;
                live.bytes += u64::from(block.live_bytes.load(Ordering::Relaxed));
                let opened = block.opened();
                if items > 0 && live.oldest.is_none_or(|oldest| opened < oldest) {
                    live.oldest = Some(opened);
                }
            }
        }
        live
    }

    fn figures_of(&self, tenant: &Tenant, live: &[Live]) -> TenantFigures {
        let live = live.get(tenant.id.0 as usize).copied().unwrap_or_default();
        let tally = &self.items.part(tenant).tally;
        TenantFigures {
            id: tenant.id,
            settings: tenant.settings(),
            held: self.bytes(tenant.held()),
            used: Bytes(live.bytes),
            items: live.items,
            oldest: live.oldest,
            evictions: tally.evictions.get(),
            displaced: tally.displaced.get(),
            evicted_unfetched: tally.evicted_unfetched.get(),
            reclaimed: tally.reclaimed.get(),
            expired_unfetched: tally.expired_unfetched.get(),
            target: tenant.target(),
            gave: self.bytes_of(tenant.moved().0),
            got: self.bytes_of(tenant.moved().1),
            pages: self.pages.figures(tenant),
            fairness: self.tenants.fairness(tenant, self.arena.limit()),
        }
    }

    /// The engines, each in its place.
    pub(crate) fn engines(&self) -> Engines<'_> {
        [&self.pages, &self.items]
    }

    /// Whether this second's chores are still to be done; from now on they are somebody's.
    pub(crate) fn is_new_second(&self, now: Second) -> bool {
        self.last_chores.fetch_max(now.0, Ordering::Relaxed) < now.0
    }

    pub(crate) fn bytes(&self, blocks: u32) -> Bytes {
        self.bytes_of(blocks.into())
    }

    fn bytes_of(&self, blocks: u64) -> Bytes {
        Bytes(blocks * self.arena.block_bytes() as u64)
    }

    pub(crate) fn blocks(&self, bytes: Bytes) -> u32 {
        bytes
            .0
            .div_ceil(self.arena.block_bytes() as u64)
            .min(u64::from(u32::MAX)) as u32
    }

    /// What the arena may hold, now.
    pub fn limit(&self) -> Bytes {
        self.bytes(self.arena.limit())
    }

    /// What the arena holds, now.
    pub fn held(&self) -> Bytes {
        self.bytes(self.arena.held())
    }

    /// What a tenant is granted, now.
    pub fn tenant_settings(&self, id: TenantId) -> Option<TenantSettings> {
        self.tenants.get(id).map(Tenant::settings)
    }

    /// The whole store, now.
    pub fn figures(&self) -> StoreFigures {
        let live = self.live();
        let arena = &self.arena;
        StoreFigures {
            limit: self.bytes(arena.limit()),
            held: self.bytes(arena.held()),
            free: self.bytes(arena.ready()),
            limbo: self.bytes(arena.in_limbo() as u32),
            index: self.bytes(self.items.index_blocks() as u32),
            reserve: self.bytes(arena.reserve() as u32),
            used: Bytes(live.iter().map(|live| live.bytes).sum()),
            items: live.iter().map(|live| live.items).sum(),
        }
    }

    /// What all floors are together, and what there is for them, now.
    pub fn floors(&self) -> FloorFigures {
        let room = capacity(&self.arena, &self.engines());
        FloorFigures {
            asked: Bytes(self.tenants.promised(room).asked() * room.block_bytes as u64),
            room: self.bytes(room.blocks),
        }
    }

    /// Hears of each item of a tenant that is evicted from now on, for as long as the ear lives. Nothing
    /// is heard of blocks that are released whole. `None` if there is no such tenant.
    pub fn listen(&self, tenant: TenantId) -> Option<Ear> {
        let tenant = self.tenants.get(tenant)?;
        Some(self.items.listen(tenant))
    }

    /// Says what becomes of who holds more than its target.
    pub fn set_shrinking(&self, shrinking: Shrinking) {
        let shrinks = shrinking == Shrinking::Active;
        self.shrinks.store(shrinks, Ordering::Relaxed);
    }

    /// Says how much the arena may hold from now on. Gives nothing back by itself: see
    /// [`Worker::release`].
    pub fn set_limit(&self, limit: Bytes) {
        self.arena.set_limit(limit);
    }

    /// Asks the kernel for memory ahead of use: one block a call, at most 64 MiB ahead. Says whether
    /// there is more to do. For a thread of its own, so that no set waits for the kernel.
    pub fn populate(&self) -> bool {
        self.arena.populate_ahead()
    }
}

/// What a tenant's blocks have of live items.
#[derive(Clone, Copy, Default)]
struct Live {
    items: u64,
    bytes: u64,
    /// When the oldest of these blocks was opened.
    oldest: Option<Second>,
}

/// One thread's handle on the store.
pub struct Worker {
    store: Arc<Store>,
    slot: PinSlot,
    /// Pins within pins.
    pins: Cell<u32>,
    /// Items and pages that a caller looks at now: while there are any, the pin must not be renewed.
    lent: Cell<u32>,
    luck: Cell<u64>,
    /// Room that flushing an object needs; nothing is allocated for each.
    pub(crate) found: Cell<FoundPages>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.store.arena.epochs().dismiss(&self.slot);
    }
}

impl Worker {
    /// The store this worker works on.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn slot(&self) -> &PinSlot {
        &self.slot
    }

    pub(crate) fn items(&self) -> &Items {
        &self.store.items
    }

    /// Runs `work` with all blocks held still: many reads in it pay for the pin once.
    /// Must not wait for anything.
    #[inline]
    pub fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        let _pin = Pin::new(self);
        work()
    }

    /// The same for as long as the pin lives.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        Pin::new(self)
    }

    pub(crate) fn moment(&self, now: Second) -> Moment {
        Moment {
            now,
            luck: self.luck(),
        }
    }

    /// Has the processor fetch what looking up these keys will touch, [`EXPECTED_MAX`] of them at the most, so
    /// that a batch does not wait for memory once for each. Worth it for two keys and more.
    pub fn expect(&self, tenant: TenantId, keys: &[&[u8]]) {
        self.pinned(|| self.items().expect(tenant, keys));
    }

    /// Looks an item up.
    pub fn read<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        reading: Reading,
        visit: impl FnOnce(&Item<'_>) -> R,
    ) -> Lookup<R> {
        let Some(tenant) = self.store.tenants.get(tenant) else {
            return Lookup::Miss(Absence::Unknown);
        };
        let _pin = Pin::new(self);
        let _lent = Lent::new(self);
        self.items()
            .read(tenant, key, self.moment(now), reading, visit)
    }

    /// Looks at an item and changes it, with nobody in between. `decide` may run more than once;
    /// only its last run counts.
    pub fn update<R>(
        &self,
        tenant: TenantId,
        key: &[u8],
        now: Second,
        mut decide: impl FnMut(&mut Entry<'_>) -> R,
    ) -> Result<R, Refused> {
        let tenant = self.store.tenants.get(tenant).ok_or(Refused::NoMemory)?;
        let _pin = Pin::new(self);
        let mut decide = |entry: &mut Entry<'_>| self.lending(|| decide(entry));
        let mut make_room = |blocks| self.make_room(tenant, blocks, now);
        let (answer, written) =
            self.items()
                .update(tenant, key, self.moment(now), &mut decide, &mut make_room)?;
        if written > 0 {
            let giver = || self.reclaiming(now).giver(tenant, 1);
            self.items()
                .work_ahead(tenant, &self.slot, written, now, giver);
        }
        Ok(answer)
    }

    /// Makes room for so many blocks of a tenant's items. Says whether it is worth trying again.
    fn make_room(&self, tenant: &Tenant, blocks: u32, now: Second) -> bool {
        let need = Need {
            tenant,
            engine: ITEMS,
            pins: false,
        };
        let items = self.items();
        let mut evict = |giver: Giver<'_>| items.evict_for(tenant, blocks, giver, now, self);
        self.reclaiming(now).make_room(need, blocks, &mut evict)
    }

    /// This thread in search of blocks.
    pub(crate) fn reclaiming(&self, now: Second) -> Reclaim<'_> {
        Reclaim {
            arena: &self.store.arena,
            tenants: &self.store.tenants,
            engines: self.store.engines(),
            thread: self,
            now,
        }
    }

    /// Runs `look`, in which a caller looks at items or pages.
    #[inline]
    pub(crate) fn lending<R>(&self, look: impl FnOnce() -> R) -> R {
        let _lent = Lent::new(self);
        look()
    }

    /// Whether the pin must stay as it is: a caller looks at items or pages, or there is none.
    pub(crate) fn keeps_its_pin(&self) -> bool {
        self.lent.get() > 0 || self.pins.get() == 0
    }

    /// Lets go of what this thread saw so far, so that blocks in limbo can be reused; waits meanwhile, and
    /// lets others come to an end. Not while a caller looks at items: then nothing is waited for.
    pub(crate) fn unpinned(&self, wait: impl FnOnce()) {
        if !self.keeps_its_pin() {
            self.unpin_for(wait);
        }
    }

    fn unpin_for(&self, wait: impl FnOnce()) {
        let epochs = self.store.arena.epochs();
        epochs.unpin(&self.slot);
        wait();
        std::thread::yield_now();
        epochs.pin(&self.slot);
    }

    /// Hides everything the tenant stored so far. Takes the place of a flush that was put off.
    pub fn flush(&self, tenant: TenantId, now: Second) {
        if let Some(tenant) = self.store.tenants.get(tenant) {
            self.items().part(tenant).deferred.cancel();
            self.flush_tenant(tenant, now);
        }
    }

    pub(crate) fn flush_tenant(&self, tenant: &Tenant, now: Second) {
        let _pin = Pin::new(self);
        let segments = &self.items().part(tenant).segments;
        while !segments.try_flush(&self.store.arena, now) {
            self.unpinned(|| segments.await_ring());
        }
    }

    /// Puts a flush off until `due`, in place of one that was put off before.
    pub fn defer_flush(&self, tenant: TenantId, due: Nanos) {
        if let Some(tenant) = self.store.tenants.get(tenant) {
            self.items().part(tenant).deferred.set(due);
        }
    }

    /// Whether a flush was put off: if so, [`flush_if_due`](Worker::flush_if_due) has to be asked before each request.
    #[inline]
    pub fn awaits_flush(&self, tenant: TenantId) -> bool {
        let tenant = self.store.tenants.get(tenant);
        tenant.is_some_and(|tenant| self.items().part(tenant).deferred.is_set())
    }

    /// Flushes, if that was put off until `moment` or before. When it returns, nothing is left that was due.
    pub fn flush_if_due(&self, tenant: TenantId, moment: Nanos, now: Second) {
        let Some(tenant) = self.store.tenants.get(tenant) else {
            return;
        };
        let deferred = &self.items().part(tenant).deferred;
        while deferred.is_due(moment) {
            self.pinned(|| {
                if !deferred.try_take(moment, || self.flush_tenant(tenant, now)) {
                    self.unpinned(|| deferred.await_flush());
                }
            });
        }
    }

    /// Visits a part of a tenant's items, in no order; returns where to go on, or nothing at the end.
    /// Start with 0. An item may be seen twice or not at all where others write meanwhile.
    pub fn scan(
        &self,
        tenant: TenantId,
        cursor: u64,
        now: Second,
        mut visit: impl FnMut(&Item<'_>),
    ) -> Option<u64> {
        let tenant = self.store.tenants.get(tenant)?;
        let _pin = Pin::new(self);
        self.lending(|| self.items().scan(tenant, cursor, now, &mut visit))
    }

    /// Removes what is expired or flushed from a part of a tenant's items, counting it in `reclaimed`; returns
    /// where to go on, or nothing at the end. Start with 0. Eviction finds such items without this.
    pub fn reclaim(
        &self,
        tenant: TenantId,
        cursor: u64,
        now: Second,
        reclaimed: &mut u64,
    ) -> Option<u64> {
        let tenant = self.store.tenants.get(tenant)?;
        let _pin = Pin::new(self);
        self.items().reclaim(tenant, cursor, now, reclaimed)
    }
}

impl Thread for Worker {
    fn slot(&self) -> &PinSlot {
        &self.slot
    }

    fn luck(&self) -> u64 {
        let luck = self.luck.get().wrapping_mul(0x5851_f42d_4c95_7f2d);
        let luck = luck.wrapping_add(1);
        self.luck.set(luck);
        luck >> 33
    }

    fn unpinned(&self, wait: &mut dyn FnMut()) -> bool {
        let lets_go = !self.keeps_its_pin();
        if lets_go {
            self.unpin_for(wait);
        }
        lets_go
    }

    fn renew(&self) {
        let arena = &self.store.arena;
        if !self.keeps_its_pin() {
            arena.epochs().unpin(&self.slot);
            arena.settle();
            arena.epochs().pin(&self.slot);
        }
    }
}

/// All blocks held still, for as long as it lives.
pub struct Pin<'a>(&'a Worker);

impl<'a> Pin<'a> {
    #[inline]
    pub(crate) fn new(worker: &'a Worker) -> Pin<'a> {
        if worker.pins.replace(worker.pins.get() + 1) == 0 {
            worker.store.arena.epochs().pin(&worker.slot);
        }
        Pin(worker)
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        let pins = self.0.pins.get() - 1;
        self.0.pins.set(pins);
        if pins == 0 {
            self.0.store.arena.epochs().unpin(&self.0.slot);
        }
    }
}

/// Says that a caller looks at items or pages, for as long as it lives.
struct Lent<'a>(&'a Worker);

impl<'a> Lent<'a> {
    #[inline]
    fn new(worker: &'a Worker) -> Lent<'a> {
        worker.lent.set(worker.lent.get() + 1);
        Lent(worker)
    }
}

impl Drop for Lent<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.lent.set(self.0.lent.get() - 1);
    }
}
