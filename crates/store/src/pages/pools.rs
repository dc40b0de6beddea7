//! The table of pools: which handles are valid, for which tenant, and with which flags.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use sublet_types::{PoolFlags, PoolId, TenantId, WindowEviction};

use crate::api::{CreatePoolError, PageSending, Spill, TENANTS_MAX};
use crate::arena::PageKind;
use crate::frames::POOLS_MAX;

pub(crate) struct Pools {
    entries: Box<[PoolEntry]>,
    vacant: Mutex<Vec<u32>>,
    /// The number of pools ever made.
    made: AtomicU64,
    /// Slots from here on were never used.
    end: AtomicUsize,
    /// The number of pools of each tenant.
    by_tenant: Box<[AtomicU32]>,
}

/// A slot of the table.
struct PoolEntry {
    /// Generation, tenant and flags in one word, so that a read is consistent.
    word: AtomicU64,
    /// The pool's number among all pools ever made. Slots are reused, so they do not tell it.
    made: AtomicU64,
    /// The slot of the pool itself. A handle on a shared pool has another slot than the pool.
    base: AtomicU32,
    space: RwLock<Option<Arc<SpillSpace>>>,
}

const ALIVE: u64 = 1;
const PERSISTENT: u64 = 2;
const SHARED: u64 = 4;
const KEEPING: u64 = 8;
/// A flag: the pool's windows leave whole.
const WHOLE: u64 = 16;
/// A flag: no page of the pool is sent to a lender.
const UNSENT: u64 = 32;

/// A pool that a handle leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    /// The slot under which its pages are kept.
    pub(crate) base: u32,
    pub(crate) flags: PoolFlags,
    /// The tenant that is charged for its pages.
    pub(crate) owner: TenantId,
}

impl Pool {
    pub(crate) fn kind(self) -> PageKind {
        match self.flags.persistent {
            true => PageKind::Persistent,
            false => PageKind::Ephemeral,
        }
    }

    /// Returns whether a get takes the page away.
    pub(crate) fn is_exclusive(self) -> bool {
        !self.flags.persistent && !self.flags.keeping
    }
}

fn word(generation: u32, tenant: TenantId, flags: PoolFlags) -> u64 {
    let bit = |set: bool, bit: u64| if set { bit } else { 0 };
    u64::from(generation) << 32
        | u64::from(tenant.0) << 8
        | bit(flags.persistent, PERSISTENT)
        | bit(flags.shared, SHARED)
        | bit(flags.keeping, KEEPING)
        | ALIVE
}

