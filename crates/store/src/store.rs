//! The store: tenants' items in one arena, and the handle by which a thread works on it.

use std::cell::Cell;
use std::sync::Arc;

use sublet_types::{BLOCK_BYTES, Bytes, ReleaseMode, Second, TenantId, TenantName, TenantSettings};

use crate::api::*;
use crate::arena::{Arena, Claimant, Mapped, Memory, PinSlot};
use crate::items::{BLOCKS_MAX, Ear, Entry, Items, Loss, Moment, Room, Shrink};
use crate::tenants::Tenant;

/// Seconds after which heat counts half.
const HEAT_HALF_LIFE_SECS: u32 = 60;

/// Seconds that expired and flushed segments are left alone where nobody needs room, so that a read of them
/// can still say why it missed.
const EXPIRED_GRACE_SECS: u32 = 30;

/// Free blocks beyond this go back to the kernel, a part each second.
const FREE_KEPT: Bytes = Bytes::mib(128);

/// The part of the surplus of free blocks that goes back in a second.
const SURPLUS_ONE_IN: usize = 4;

/// Times that a writer lets others run before it gives up hope of room: readers that hold blocks back
/// leave after microseconds, but may be off their core for as long as the machine is busy.
const WAITS_MAX: u32 = 1_000_000;

/// Blocks that a tenant over its lowered ceiling gives up in one call of the chores.
const CEILING_PIECE: u32 = 32;

/// Rounds of a release, each waiting for readers of the last moment, at the most.
const ROUNDS_MAX: u32 = 10_000;

/// The store, shared by all threads.
pub struct Store {
    pub(crate) items: Items,
}

impl Store {
    /// A store with nothing in it, over memory of this process. Holds one block, for its index.
    ///
    /// # Errors
    ///
    /// The kernel refuses the address space (strict overcommit) or the first block.
    pub fn new(settings: StoreSettings) -> std::io::Result<Arc<Store>> {
        let block = BLOCK_BYTES as usize;
        let blocks =
            (settings.capacity.blocks() as usize).clamp(ARENA_MIN.blocks() as usize, BLOCKS_MAX);
        let memory = Mapped::reserve(blocks * block, block)?;
        Store::over(Box::new(memory), block, settings)
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
        let items = Items::new(arena, index, &settings);
        Some(Arc::new(Store { items }))
    }

