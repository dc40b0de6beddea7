//! Compares tenants with a model: what holds for each name, and what comes back after a restart.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use sublet_client::messages::{AddTenant, ChangeLifetime, ChangeTenant, Limit};
use sublet_frontends::backend::Backend;
use sublet_frontends::tenancy::{Clock, Ledger, StoreHandle};
use sublet_store::{Borrowing, PageSettings, SavedGrants, SavedLimits, Store, StoreSettings};
use sublet_types::{Bytes, EvictionKind, PoolFlags, TenantId, TenantName, TenantSettings, Weight};

use super::adding::forget;
use super::{TenantRegistry, TenantsError};
use crate::config::{self, PersistError, WEIGHT_MAX};
use crate::live_changes_file::LiveChangesFile;
use crate::observe::events::{Actor, Events};

const ARENA: Bytes = Bytes::mib(64);

fn backend() -> Backend {
    let store = Store::new(StoreSettings {
        capacity: ARENA,
        limit: ARENA,
        item_max: Bytes::mib(1),
        seed: 5,
        evicts: true,
        pages: PageSettings::default(),
    });
    Backend {
        store: store.expect("a store"),
        clock: Clock::start(),
        ledger: Arc::new(Ledger::default()),
    }
}

/// A daemon's tenants after a start with this folder: its config, and the changes that it keeps.
fn started(folder: &Path) -> TenantRegistry {
    let file = folder.join("sublet.toml");
    let loaded = config::load(Some(&file), &[]).expect("a config");
    let live = LiveChangesFile::of(loaded.live.clone());
    let places: Vec<_> = loaded.config.tenants.iter().map(|_| Vec::new()).collect();
    let opened = TenantRegistry::open(&loaded, &live, &places, &backend(), &Events::default());
    opened.expect("its tenants")
}

/// A folder with a config that names one tenant, `web`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let text = format!(
        "[daemon]\nstate = {:?}\n[arena]\nceiling = \"{ARENA}\"\n[tenants.web]\nadded = true\nweight = 200\nfloor = \"4MiB\"\n",
        state.display().to_string()
    );
    fs::write(folder.path().join("sublet.toml"), text).expect("written");
    folder
}

fn name(name: &str) -> TenantName {
    name.parse().expect("a name")
}

/// Everything that is granted, by the tenants' names.
type GrantedSettings = BTreeMap<TenantName, TenantSettings>;

fn granted(tenants: &TenantRegistry) -> GrantedSettings {
    let all = tenants.backend.store.tenants().into_iter();
    all.map(|tenant| (tenant.settings.name.clone(), tenant.settings))
        .collect()
}

fn settings(name: TenantName, said: SettingsChange) -> TenantSettings {
    TenantSettings {
        name,
        weight: said.weight.unwrap_or_default(),
        // A floor of zero is none.
        floor: said.floor.flatten().filter(|floor| *floor > Bytes::ZERO),
        ceiling: said.ceiling.flatten(),
    }
}

/// A change of a tenant. `None` changes nothing.
#[derive(Clone, Copy, Debug, Default)]
struct SettingsChange {
    weight: Option<Weight>,
    floor: Option<Option<Bytes>>,
    ceiling: Option<Option<Bytes>>,
}

impl SettingsChange {
    /// This change, with `other` over it.
    fn with(self, other: SettingsChange) -> SettingsChange {
        SettingsChange {
            weight: other.weight.or(self.weight),
            floor: other.floor.or(self.floor),
            ceiling: other.ceiling.or(self.ceiling),
        }
    }

    /// A random change. Some are good, some are bad.
    fn random(rng: &mut TestRng) -> SettingsChange {
        let mut amount = |all: &[Option<u64>]| rng.one(all).map(|kib| kib.map(Bytes::kib));
        let floor = amount(&[
            None,
            Some(0),
            Some(1024),
            Some(8 << 10),
            Some(48 << 10),
            Some(1 << 20),
        ]);
        let ceiling = amount(&[None, Some(512), Some(4 << 10), Some(96 << 10)]);
        SettingsChange {
            weight: rng
                .one(&[1, 7, 100, 0, WEIGHT_MAX, WEIGHT_MAX + 1])
                .map(Weight),
            floor,
            ceiling,
        }
    }
}

