//! Floors hold under every policy: a tenant below its floor gets no refusal, and loses nothing to others.
//!
//! The oracle is what the tenant put while it was below its floor. All of it must be there, byte for byte, whatever
//! others put before, meanwhile and after.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use sublet_policy::Policy;
use sublet_policy::catalogue::{CATALOGUE, make};
use sublet_sim::rng::SimRng;
use sublet_store::{
    GetOutcome, Lookup, MappedMemory, Marks, NewCas, NewItem, PageKey, PageSettings, ReadKind,
    Spill, Store, StoreSettings, Worker,
};
use sublet_types::{
    Bytes, Expiry, ObjectId, PageIndex, Pages, PoolFlags, PoolId, Second, Snapshot, TenantId,
    TenantSettings, TenantSnapshot, Weight,
};

const BLOCK: usize = 64 << 10;
const PAGE: usize = 256;
const FRAMES: u64 = (BLOCK / PAGE) as u64;
const BLOCKS: u64 = 48;

/// The tenant's floor: ten blocks. The tenant asks for a part of the last one.
const FLOOR_BLOCKS: u64 = 10;
const FLOOR: Bytes = Bytes((FLOOR_BLOCKS - 1) * BLOCK as u64 + 5000);

/// Bytes of a value. An item takes about a tenth more, with its key and head.
const VALUE: usize = 700;

/// The items for which the floor has room in any case. The rest may be in open segments, or moved.
const ITEMS: u64 = (FLOOR_BLOCKS - 3) * (BLOCK / (VALUE + 100)) as u64;

/// The kinds of things that a tenant puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PutKind {
    Ephemeral,
    Persistent,
    Items,
}

const ALL: [PutKind; 3] = [PutKind::Ephemeral, PutKind::Persistent, PutKind::Items];

/// A spill file in memory.
struct MemorySpillFile(Mutex<Vec<[u8; PAGE]>>);

impl Spill for MemorySpillFile {
    fn slots(&self) -> u32 {
        1 << 16
    }

    fn write(&self, slot: u32, page: &[u8]) -> io::Result<()> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() <= slot as usize {
            slots.resize(slot as usize + 1, [0; PAGE]);
        }
        slots[slot as usize].copy_from_slice(page);
        Ok(())
    }

    fn read(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        page.copy_from_slice(&slots[slot as usize]);
        Ok(())
    }
}

struct Tenant {
    id: TenantId,
    ephemeral: PoolId,
    persistent: PoolId,
}

/// A store with a policy in front of it.
struct StoreHost {
    store: Arc<Store>,
    worker: Worker,
    policy: Box<dyn Policy>,
    now: Second,
    rng: SimRng,
}

impl StoreHost {
    fn under(policy: &str) -> StoreHost {
        let bytes = Bytes(BLOCKS * BLOCK as u64);
        let settings = StoreSettings {
            capacity: bytes,
            limit: bytes,
            item_max: Bytes(BLOCK as u64 / 4),
            seed: 9,
            evicts: true,
            pages: PageSettings {
                page_bytes: PAGE,
                ..PageSettings::default()
            },
        };
        let memory = MappedMemory::reserve(bytes.0 as usize, BLOCK).expect("memory for a test");
        let store = Store::over(Box::new(memory), BLOCK, settings).expect("memory for a test");
        StoreHost {
            worker: store.worker().expect("a worker"),
            store,
            policy: make(policy, []).expect("of the catalogue"),
            now: Second(2),
            rng: SimRng::seeded(11),
        }
    }

    fn tenant(&self, name: &str, floor: Option<Bytes>) -> Tenant {
        let settings = TenantSettings {
            name: name.parse().expect("a name"),
            weight: Weight(100),
            floor,
            ceiling: None,
        };
        let id = self.store.add_tenant(settings).expect("a tenant");
        let persistent = PoolFlags {
            persistent: true,
            ..PoolFlags::default()
        };
        let spill_file = Arc::new(MemorySpillFile(Mutex::default()));
        let pool = |flags, spill| self.store.create_pool(id, flags, spill).expect("a pool");
        Tenant {
            id,
            ephemeral: pool(PoolFlags::default(), None),
            persistent: pool(persistent, Some(spill_file as Arc<dyn Spill>)),
        }
    }