impl Pools {
    pub(crate) fn new() -> Pools {
        let place = |_| PoolEntry {
            word: AtomicU64::new(0),
            made: AtomicU64::new(0),
            base: AtomicU32::new(0),
            space: RwLock::new(None),
        };
        Pools {
            entries: (0..POOLS_MAX).map(place).collect(),
            vacant: Mutex::new((0..POOLS_MAX as u32).rev().collect()),
            made: AtomicU64::new(0),
            end: AtomicUsize::new(0),
            by_tenant: (0..TENANTS_MAX).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Makes a pool, or a handle for `tenant` on the shared pool at `base`.
    pub(crate) fn add(
        &self,
        tenant: TenantId,
        flags: PoolFlags,
        base: Option<u32>,
        space: Option<Arc<SpillSpace>>,
    ) -> Result<PoolId, CreatePoolError> {
        let slot = self.vacant.lock().pop().ok_or(CreatePoolError::TooMany)?;
        let place = &self.entries[slot as usize];
        *place.space.write() = space;
        place.base.store(base.unwrap_or(slot), Ordering::Relaxed);
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        place.made.store(made, Ordering::Relaxed);
        let generation = (place.word.load(Ordering::Relaxed) >> 32) as u32;
        place
            .word
            .store(word(generation, tenant, flags), Ordering::Release);
        self.by_tenant[usize::from(tenant.0)].fetch_add(1, Ordering::Relaxed);
        self.end.fetch_max(slot as usize + 1, Ordering::Release);
        Ok(PoolId { slot, generation })
    }

    /// The pool of a handle, if it belongs to this tenant and is alive.
    pub(crate) fn check(&self, id: PoolId, tenant: TenantId) -> Option<Pool> {
        let place = self.entries.get(id.slot as usize)?;
        let word = place.word.load(Ordering::Acquire);
        if !is_alive(word, id) || tenant_of(word) != tenant {
            return None;
        }
        let base = place.base.load(Ordering::Relaxed);
        let owner = match base == id.slot {
            true => tenant,
            false => tenant_of(self.entries[base as usize].word.load(Ordering::Acquire)),
        };
        Some(Pool {
            base,
            flags: flags_of(word),
            owner,
        })
    }

    /// Returns whether a handle is still valid. Ask again under a shard's lock. A thread that ends a pool visits all
    /// shards after the handle is dead, so that nothing is put behind its back.
    pub(crate) fn is_alive(&self, id: PoolId) -> bool {
        let word = self.entries[id.slot as usize].word.load(Ordering::Acquire);
        is_alive(word, id)
    }

    /// Sets what leaves with a page of a pool that is evicted.
    pub(crate) fn set_windows(&self, id: PoolId, windows: WindowEviction) {
        self.set_flag(id, WHOLE, windows == WindowEviction::Whole);
    }

    /// Sets or clears a flag of a pool that is alive.
    fn set_flag(&self, id: PoolId, flag: u64, is_set: bool) {
        let Some(place) = self.entries.get(id.slot as usize) else {
            return;
        };
        let set = |word| match is_set {
            _ if !is_alive(word, id) => None,
            false => Some(word & !flag),
            true => Some(word | flag),
        };
        let _ = place
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, set);
    }

    /// Sets whether evicted pages of a pool go to lenders.
    pub(crate) fn set_sending(&self, id: PoolId, sending: PageSending) {
        self.set_flag(id, UNSENT, sending == PageSending::Paused);
    }

    /// Whether evicted pages of a pool go to lenders.
    pub(crate) fn sending(&self, base: u32) -> PageSending {
        match self.entries[base as usize].word.load(Ordering::Relaxed) & UNSENT {
            0 => PageSending::Allowed,
            _ => PageSending::Paused,
        }
    }

    /// What leaves with a page of a pool that is evicted.
    pub(crate) fn windows(&self, base: u32) -> WindowEviction {
        match self.entries[base as usize].word.load(Ordering::Relaxed) & WHOLE {
            0 => WindowEviction::Pages,
            _ => WindowEviction::Whole,
        }
    }

    /// Ends a handle. No use of it that begins from now on succeeds. Returns whether it was alive.
    pub(crate) fn end(&self, id: PoolId) -> bool {
        let Some(place) = self.entries.get(id.slot as usize) else {
            return false;
        };
        let next = u64::from(id.generation.wrapping_add(1)) << 32;
        let end = |word| is_alive(word, id).then_some(next);
        let ended = place
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, end);
        if let Ok(was) = ended {
            let tenant = usize::from(tenant_of(was).0);
            self.by_tenant[tenant].fetch_sub(1, Ordering::Relaxed);
        }
        ended.is_ok()
    }

    /// Lets the slot of an ended handle be reused. Call it only when none of its pages is left.
    pub(crate) fn vacate(&self, slot: u32) {
        *self.entries[slot as usize].space.write() = None;
        self.vacant.lock().push(slot);
    }

    /// The spill file of a pool.
    pub(crate) fn space(&self, base: u32) -> Option<Arc<SpillSpace>> {
        self.entries[base as usize].space.read().clone()
    }

    /// The number of a tenant's pools, including handles on shared ones.
    pub(crate) fn count(&self, tenant: TenantId) -> u32 {
        self.by_tenant[usize::from(tenant.0)].load(Ordering::Relaxed)
    }

    /// Every living pool of a tenant, including handles on shared ones, in the order in which they were made.
    pub(crate) fn of_tenant(&self, tenant: TenantId) -> Vec<(PoolId, Pool)> {
        let own = self.all().filter(|(_, whose, _)| *whose == tenant);
        let mut own: Vec<(PoolId, Pool)> = own.map(|(id, _, pool)| (id, pool)).collect();
        own.sort_by_key(|(id, _)| self.entries[id.slot as usize].made.load(Ordering::Relaxed));
        own
    }

    /// Every living pool of every tenant, with its tenant, in the order of slots.
    pub(crate) fn all(&self) -> impl Iterator<Item = (PoolId, TenantId, Pool)> {
        let used = &self.entries[..self.end.load(Ordering::Acquire)];
        used.iter().enumerate().filter_map(|(slot, place)| {
            let word = place.word.load(Ordering::Acquire);
            let id = PoolId {
                slot: slot as u32,
                generation: (word >> 32) as u32,
            };
            let tenant = tenant_of(word);
            Some((id, tenant, self.check(id, tenant)?))
        })
    }
}