fn limit(said: Option<Option<Bytes>>) -> Option<Limit> {
    said.map(|amount| amount.map_or(Limit::None, Limit::Of))
}

fn adding(name: TenantName, said: SettingsChange, lasts: ChangeLifetime) -> AddTenant {
    AddTenant {
        name,
        weight: said.weight,
        floor: limit(said.floor),
        ceiling: limit(said.ceiling),
        eviction: None,
        borrow: None,
        lasts,
    }
}

fn changing(said: SettingsChange, lasts: ChangeLifetime) -> ChangeTenant {
    ChangeTenant {
        weight: said.weight,
        floor: limit(said.floor),
        ceiling: limit(said.ceiling),
        eviction: None,
        borrow: None,
        lasts,
    }
}

/// The model: what is granted now, and what the next start reads.
#[derive(Default)]
struct Model {
    now: GrantedSettings,
    /// What was kept for each name, and whether the tenant was added.
    kept: BTreeMap<TenantName, (bool, SettingsChange)>,
}

impl Model {
    /// Returns whether nothing forbids it.
    fn grants(&self, after: &TenantSettings) -> bool {
        let is_block = |amount: Option<Bytes>| amount.is_none_or(|amount| amount >= Bytes::mib(2));
        let others = self.now.values().filter(|other| other.name != after.name);
        let floors: u64 = others
            .filter_map(|other| other.floor)
            .map(|floor| floor.0)
            .sum();
        let floor = after.floor.unwrap_or_default();
        (1..=WEIGHT_MAX).contains(&after.weight.0)
            && (floor == Bytes::ZERO || is_block(after.floor))
            && is_block(after.ceiling)
            && after.ceiling.is_none_or(|ceiling| floor <= ceiling)
            && (after.floor.is_none() || floors + floor.0 <= ARENA.0)
    }

    fn add(&mut self, name: &TenantName, said: SettingsChange, lasts: ChangeLifetime) -> bool {
        let after = settings(name.clone(), said);
        if self.now.contains_key(name) || !self.grants(&after) {
            return false;
        }
        if lasts == ChangeLifetime::Always {
            self.kept.insert(name.clone(), (true, said));
        }
        self.now.insert(name.clone(), after);
        true
    }

    fn change(&mut self, name: &TenantName, said: SettingsChange, lasts: ChangeLifetime) -> bool {
        let Some(before) = self.now.get(name) else {
            return false;
        };
        let has = SettingsChange {
            weight: Some(before.weight),
            floor: Some(before.floor),
            ceiling: Some(before.ceiling),
        };
        let after = settings(name.clone(), has.with(said));
        let (added, kept) = self.kept.get(name).copied().unwrap_or_default();
        let kept = kept.with(said);
        let next = settings(name.clone(), written(name).with(kept));
        let comes_back = next
            .ceiling
            .is_none_or(|ceiling| next.floor.unwrap_or_default() <= ceiling);
        if !self.grants(&after) || (lasts == ChangeLifetime::Always && !comes_back) {
            return false;
        }
        if lasts == ChangeLifetime::Always {
            self.kept.insert(name.clone(), (added, kept));
        }
        self.now.insert(name.clone(), after);
        true
    }

    fn remove(&mut self, name: &TenantName, lasts: ChangeLifetime) -> bool {
        if name.as_str() == "web" || self.now.remove(name).is_none() {
            return false;
        }
        if lasts == ChangeLifetime::Always {
            self.kept.remove(name);
        }
        true
    }

    /// What a start makes of what was kept. A change of a tenant that is not there waits for it.
    fn restarted(&mut self) {
        let is_there = |(name, (added, _)): &(&TenantName, &(bool, SettingsChange))| {
            *added || name.as_str() == "web"
        };
        let all = self.kept.iter().filter(is_there);
        let read = |(name, (_, said)): (&TenantName, &(bool, SettingsChange))| {
            let all = settings(name.clone(), written(name).with(*said));
            (name.clone(), all)
        };
        self.now = BTreeMap::from([(name("web"), settings(name("web"), written(&name("web"))))]);
        self.now.extend(all.map(read));
    }
}

