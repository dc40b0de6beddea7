//! The table of pools: which handles are good, for whom, and what they promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use sublet_types::{PoolFlags, PoolId, TenantId, Windows};

use crate::api::{PoolError, Spill, TENANTS_MAX};
use crate::arena::PageKind;
use crate::frames::POOLS_MAX;

pub(crate) struct Pools {
    places: Box<[Place]>,
    vacant: Mutex<Vec<u32>>,
    /// Pools that were made, ever.
    made: AtomicU64,
    /// Places from here on were never used.
    end: AtomicUsize,
    /// How many each tenant has.
    by_tenant: Box<[AtomicU32]>,
}

/// A place in the table.
struct Place {
    /// Generation, tenant and flags in one word, so that a look at it is never half old.
    word: AtomicU64,
    /// Which of all pools that were made it is. Places are used again, so that they say nothing of that.
    made: AtomicU64,
    /// The pool itself: another place, for a handle on a shared pool.
    base: AtomicU32,
    space: RwLock<Option<Arc<Space>>>,
}

const ALIVE: u64 = 1;
const PERSISTENT: u64 = 2;
const SHARED: u64 = 4;
const KEEPING: u64 = 8;
/// Its windows leave whole.
const WHOLE: u64 = 16;

/// A pool that a handle leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    /// The place under which its pages are kept.
    pub(crate) base: u32,
    pub(crate) flags: PoolFlags,
    /// Who its pages are charged to.
    pub(crate) owner: TenantId,
}

impl Pool {
    pub(crate) fn kind(self) -> PageKind {
        match self.flags.persistent {
            true => PageKind::Persistent,
            false => PageKind::Ephemeral,
        }
    }

    /// Whether a get takes the page away.
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
        let place = |_| Place {
            word: AtomicU64::new(0),
            made: AtomicU64::new(0),
            base: AtomicU32::new(0),
            space: RwLock::new(None),
        };
        Pools {
            places: (0..POOLS_MAX).map(place).collect(),
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
        space: Option<Arc<Space>>,
    ) -> Result<PoolId, PoolError> {
        let slot = self.vacant.lock().pop().ok_or(PoolError::TooMany)?;
        let place = &self.places[slot as usize];
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

    /// The pool of a handle, if it is this tenant's and alive.
    pub(crate) fn check(&self, id: PoolId, tenant: TenantId) -> Option<Pool> {
        let place = self.places.get(id.slot as usize)?;
        let word = place.word.load(Ordering::Acquire);
        if !is_alive(word, id) || tenant_of(word) != tenant {
            return None;
        }
        let base = place.base.load(Ordering::Relaxed);
        let owner = match base == id.slot {
            true => tenant,
            false => tenant_of(self.places[base as usize].word.load(Ordering::Acquire)),
        };
        Some(Pool {
            base,
            flags: flags_of(word),
            owner,
        })
    }

    /// Whether a handle is still good. To be asked again under a shard's lock: whoever ends a pool goes through all
    /// shards after its handle is dead, so that nothing is put behind its back.
    pub(crate) fn is_alive(&self, id: PoolId) -> bool {
        let word = self.places[id.slot as usize].word.load(Ordering::Acquire);
        is_alive(word, id)
    }

    /// Says what leaves with a page of a pool that is evicted.
    pub(crate) fn set_windows(&self, id: PoolId, windows: Windows) {
        let Some(place) = self.places.get(id.slot as usize) else {
            return;
        };
        let set = |word| match windows {
            _ if !is_alive(word, id) => None,
            Windows::Pages => Some(word & !WHOLE),
            Windows::Whole => Some(word | WHOLE),
        };
        let _ = place
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, set);
    }

    /// What leaves with a page of a pool that is evicted.
    pub(crate) fn windows(&self, base: u32) -> Windows {
        match self.places[base as usize].word.load(Ordering::Relaxed) & WHOLE {
            0 => Windows::Pages,
            _ => Windows::Whole,
        }
    }

    /// Ends a handle: no use of it that begins from now on succeeds. Says whether it was alive.
    pub(crate) fn end(&self, id: PoolId) -> bool {
        let Some(place) = self.places.get(id.slot as usize) else {
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

    /// Has the place of an ended handle used again. Only when none of its pages is left.
    pub(crate) fn vacate(&self, slot: u32) {
        *self.places[slot as usize].space.write() = None;
        self.vacant.lock().push(slot);
    }

    /// The spill file of a pool.
    pub(crate) fn space(&self, base: u32) -> Option<Arc<Space>> {
        self.places[base as usize].space.read().clone()
    }

    /// How many pools a tenant has, handles on shared ones among them.
    pub(crate) fn count(&self, tenant: TenantId) -> u32 {
        self.by_tenant[usize::from(tenant.0)].load(Ordering::Relaxed)
    }

    /// Every living pool of a tenant, handles on shared ones among them, in the order in which they were made.
    pub(crate) fn of_tenant(&self, tenant: TenantId) -> Vec<(PoolId, Pool)> {
        let own = self.all().filter(|(_, whose, _)| *whose == tenant);
        let mut own: Vec<(PoolId, Pool)> = own.map(|(id, _, pool)| (id, pool)).collect();
        own.sort_by_key(|(id, _)| self.places[id.slot as usize].made.load(Ordering::Relaxed));
        own
    }

    /// Every living pool of every tenant, and whose it is, in the order of places.
    pub(crate) fn all(&self) -> impl Iterator<Item = (PoolId, TenantId, Pool)> {
        let used = &self.places[..self.end.load(Ordering::Acquire)];
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

/// A spill file, and which of its slots are taken.
pub(crate) struct Space {
    pub(crate) spill: Arc<dyn Spill>,
    slots: Mutex<Slots>,
}

struct Slots {
    vacant: Vec<u32>,
    /// Slots from here on were never taken.
    next: u32,
}

impl Space {
    pub(crate) fn new(spill: Arc<dyn Spill>) -> Space {
        Space {
            spill,
            slots: Mutex::new(Slots {
                vacant: Vec::new(),
                next: 0,
            }),
        }
    }

    /// Takes a slot; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<u32> {
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

    /// Gives a slot back. Needs no memory: there was room for it when it was taken.
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
        assert_eq!(pools.windows(id.slot), Windows::Pages);
        pools.set_windows(id, Windows::Whole);
        assert_eq!(pools.windows(id.slot), Windows::Whole);
        let pool = pools.check(id, ANN).expect("alive");
        assert_eq!(pool.flags, PoolFlags::default());
        pools.end(id);
        assert_eq!(pools.windows(id.slot), Windows::Pages);
        pools.set_windows(id, Windows::Whole);
        assert_eq!(pools.windows(id.slot), Windows::Pages);
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
            pools.set_windows(id, Windows::Whole);
        }
    }

    #[test]
    fn the_table_has_an_end() {
        let pools = Pools::new();
        for _ in 0..POOLS_MAX {
            assert!(pools.add(ANN, PoolFlags::default(), None, None).is_ok());
        }
        let one_more = pools.add(ANN, PoolFlags::default(), None, None);
        assert!(matches!(one_more, Err(PoolError::TooMany)));
    }
}