    /// Stores the nth thing of a tenant. Returns whether it is there.
    fn put(&self, tenant: &Tenant, what: PutKind, n: u64) -> bool {
        if what == PutKind::Items {
            let value = [n as u8; VALUE];
            let new = NewItem {
                flags: 0,
                expiry: Expiry::Never,
                marks: Marks::default(),
                cas: NewCas::Fresh,
                value: &[&value],
            };
            let key = n.to_le_bytes();
            let stored = self
                .worker
                .update(tenant.id, &key, self.now, |entry| entry.store(&new));
            return stored.is_ok();
        }
        let fill = |page: &mut sublet_store::UnwrittenPage<'_>| page.copy_from_slice(&content(n));
        let put = self
            .worker
            .put_page(tenant.id, key(tenant, what, n), self.now, fill);
        put.is_stored()
    }

    /// Whether the nth thing is there, as it was stored.
    fn has(&self, tenant: &Tenant, what: PutKind, n: u64) -> bool {
        if what == PutKind::Items {
            let same = |item: &sublet_store::Item<'_>| item.value().len() == VALUE;
            let read =
                self.worker
                    .read(tenant.id, &n.to_le_bytes(), self.now, ReadKind::Peek, same);
            return read == Lookup::Hit(true);
        }
        let mut seen = [0; PAGE];
        let visit = |page: &[u8]| seen.copy_from_slice(page);
        let got = self
            .worker
            .get_page(tenant.id, key(tenant, what, n), self.now, visit);
        got == GetOutcome::Hit && seen == content(n)
    }