/// What the config says for that name.
fn written(name: &TenantName) -> SettingsChange {
    match name.as_str() {
        "web" => SettingsChange {
            weight: Some(Weight(200)),
            floor: Some(Some(Bytes::mib(4))),
            ceiling: None,
        },
        _ => SettingsChange::default(),
    }
}

/// The same numbers for the same seed.
struct TestRng(u64);

impl TestRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % bound
    }

    /// One of these, or none of them.
    fn one<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.below(all.len() + 1)).copied()
    }
}

const STEPS: usize = 120;

#[test]
fn what_is_kept_is_what_comes_back_and_a_refused_change_leaves_nothing_changed() {
    for seed in 0..4 {
        let (folder, mut rng, mut model) = (folder(), TestRng(seed), Model::default());
        let mut tenants = started(folder.path());
        model.restarted();
        for step in 0..STEPS {
            let whose = name(["web", "api", "batch"][rng.below(3)]);
            let lasts = [ChangeLifetime::Always, ChangeLifetime::UntilRestart][rng.below(2)];
            let said = SettingsChange::random(&mut rng);
            let what = rng.below(16);
            let (did, should) = match what {
                0 => {
                    drop(tenants);
                    tenants = started(folder.path());
                    model.restarted();
                    (true, true)
                }
                1..=3 => {
                    let removed = tenants.remove(&whose, (lasts, Actor::Daemon), Vec::new, || ());
                    (removed.is_ok(), model.remove(&whose, lasts))
                }
                4..=8 => {
                    let asked = adding(whose.clone(), said, lasts);
                    let added = tenants.add(&asked, Actor::Daemon, || ());
                    (added.is_ok(), model.add(&whose, said, lasts))
                }
                _ => {
                    let changed = tenants.change(&whose, &changing(said, lasts), Actor::Daemon);
                    (changed.is_ok(), model.change(&whose, said, lasts))
                }
            };
            let story = format!("seed {seed}, step {step}: {what} {whose} {lasts:?} {said:?}");
            assert_eq!(did, should, "{story}");
            assert_eq!(granted(&tenants), model.now, "{story}");
        }
    }
}

/// Tenants, of which `api` was kept. Their state folder can no longer be written, because a file has its place.
fn without_a_place_to_keep() -> (tempfile::TempDir, TenantRegistry) {
    let folder = folder();
    let tenants = started(folder.path());
    let api = adding(
        name("api"),
        SettingsChange::default(),
        ChangeLifetime::Always,
    );
    tenants.add(&api, Actor::Daemon, || ()).expect("added");
    let state = folder.path().join("state");
    fs::remove_dir_all(&state).expect("gone");
    fs::write(state, "").expect("written");
    (folder, tenants)
}

#[test]
fn what_cannot_be_kept_is_not_done() {
    let (_folder, tenants) = without_a_place_to_keep();
    let before = granted(&tenants);

    let looks = Cell::new(0);
    let look = || looks.set(looks.get() + 1);
    let batch = adding(
        name("batch"),
        SettingsChange::default(),
        ChangeLifetime::Always,
    );
    let added = tenants.add(&batch, Actor::Daemon, look);
    assert!(
        matches!(
            added,
            Err(TenantsError::Persist(PersistError::Write { .. }))
        ),
        "{added:?}"
    );
    assert_eq!(looks.get(), 1, "who saw it come sees it go");
    let heavier = SettingsChange {
        weight: Some(Weight(7)),
        ..SettingsChange::default()
    };
    let changed = tenants.change(
        &name("api"),
        &changing(heavier, ChangeLifetime::Always),
        Actor::Daemon,
    );
    assert!(
        matches!(changed, Err(TenantsError::Persist(_))),
        "{changed:?}"
    );
    let removed = tenants.remove(
        &name("api"),
        (ChangeLifetime::Always, Actor::Daemon),
        Vec::new,
        look,
    );
    assert!(
        matches!(removed, Err(TenantsError::Persist(_))),
        "{removed:?}"
    );
    assert_eq!(looks.get(), 1);
    assert_eq!(granted(&tenants), before);
}