fn is_alive(word: u64, id: PoolId) -> bool {
    word & ALIVE != 0 && (word >> 32) as u32 == id.generation
}

fn tenant_of(word: u64) -> TenantId {
    TenantId((word >> 8) as u16)
}

fn flags_of(word: u64) -> PoolFlags {
    PoolFlags {
        persistent: word & PERSISTENT != 0,
        shared: word & SHARED != 0,
        keeping: word & KEEPING != 0,
    }
}

/// A spill file, and which of its slots are in use.
pub(crate) struct SpillSpace {
    pub(crate) spill: Arc<dyn Spill>,
    slots: Mutex<FreeSlots>,
}

struct FreeSlots {
    vacant: Vec<u32>,
    /// Slots from here on were never used.
    next: u32,
}

impl SpillSpace {
    pub(crate) fn new(spill: Arc<dyn Spill>) -> SpillSpace {
        SpillSpace {
            spill,
            slots: Mutex::new(FreeSlots {
                vacant: Vec::new(),
                next: 0,
            }),
        }
    }

    /// Takes a slot. `None` if all are in use.
    pub(crate) fn allocate(&self) -> Option<u32> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.vacant.pop() {
            return Some(slot);
        }
        let slot = slots.next;
        if slot >= self.spill.slots() {
            return None;
        }
        slots.next += 1;
        let taken = slots.next as usize;
        slots.vacant.reserve(taken);
        Some(slot)
    }

    /// Gives a slot back. It needs no memory, because room for it was made when it was taken.
    pub(crate) fn give_back(&self, slot: u32) {
        self.slots.lock().vacant.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: TenantId = TenantId(1);
    const BEN: TenantId = TenantId(2);

    #[test]
    fn a_handle_is_good_for_its_tenant_until_it_is_ended() {
        let pools = Pools::new();
        let flags = PoolFlags {
            keeping: true,
            ..PoolFlags::default()
        };
        let id = pools.add(ANN, flags, None, None).expect("a place");
        let pool = pools.check(id, ANN).expect("alive");
        assert_eq!((pool.flags, pool.owner), (flags, ANN));
        assert_eq!(pools.check(id, BEN), None);
        assert!(pools.end(id));
        assert!(!pools.end(id));
        assert_eq!(pools.check(id, ANN), None);
        pools.vacate(id.slot);
        let again = pools.add(BEN, flags, None, None).expect("a place");
        assert_eq!(again.slot, id.slot);
        assert_eq!(pools.check(id, ANN), None);
        assert_eq!(pools.check(id, BEN), None);
        assert!(pools.check(again, BEN).is_some());
    }

    #[test]
    fn what_is_said_of_windows_holds_while_the_handle_is_good() {
        let pools = Pools::new();
        let id = pools.add(ANN, PoolFlags::default(), None, None);
        let id = id.expect("a place");
        assert_eq!(pools.windows(id.slot), WindowEviction::Pages);
        pools.set_windows(id, WindowEviction::Whole);
        assert_eq!(pools.windows(id.slot), WindowEviction::Whole);
        let pool = pools.check(id, ANN).expect("alive");
        assert_eq!(pool.flags, PoolFlags::default());
        pools.end(id);
        assert_eq!(pools.windows(id.slot), WindowEviction::Pages);
        pools.set_windows(id, WindowEviction::Whole);
        assert_eq!(pools.windows(id.slot), WindowEviction::Pages);
    }

    #[test]
    fn numbers_out_of_range_lead_nowhere() {
        let pools = Pools::new();
        for slot in [0, POOLS_MAX as u32, u32::MAX, 1 << 31] {
            let id = PoolId {
                slot,
                generation: 0,
            };
            assert_eq!(pools.check(id, ANN), None);
            assert!(!pools.end(id));
            pools.set_windows(id, WindowEviction::Whole);
        }
    }

    #[test]
    fn the_table_has_an_end() {
        let pools = Pools::new();
        for _ in 0..POOLS_MAX {
            assert!(pools.add(ANN, PoolFlags::default(), None, None).is_ok());
        }
        let one_more = pools.add(ANN, PoolFlags::default(), None, None);
        assert!(matches!(one_more, Err(CreatePoolError::TooMany)));
    }
}