    /// Lets a second pass: the policy decides, and the chores are done.
    fn second(&mut self) {
        self.now.0 += 1;
        let snapshot = self.snapshot();
        let decision = self.policy.decide(&snapshot);
        for target in &decision.targets.tenants {
            let bytes = target.pages.map(|pages| pages.bytes());
            self.store.set_target(target.id, bytes);
            let guard = target.guard.map(|pages| pages.bytes());
            self.store.set_guard(target.id, guard, target.giving);
        }
        for _ in 0..1000 {
            if !self.worker.upkeep(self.now) {
                break;
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let figures = self.store.figures();
        let total = Pages::of(figures.limit - figures.index - figures.reserve);
        let tenants = self.store.tenants();
        let tenants = tenants.iter().map(|tenant| TenantSnapshot {
            id: tenant.id,
            weight: tenant.settings.weight,
            floor: tenant.settings.floor.map(Pages::of),
            ceiling: None,
            held: Pages::of(tenant.held),
            used: Pages::of(tenant.held),
            target: tenant.target.map(Pages::of),
            puts: 100,
            puts_succeeded: 90,
            puts_ever: 100,
            puts_failed_ever: 10,
            gets: 100,
            hits: 50,
            flushes: 0,
            shared: Pages(0),
            curve: None,
        });
        Snapshot {
            at: self.now,
            total,
            free: Pages::of(figures.free),
            tenants: tenants.collect(),
        }
    }

    /// Lets others put random things, so much that nothing is free.
    fn storm(&mut self, others: &[Tenant], puts: u64) {
        self.storm_of(&ALL, others, puts);
    }

    fn storm_of(&mut self, kinds: &[PutKind], others: &[Tenant], puts: u64) {
        for _ in 0..puts {
            let other = &others[self.rng.below(others.len() as u64) as usize];
            let what = kinds[self.rng.below(kinds.len() as u64) as usize];
            let n = self.rng.below(1 << 15);
            self.put(other, what, n);
        }
    }
}

fn content(n: u64) -> [u8; PAGE] {
    let mut content = [n as u8; PAGE];
    content[..8].copy_from_slice(&n.to_le_bytes());
    content
}

fn key(tenant: &Tenant, what: PutKind, n: u64) -> PageKey {
    PageKey {
        pool: match what {
            PutKind::Persistent => tenant.persistent,
            PutKind::Ephemeral | PutKind::Items => tenant.ephemeral,
        },
        object: ObjectId(n / 7),
        index: PageIndex((n % 7) as u32),
    }
}

/// Lets others take everything. Then a tenant fills its floor while they go on.
fn check(policy: &str, what: PutKind, others: u64) {
    let mut host = StoreHost::under(policy);
    let names = (0..others).map(|n| format!("other-{n}"));
    let others: Vec<Tenant> = names.map(|name| host.tenant(&name, None)).collect();
    let owner = host.tenant("owner", Some(FLOOR));
    for _ in 0..8 {
        host.storm(&others, 4000);
        host.second();
    }
    let all = match what {
        PutKind::Items => ITEMS,
        PutKind::Ephemeral | PutKind::Persistent => FLOOR_BLOCKS * FRAMES,
    };
    for n in 0..all {
        assert!(
            host.put(&owner, what, n),
            "{policy}, {what:?}: {n} of {all} was refused"
        );
        host.storm(&others, 5);
        if n % 200 == 0 {
            host.second();
        }
    }
    for _ in 0..5 {
        host.storm(&others, 4000);
        host.second();
    }
    let lost = (0..all).filter(|n| !host.has(&owner, what, *n)).count();
    assert_eq!(lost, 0, "{policy}, {what:?}: of {all}");
}

#[test]
fn who_is_below_its_floor_is_refused_nothing_and_loses_nothing() {
    for policy in &CATALOGUE {
        for what in ALL {
            check(policy.name, what, 3);
        }
    }
}

/// The owner was promised nothing, but half of a fourth belongs to a tenant while it is active. The oracle is what it
/// put of that.
#[test]
fn half_of_its_share_stays_with_who_is_active_under_pooled() {
    for what in [PutKind::Ephemeral, PutKind::Items] {
        let mut host = StoreHost::under("pooled");
        let others: Vec<Tenant> = (0..3)
            .map(|n| host.tenant(&format!("other-{n}"), None))
            .collect();
        let owner = host.tenant("owner", None);
        let storm = |host: &mut StoreHost, puts| {
            host.storm_of(&[PutKind::Ephemeral, PutKind::Items], &others, puts)
        };
        for _ in 0..8 {
            storm(&mut host, 4000);
            host.second();
        }
        let half = host.snapshot().total.bytes().0 / BLOCK as u64 / 8;
        let all = match what {
            PutKind::Items => (half - 3) * (BLOCK / (VALUE + 100)) as u64,
            PutKind::Ephemeral | PutKind::Persistent => half * FRAMES,
        };
        for n in 0..all {
            assert!(host.put(&owner, what, n), "{what:?}: {n} of {all}");
            storm(&mut host, 5);
            if n % 200 == 0 {
                host.second();
            }
        }
        for _ in 0..5 {
            storm(&mut host, 4000);
            host.second();
        }
        let lost = (0..all).filter(|n| !host.has(&owner, what, *n)).count();
        assert_eq!(lost, 0, "{what:?}: of {all}");
    }
}

#[test]
fn a_single_hog_does_not_stand_on_a_floor_either() {
    for what in ALL {
        check("weights", what, 1);
    }
}

/// The floor is granted when others already hold the memory, some of it for persistent pages.
#[test]
fn a_floor_that_is_raised_is_cleared_of_others_pages() {
    for what in ALL {
        let mut host = StoreHost::under("greedy");
        let owner = host.tenant("owner", None);
        let other = host.tenant("other", None);
        for n in 0..BLOCKS * FRAMES {
            host.put(&other, PutKind::Persistent, n);
        }
        let settings = host.store.tenant_settings(owner.id).expect("there");
        let raised = TenantSettings {
            floor: Some(FLOOR),
            ..settings
        };
        host.store.set_tenant(owner.id, raised).expect("raised");
        host.second();
        for n in 0..ITEMS {
            assert!(host.put(&owner, what, n), "{what:?}: {n}");
        }
        let kept = (0..BLOCKS * FRAMES / 2).filter(|n| host.has(&other, PutKind::Persistent, *n));
        assert_eq!(
            kept.count() as u64,
            BLOCKS * FRAMES / 2,
            "on disk, not gone"
        );
    }
}

/// Floors that do not fit together are cut in proportion, and the store reports it.
#[test]
fn floors_that_are_too_much_together_are_told_and_divided() {
    let mut host = StoreHost::under("weights");
    let half = Some(Bytes(BLOCKS * BLOCK as u64 * 3 / 4));
    let tenants = [host.tenant("a", half), host.tenant("b", half)];
    assert!(host.store.floors().short() > Bytes::ZERO);
    for n in 0..BLOCKS * FRAMES {
        assert!(host.put(&tenants[0], PutKind::Ephemeral, n));
    }
    for n in 0..BLOCKS * FRAMES / 2 {
        assert!(host.put(&tenants[1], PutKind::Ephemeral, n));
    }
    host.second();
    let held: Vec<u64> = host
        .store
        .tenants()
        .iter()
        .map(|tenant| tenant.held.0 / BLOCK as u64)
        .collect();
    assert!(held.iter().all(|held| *held >= BLOCKS / 2 - 3), "{held:?}");
}