    /// A handle for one thread.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, TooManyWorkers> {
        let slot = self.items.arena.epochs().enroll()?;
        Ok(Worker {
            store: Arc::clone(self),
            slot,
            pins: Cell::new(0),
            lent: Cell::new(0),
            luck: Cell::new(0x9e37_79b9_7f4a_7c15),
        })
    }

    /// Adds a tenant.
    pub fn add_tenant(&self, settings: TenantSettings) -> Result<TenantId, TenantError> {
        self.items.tenants.add(settings)
    }

    /// The tenant of that name.
    pub fn tenant(&self, name: &TenantName) -> Option<TenantId> {
        self.items.tenants.by_name(name).map(|tenant| tenant.id)
    }

    /// Changes weight, floor and ceiling.
    pub fn set_tenant(&self, id: TenantId, settings: TenantSettings) -> Result<(), TenantError> {
        self.items
            .tenants
            .get(id)
            .ok_or(TenantError::Unknown)?
            .set(&settings)
    }

    /// Every tenant, now.
    pub fn tenants(&self) -> Vec<TenantFigures> {
        let live = self.live();
        self.items
            .tenants
            .iter()
            .map(|tenant| self.figures_of(tenant, &live))
            .collect()
    }

    /// One tenant, now. Its number is one that [`add_tenant`](Store::add_tenant) gave.
    pub fn tenant_figures(&self, id: TenantId) -> TenantFigures {
        let tenant = self.items.tenants.get(id).expect("a tenant of this store");
        self.figures_of(tenant, &self.live())
    }

    /// Live items and bytes of each tenant.
    fn live(&self) -> Vec<(u64, u64)> {
        use std::sync::atomic::Ordering::Relaxed;
        let tenants: Vec<&Tenant> = self.items.tenants.iter().collect();
        let mut live = vec![(0, 0); tenants.len()];
        for (_, block) in self.items.arena.blocks() {
            let Claimant::Tenant(owner) = block.owner() else {
                continue;
            };
            let place = owner.0 as usize;
            if place < live.len() && !tenants[place].segments.is_flushed(block.sequence()) {
                live[place].0 += u64::from(block.live_items.load(Relaxed));
                live[place].1 += u64::from(block.live_bytes.load(Relaxed));
            }
        }
        live
    }

    fn figures_of(&self, tenant: &Tenant, live: &[(u64, u64)]) -> TenantFigures {
        let (items, used) = live.get(tenant.id.0 as usize).copied().unwrap_or_default();
        TenantFigures {
            id: tenant.id,
            settings: tenant.settings(),
            held: self.bytes(tenant.held()),
            used: Bytes(used),
            items,
            evictions: tenant.tally.evictions.get(),
            evicted_unfetched: tenant.tally.evicted_unfetched.get(),
            reclaimed: tenant.tally.reclaimed.get(),
            expired_unfetched: tenant.tally.expired_unfetched.get(),
            fairness: self
                .items
                .tenants
                .fairness(tenant, self.items.arena.limit()),
        }
    }

    fn bytes(&self, blocks: u32) -> Bytes {
        Bytes(u64::from(blocks) * self.items.arena.block_bytes() as u64)
    }

    fn blocks(&self, bytes: Bytes) -> u32 {
        bytes
            .0
            .div_ceil(self.items.arena.block_bytes() as u64)
            .min(u64::from(u32::MAX)) as u32
    }

    /// What the arena may hold, now.
    pub fn limit(&self) -> Bytes {
        self.bytes(self.items.arena.limit())
    }

    /// What the arena holds, now.
    pub fn held(&self) -> Bytes {
        self.bytes(self.items.arena.held())
    }

    /// What a tenant is granted, now.
    pub fn tenant_settings(&self, id: TenantId) -> Option<TenantSettings> {
        self.items.tenants.get(id).map(Tenant::settings)
    }

    /// The whole store, now.
    pub fn figures(&self) -> StoreFigures {
        let live = self.live();
        let arena = &self.items.arena;
        StoreFigures {
            limit: self.bytes(arena.limit()),
            held: self.bytes(arena.held()),
            free: self.bytes(arena.ready()),
            index: self.bytes(self.items.index_blocks() as u32),
            used: Bytes(live.iter().map(|(_, bytes)| bytes).sum()),
            items: live.iter().map(|(items, _)| items).sum(),
        }
    }

    /// Hears of each item of a tenant that is evicted from now on, for as long as the ear lives. Nothing
    /// is heard of blocks that are released whole. `None` if there is no such tenant.
    pub fn listen(self: &Arc<Self>, tenant: TenantId) -> Option<Ear> {
        Ear::open(self, tenant)
    }

    /// Says how much the arena may hold from now on. Gives nothing back by itself: see
    /// [`Worker::release`].
    pub fn set_limit(&self, limit: Bytes) {
        self.items.arena.set_limit(limit);
    }

    /// Asks the kernel for memory ahead of use: one block a call, at most 64 MiB ahead. Says whether
    /// there is more to do. For a thread of its own, so that no set waits for the kernel.
    pub fn populate(&self) -> bool {
        self.items.arena.populate_ahead()
    }
}

/// One thread's handle on the store.
pub struct Worker {
    store: Arc<Store>,
    slot: PinSlot,
    /// Pins within pins.
    pins: Cell<u32>,
    /// Items that a caller looks at now: while there are any, the pin must not be renewed.
    lent: Cell<u32>,
    luck: Cell<u64>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.items().arena.epochs().dismiss(&self.slot);
    }
}