#[test]
fn a_tenant_that_somebody_has_stays() {
    let folder = folder();
    let tenants = started(folder.path());
    let in_use = |whose: &str, disks: &[&str]| {
        let disks = disks.iter().map(|disk| (*disk).to_owned()).collect();
        let removed = tenants.remove(
            &name(whose),
            (ChangeLifetime::Always, Actor::Daemon),
            || disks,
            || (),
        );
        match removed {
            Err(TenantsError::InUse { by, .. }) => by,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(in_use("web", &[]), "the config file names it");
    let api = adding(
        name("api"),
        SettingsChange::default(),
        ChangeLifetime::Always,
    );
    tenants.add(&api, Actor::Daemon, || ()).expect("added");
    assert_eq!(in_use("api", &["db", "swap"]), "it has disks: db, swap");
    let id = tenants.find(&name("api")).expect("it is there").id;
    let worker = tenants.backend.store.worker().expect("a worker");
    let flags = PoolFlags::default();
    let pool = tenants
        .backend
        .store
        .create_pool(id, flags, None)
        .expect("a pool");
    assert_eq!(in_use("api", &[]), "it has pools: 1");
    worker.destroy_pool(id, pool, tenants.backend.clock.now());
    let removed = tenants.remove(
        &name("api"),
        (ChangeLifetime::Always, Actor::Daemon),
        Vec::new,
        || (),
    );
    removed.expect("nobody has it");
    assert!(!granted(&tenants).contains_key(&name("api")));
}

#[test]
fn the_tenant_of_a_disk_has_what_was_kept_of_its_name_and_goes_where_the_disk_does_not_come() {
    let folder = folder();
    let tenants = started(folder.path());
    let heavy = SettingsChange {
        weight: Some(Weight(700)),
        ceiling: Some(Some(Bytes::mib(8))),
        ..SettingsChange::default()
    };
    let (vm, adding) = (name("vm"), tenants.lock_adding().expect("the turn"));
    let made = adding.ensure_tenant(&vm).expect("entered").expect("made");
    assert_eq!(adding.ensure_tenant(&vm).expect("there"), None);
    let kept = tenants.change(&vm, &changing(heavy, ChangeLifetime::Always), Actor::Daemon);
    kept.expect("kept");
    let looks = Cell::new(0);
    adding.remove_unused(made, || looks.set(looks.get() + 1));
    assert_eq!(looks.get(), 1);
    assert!(!granted(&tenants).contains_key(&vm));

    adding
        .ensure_tenant(&vm)
        .expect("entered")
        .expect("made anew");
    assert_eq!(granted(&tenants)[&vm], settings(vm.clone(), heavy));
    let id = tenants.find(&vm).expect("there").id;
    let store = &tenants.backend.store;
    let pool = store.create_pool(id, PoolFlags::default(), None);
    pool.expect("a pool");
    adding.remove_unused(id, || unreachable!("it has a pool"));
    assert!(granted(&tenants).contains_key(&vm));
}

/// So it is for a tenant of the config, one that was added, and one that comes with its disk.
#[test]
fn a_tenant_that_may_not_borrow_may_not_when_it_comes_back() {
    let folder = folder();
    let tenants = started(folder.path());
    let borrowing = |tenants: &TenantRegistry, whose: &str| {
        let id = tenants.find(&name(whose)).expect("there").id;
        tenants.backend.store.borrowing(id)
    };
    let leave_out = |whose: &str| {
        let change = ChangeTenant {
            borrow: Some(false),
            ..ChangeTenant::default()
        };
        let kept = tenants.change(&name(whose), &change, Actor::Daemon);
        kept.expect("kept");
        assert_eq!(borrowing(&tenants, whose), Borrowing::Forbidden);
    };
    assert_eq!(borrowing(&tenants, "web"), Borrowing::Allowed);
    leave_out("web");
    let asked = AddTenant {
        borrow: Some(false),
        ..adding(
            name("api"),
            SettingsChange::default(),
            ChangeLifetime::Always,
        )
    };
    let added = tenants.add(&asked, Actor::Daemon, || ());
    added.expect("added");
    assert_eq!(borrowing(&tenants, "api"), Borrowing::Forbidden);
    let turn = tenants.lock_adding().expect("the turn");
    let made = turn.ensure_tenant(&name("vm")).expect("entered");
    assert_eq!(borrowing(&tenants, "vm"), Borrowing::Allowed);
    leave_out("vm");
    turn.remove_unused(made.expect("made"), || ());
    turn.ensure_tenant(&name("vm")).expect("entered");
    assert_eq!(borrowing(&tenants, "vm"), Borrowing::Forbidden);
    drop(turn);
    drop(tenants);

    let again = started(folder.path());
    for whose in ["web", "api"] {
        assert_eq!(borrowing(&again, whose), Borrowing::Forbidden, "{whose}");
    }
}

fn saved(weight: u32, eviction: EvictionKind) -> SavedGrants {
    SavedGrants {
        gone: None,
        eviction,
        limits: Some(SavedLimits {
            weight: Weight(weight),
            floor: None,
            ceiling: Some(Bytes::mib(32)),
        }),
    }
}

/// Work that fails.
fn fails() -> Result<(), TenantsError> {
    Err(TenantsError::Weight)
}

#[test]
fn work_that_fails_leaves_a_tenant_what_it_had_and_work_that_succeeds_what_it_was_granted() {
    let folder = folder();
    let tenants = started(folder.path());
    let (web, granted) = (name("web"), saved(7, EvictionKind::File));
    let id = tenants.find(&web).expect("there").id;
    let before = tenants.grants_of(id);
    let at_work = || tenants.grants_of(id);

    let work = || {
        assert_eq!(at_work(), granted);
        fails()
    };
    let failed = tenants.while_granted(&web, Some(granted), Actor::Daemon, work, drop);
    assert!(matches!(failed, Err(TenantsError::Weight)), "{failed:?}");
    assert_eq!(at_work(), before);

    // What the owner sets meanwhile holds.
    let heavier = SettingsChange {
        weight: Some(Weight(9)),
        ..SettingsChange::default()
    };
    let work = || {
        let changed = tenants.change(
            &web,
            &changing(heavier, ChangeLifetime::UntilRestart),
            Actor::Daemon,
        );
        changed.and_then(|()| fails())
    };
    let failed = tenants.while_granted(&web, Some(granted), Actor::Daemon, work, drop);
    assert!(matches!(failed, Err(TenantsError::Weight)), "{failed:?}");
    assert_eq!(at_work(), saved(9, EvictionKind::File));

    let done = tenants.while_granted(
        &web,
        Some(granted),
        Actor::Daemon,
        || Ok::<_, TenantsError>(3),
        drop,
    );
    assert_eq!(done.expect("done"), 3);
    assert_eq!(at_work(), granted);
    drop(tenants);
    let again = started(folder.path());
    let id = again.find(&web).expect("there").id;
    assert_eq!(again.grants_of(id), granted);
}

#[test]
fn work_whose_grants_cannot_be_kept_is_undone() {
    let (_folder, tenants) = without_a_place_to_keep();
    let web = name("web");
    let id = tenants.find(&web).expect("there").id;
    let (before, undone) = (tenants.grants_of(id), Cell::new(None));
    let granted = saved(7, EvictionKind::File);
    let work = || Ok::<_, TenantsError>(3);
    let undo = |done| undone.set(Some(done));
    let kept = tenants.while_granted(&web, Some(granted), Actor::Daemon, work, undo);
    assert!(matches!(kept, Err(TenantsError::Persist(_))), "{kept:?}");
    assert_eq!((undone.get(), tenants.grants_of(id)), (Some(3), before));
}

fn enter(backend: &Backend, whose: &str) -> TenantId {
    let settings = settings(name(whose), SettingsChange::default());
    backend.store.add_tenant(settings).expect("a place")
}

#[test]
fn what_a_removed_tenant_counted_is_not_the_next_ones() {
    let backend = backend();
    let store_handle = StoreHandle::new(&backend.store, backend.clock, &backend.ledger);
    let store_handle = store_handle.expect("a worker");
    let gets = |id| backend.ledger.total(id).cmd_get.get();
    let first = enter(&backend, "first");
    store_handle.open(first).counters().cmd_get.add(7);
    assert_eq!(gets(first), 7);
    forget(&backend, first, || assert_eq!(gets(first), 7));
    assert_eq!(gets(first), 0);
    // Another tenant gets its number once nothing can hold it any more.
    let later = |n| enter(&backend, &format!("t{n}"));
    assert!((0..64).map(later).all(|id| gets(id) == 0));
}