impl Worker {
    /// The store this worker works on.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    fn items(&self) -> &Items {
        &self.store.items
    }

    /// Runs `work` with all blocks held still: many reads in it pay for the pin once.
    /// Must not wait for anything.
    #[inline]
    pub fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        let _pin = Pin::new(self);
        work()
    }

    fn moment(&self, now: Second) -> Moment {
        let luck = self
            .luck
            .get()
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        self.luck.set(luck);
        Moment {
            now,
            luck: luck >> 33,
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
        let Some(tenant) = self.items().tenants.get(tenant) else {
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
        let tenant = self.items().tenants.get(tenant).ok_or(Refused::NoMemory)?;
        let _pin = Pin::new(self);
        let mut decide = |entry: &mut Entry<'_>| {
            let _lent = Lent::new(self);
            decide(entry)
        };
        let mut make_room = |blocks| self.make_room(tenant, blocks, now);
        let (answer, written) =
            self.items()
                .update(tenant, key, self.moment(now), &mut decide, &mut make_room)?;
        if written > 0 {
            self.items().work_ahead(tenant, &self.slot, written, now);
        }
        Ok(answer)
    }

    /// Makes room for so many blocks of a tenant. Says whether it is worth trying again.
    fn make_room(&self, tenant: &Tenant, blocks: u32, now: Second) -> bool {
        for _ in 0..WAITS_MAX {
            if self.items().has_room(tenant, blocks) {
                return true;
            }
            match self.items().make_room(tenant, blocks, &self.slot, now) {
                Room::More => self.unpinned(|| self.items().arena.settle()),
                Room::Busy(giver) => self.unpinned(|| giver.segments.await_ring()),
                Room::None => return self.items().has_room(tenant, blocks),
            }
        }
        false
    }

    /// Lets go of what this thread saw so far, so that blocks in limbo can be reused; waits meanwhile, and
    /// lets others come to an end. Not while a caller looks at items: then nothing is waited for.
    fn unpinned(&self, wait: impl FnOnce()) {
        if self.lent.get() == 0 && self.pins.get() > 0 {
            let epochs = self.items().arena.epochs();
            epochs.unpin(&self.slot);
            wait();
            std::thread::yield_now();
            epochs.pin(&self.slot);
        }
    }

    /// Hides everything the tenant stored so far.
    pub fn flush(&self, tenant: TenantId, now: Second) {
        if let Some(tenant) = self.items().tenants.get(tenant) {
            let _pin = Pin::new(self);
            while !tenant.segments.try_flush(&self.items().arena, now) {
                self.unpinned(|| tenant.segments.await_ring());
            }
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
        let tenant = self.items().tenants.get(tenant)?;
        let _pin = Pin::new(self);
        let _lent = Lent::new(self);
        self.items().scan(tenant, cursor, now, &mut visit)
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
        let tenant = self.items().tenants.get(tenant)?;
        let _pin = Pin::new(self);
        self.items().reclaim(tenant, cursor, now, reclaimed)
    }

    /// Gives memory back to the kernel. Returns after the last block has left. Not within `pinned`.
    pub fn release(&self, release: Release, now: Second) -> Released {
        let arena = &self.items().arena;
        let wanted = u64::from(self.store.blocks(release.amount));
        let before = arena.left();
        let missing = || wanted.saturating_sub(arena.left() - before);
        let mut total = Loss::default();
        if release.tenant.is_none() {
            arena.give_back(missing() as usize, arena.reserve());
        }
        for _ in 0..ROUNDS_MAX {
            let missed = missing();
            if missed == 0 {
                break;
            }
            let blocks = (missed as u32).saturating_sub(arena.in_limbo() as u32);
            let loss = self.shrink(&self.quotas(release.tenant, blocks), release.mode, now);
            total.add(loss);
            arena.give_back(missing() as usize, arena.reserve());
            if missing() == missed {
                if loss.blocks == 0 && arena.in_limbo() == 0 {
                    break;
                }
                std::thread::yield_now(); // readers of the last moment
            }
        }
        // Where the tenants have nothing left to give, eviction needs no reserve either.
        arena.give_back(missing() as usize, 0);
        Released {
            bytes: self.store.bytes((arena.left() - before) as u32),
            items_lost: total.items,
            bytes_lost: Bytes(total.bytes),
            bytes_kept: Bytes(total.bytes_kept),
        }
    }

    fn shrink(&self, quotas: &[(&Tenant, u32)], mode: ReleaseMode, now: Second) -> Loss {
        let renew_pin = || self.unpinned(|| self.items().arena.settle());
        let mut shrink = Shrink {
            items: self.items(),
            me: &self.slot,
            renew_pin: &renew_pin,
            now,
            luck: self.moment(now).luck | 1,
        };
        let mut total = Loss::default();
        for (tenant, quota) in quotas {
            let _pin = Pin::new(self);
            total.add(shrink.tenant(tenant, *quota, mode));
        }
        total
    }

    /// Brings tenants whose ceiling was lowered under it, a piece of each a call. Says whether there is more to do.
    fn keep_ceilings(&self, now: Second) -> bool {
        let block_bytes = self.items().arena.block_bytes();
        let over = |tenant: &Tenant| tenant.blocks_over_ceiling(block_bytes);
        let tenants = self.items().tenants.iter();
        let quotas: Vec<(&Tenant, u32)> = tenants
            .filter(|tenant| over(tenant) > 0)
            .map(|tenant| (tenant, over(tenant).min(CEILING_PIECE)))
            .collect();
        self.shrink(&quotas, ReleaseMode::Ordered, now).blocks > 0
            && quotas.iter().any(|(tenant, _)| over(tenant) > 0)
    }

    /// Who gives how many blocks: again and again the one with the largest fairness.
    fn quotas(&self, only: Option<TenantId>, blocks: u32) -> Vec<(&Tenant, u32)> {
        let tenants = &self.items().tenants;
        if let Some(only) = only {
            return tenants
                .get(only)
                .map(|tenant| (tenant, blocks))
                .into_iter()
                .collect();
        }
        let mut quotas: Vec<(&Tenant, u32)> = tenants.iter().map(|tenant| (tenant, 0)).collect();
        for _ in 0..blocks {
            let left = |tenant: &Tenant| {
                let quota = quotas
                    .get(tenant.id.0 as usize)
                    .map_or(0, |(_, quota)| *quota);
                tenant.held().saturating_sub(quota)
            };
            let Some(giver) = tenants.gives_back(left, self.items().arena.block_bytes()) else {
                break;
            };
            quotas[giver.id.0 as usize].1 += 1;
        }
        quotas.retain(|(_, quota)| *quota > 0);
        quotas
    }

    /// The chores of the background: dead segments, the index's size, heat, surplus, lowered ceilings. Takes about a
    /// millisecond; says whether there is more to do at once. Call it at least each second.
    pub fn upkeep(&self, now: Second) -> bool {
        let more = self.pinned(|| self.items().tidy_index(now));
        if self.items().is_new_second(now) {
            let then = Second(now.0.saturating_sub(EXPIRED_GRACE_SECS));
            self.pinned(|| self.items().drop_expired(&self.slot, then));
            self.pinned(|| self.items().crawl(then));
            if now.0.is_multiple_of(HEAT_HALF_LIFE_SECS) {
                self.items().cool();
            }
            self.return_surplus();
        }
        self.keep_ceilings(now) || more
    }

    fn return_surplus(&self) {
        let arena = &self.items().arena;
        let surplus = arena.ready().saturating_sub(self.store.blocks(FREE_KEPT));
        arena.give_back(surplus as usize / SURPLUS_ONE_IN, arena.reserve());
    }
}

/// A pin, for as long as it lives.
struct Pin<'a>(&'a Worker);

impl<'a> Pin<'a> {
    #[inline]
    fn new(worker: &'a Worker) -> Pin<'a> {
        if worker.pins.replace(worker.pins.get() + 1) == 0 {
            worker.items().arena.epochs().pin(&worker.slot);
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
            self.0.items().arena.epochs().unpin(&self.0.slot);
        }
    }
}

/// Says that a caller looks at items, for as long as it lives.
struct Lent<'a>(&'a Worker);

impl<'a> Lent<'a> {
    fn new(worker: &'a Worker) -> Lent<'a> {
        worker.lent.set(worker.lent.get() + 1);
        Lent(worker)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.lent.set(self.0.lent.get() - 1);
    }
}
