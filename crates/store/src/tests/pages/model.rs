//! Random operations on many pools beside a `HashMap`, with releases, moves, freezes, save files and faults in between.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use sublet_types::{EvictionKind, ReleaseMode, SharedName, WindowEviction};

use super::super::counted::assert_counted;
use super::*;

#[derive(Clone, Debug)]
enum PageStep {
    Put {
        pool: usize,
        object: u64,
        index: u32,
    },
    Get {
        pool: usize,
        object: u64,
        index: u32,
    },
    PutRun {
        pool: usize,
        object: u64,
        index: u32,
        count: u32,
    },
    GetRun {
        pool: usize,
        object: u64,
        index: u32,
        count: u32,
    },
    /// Pages of the first one's tenant, put together.
    PutPages(Vec<ModelKey>),
    GetPages(Vec<ModelKey>),
    Flush {
        pool: usize,
        object: u64,
        index: u32,
    },
    FlushObject {
        pool: usize,
        object: u64,
    },
    Renew {
        pool: usize,
    },
    Release {
        blocks: u64,
        mode: ReleaseMode,
    },
    Target {
        tenant: usize,
        blocks: Option<u64>,
    },
    Limit {
        blocks: u64,
    },
    Evict(EvictionKind),
    Windows {
        pool: usize,
        windows: WindowEviction,
    },
    Freeze {
        tenant: usize,
        frozen: bool,
    },
    /// Sets whether the second sharer may share from now on.
    Allow(bool),
    /// A tenant that shares nothing tries all operations on another tenant's pool.
    Trespass {
        pool: usize,
        object: u64,
        index: u32,
    },
    Save {
        tenant: usize,
    },
    Restore {
        tenant: usize,
    },
    Exhaust(bool),
    Break(bool),
    Chores,
}

/// A pool, an object and an index.
type ModelKey = (usize, u64, u32);

fn steps() -> impl Strategy<Value = Vec<PageStep>> {
    let place = || (0..POOLS.len(), 0..4u64, 0..200u32);
    let index = |index: u32| if index < 150 { index } else { index * 1000 };
    let places = || {
        let place = place().prop_map(move |(pool, object, at)| (pool, object, index(at)));
        proptest::collection::vec(place, 1..60)
    };
    let step = prop_oneof![
        12 => place().prop_map(move |(pool, object, at)| PageStep::Put { pool, object, index: index(at) }),
        8 => place().prop_map(move |(pool, object, at)| PageStep::Get { pool, object, index: index(at) }),
        2 => (place(), 0..40u32).prop_map(move |((pool, object, at), count)| {
            PageStep::PutRun { pool, object, index: index(at), count }
        }),
        2 => (place(), 0..40u32).prop_map(move |((pool, object, at), count)| {
            PageStep::GetRun { pool, object, index: index(at), count }
        }),
        2 => places().prop_map(PageStep::PutPages),
        2 => places().prop_map(PageStep::GetPages),
        3 => place().prop_map(move |(pool, object, at)| PageStep::Flush { pool, object, index: index(at) }),
        1 => place().prop_map(|(pool, object, _)| PageStep::FlushObject { pool, object }),
        1 => (0..POOLS.len()).prop_map(|pool| PageStep::Renew { pool }),
        1 => (1..4u64, modes()).prop_map(|(blocks, mode)| PageStep::Release { blocks, mode }),
        1 => (0..2usize, proptest::option::of(0..12u64))
            .prop_map(|(tenant, blocks)| PageStep::Target { tenant, blocks }),
        1 => (4..24u64).prop_map(|blocks| PageStep::Limit { blocks }),
        1 => (0..EvictionKind::ALL.len()).prop_map(|kind| PageStep::Evict(EvictionKind::ALL[kind].0)),
        1 => (0..POOLS.len(), 0..2usize)
            .prop_map(|(pool, at)| PageStep::Windows { pool, windows: WindowEviction::ALL[at].1 }),
        1 => (0..TENANTS.len(), any::<bool>()).prop_map(|(tenant, frozen)| PageStep::Freeze { tenant, frozen }),
        1 => any::<bool>().prop_map(PageStep::Allow),
        1 => place().prop_map(move |(pool, object, at)| PageStep::Trespass { pool, object, index: index(at) }),
        1 => (0..ACCOUNT).prop_map(|tenant| PageStep::Save { tenant }),
        1 => (0..ACCOUNT).prop_map(|tenant| PageStep::Restore { tenant }),
        1 => any::<bool>().prop_map(PageStep::Exhaust),
        1 => any::<bool>().prop_map(PageStep::Break),
        2 => Just(PageStep::Chores),
    ];
    proptest::collection::vec(step, 1..600)
}

fn modes() -> impl Strategy<Value = ReleaseMode> {
    prop_oneof![Just(ReleaseMode::Ordered), Just(ReleaseMode::Fast),]
}

/// The tenants, with their weights. The last is charged for the shared pool.
const TENANTS: [(&str, u32); 3] = [("ann", 100), ("ben", 300), ("account", 200)];
const ACCOUNT: usize = 2;

const SHARED: PoolFlags = PoolFlags {
    shared: true,
    ..KEEPING
};

const NAME: SharedName = SharedName(7);

/// Tenant and flags of each pool; two of them are handles on one shared pool.
const POOLS: [(usize, PoolFlags); 7] = [
    (0, EPHEMERAL),
    (0, PERSISTENT),
    (1, EPHEMERAL),
    (1, KEEPING),
    (1, PERSISTENT),
    (0, SHARED),
    (1, SHARED),
];

/// The pool in the model. Handles on a shared pool are one.
fn base_of(pool: usize) -> usize {
    match POOLS[pool].1.shared {
        true => 5,
        false => pool,
    }
}

/// A save file of a tenant, and what the model had then.
struct SavedFile {
    bytes: Vec<u8>,
    /// The number of each pool in it.
    numbers: HashMap<u32, usize>,
    pages: PageModel,
    frozen: bool,
}

/// The content of each page that may be there, by pool, object and index.
type PageModel = HashMap<(usize, u64, u32), u64>;

struct World {
    store: Arc<Store>,
    levers: Arc<FaultControls>,
    disks: Vec<Arc<FakeSpill>>,
    tenants: [TenantId; TENANTS.len()],
    clients: Vec<PoolClient>,
    /// A client without a pool.
    stranger: PoolClient,
    model: PageModel,
    /// The pool whose client touched an object of the shared pool last.
    touched: HashMap<u64, usize>,
    is_second_allowed: bool,
    frozen: [bool; TENANTS.len()],
    saved: [Option<SavedFile>; ACCOUNT],
    contents: NextContents,
    second: u32,
}

impl World {
    fn new() -> World {
        let (store, levers) = store(24, 3);
        let tenants = TENANTS.map(|(name, weight)| tenant(&store, name, weight));
        let nobody = PoolId {
            slot: 0,
            generation: 0,
        };
        let mut world = World {
            stranger: PoolClient::of(&store, tenant(&store, "stranger", 100), nobody),
            store,
            levers,
            disks: Vec::new(),
            tenants,
            clients: Vec::new(),
            model: PageModel::new(),
            touched: HashMap::new(),
            is_second_allowed: false,
            frozen: [false; TENANTS.len()],
            saved: [None, None],
            contents: NextContents::default(),
            second: NOW.0,
        };
        world.allow(true);
        for (owner, flags) in POOLS {
            let client = world.client(owner, flags);
            world.clients.push(client);
        }
        world
    }

    fn client(&mut self, owner: usize, flags: PoolFlags) -> PoolClient {
        let disk = flags.persistent.then(|| FakeSpill::new(300));
        self.disks.extend(disk.clone());
        let spill = disk.map(|disk| disk as Arc<dyn Spill>);
        let owner = self.tenants[owner];
        let pool = match flags.shared {
            true => self.store.join_pool(owner, NAME),
            false => self.store.create_pool(owner, flags, spill),
        };
        PoolClient::of(&self.store, owner, pool.expect("a pool"))
    }

    fn is_broken(&self) -> bool {
        self.disks[0].broken.load(Ordering::Relaxed)
    }

    /// Returns whether the tenant that is charged for a pool is frozen.
    fn is_frozen(&self, pool: usize) -> bool {
        let (owner, flags) = POOLS[pool];
        self.frozen[if flags.shared { ACCOUNT } else { owner }]
    }

    fn is_persistent(pool: usize) -> bool {
        POOLS[pool].1.persistent
    }

    fn apply(&mut self, step: PageStep) {
        match step {
            PageStep::Put {
                pool,
                object,
                index,
            } => self.put(pool, object, index),
            PageStep::Get {
                pool,
                object,
                index,
            } => self.get(pool, object, index),
            PageStep::PutRun {
                pool,
                object,
                index,
                count,
            } => self.put_run(pool, object, index, count),
            PageStep::GetRun {
                pool,
                object,
                index,
                count,
            } => self.get_run(pool, object, index, count),
            PageStep::PutPages(places) => self.put_pages(&places),
            PageStep::GetPages(places) => self.get_pages(&places),
            PageStep::Flush {
                pool,
                object,
                index,
            } => {
                assert!(self.clients[pool].flush(object, index));
                self.model.remove(&(base_of(pool), object, index));
            }
            PageStep::FlushObject { pool, object } => {
                assert!(self.clients[pool].flush_object(object));
                let gone = (base_of(pool), object);
                self.model.retain(|(p, o, _), _| (*p, *o) != gone);
            }
            PageStep::Renew { pool } => self.renew(pool),
            PageStep::Release { blocks, mode } => self.release(blocks, mode),
            PageStep::Target { tenant, blocks } => {
                let target = blocks.map(|blocks| Bytes(blocks * BLOCK as u64));
                self.store.set_target(self.tenants[tenant], target);
            }
            PageStep::Limit { blocks } => self.store.set_limit(Bytes(blocks * BLOCK as u64)),
            PageStep::Evict(kind) => {
                for tenant in self.tenants {
                    self.store.set_eviction(tenant, kind, NOW);
                }
            }
            PageStep::Windows { pool, windows } => {
                self.store.set_windows(self.clients[pool].pool, windows);
            }
            PageStep::Freeze { tenant, frozen } => {
                self.store
                    .set_freeze_state(self.tenants[tenant], frozen.into());
                self.frozen[tenant] = frozen;
            }
            PageStep::Allow(second) => self.allow(second),
            PageStep::Trespass {
                pool,
                object,
                index,
            } => self.trespass(pool, object, index),
            PageStep::Save { tenant } => self.save(tenant),
            PageStep::Restore { tenant } => self.restore(tenant),
            PageStep::Exhaust(exhausted) => {
                self.levers.exhausted.store(exhausted, Ordering::Relaxed)
            }
            PageStep::Break(broken) => {
                let set = |disk: &Arc<FakeSpill>| disk.broken.store(broken, Ordering::Relaxed);
                self.disks.iter().for_each(set);
            }
            PageStep::Chores => {
                self.second += 1;
                for _ in 0..8 {
                    self.clients[0].worker.upkeep(Second(self.second));
                }
            }
        }
    }

    fn put(&mut self, pool: usize, object: u64, index: u32) {
        let content = self.contents.take(1);
        let put = self.clients[pool].put(object, index, content);
        self.learn_put((pool, object, index), content, put);
    }

    fn learn_put(&mut self, place: ModelKey, content: u64, put: PutOutcome) {
        self.model_put(place, content, put);
        if !put.is_stored() {
            let (pool, object, index) = place;
            assert_eq!(self.clients[pool].get(object, index), None);
        }
    }

    fn model_put(&mut self, (pool, object, index): ModelKey, content: u64, put: PutOutcome) {
        let key = (base_of(pool), object, index);
        // R-M1: new pages are refused, others are not.
        match self.is_frozen(pool) {
            true if !self.model.contains_key(&key) => {
                assert_eq!(put, PutOutcome::Refused(PutRefused::Frozen));
            }
            true if !World::is_persistent(pool) => {}
            _ => assert_ne!(put, PutOutcome::Refused(PutRefused::Frozen)),
        }
        match put.is_stored() {
            true => self.model.insert(key, content),
            // R-P3: neither the new page nor the old one.
            false => self.model.remove(&key),
        };
        if put.is_stored() {
            self.touch(pool, object);
        }
    }

    /// The keys of the places that belong to the first one's tenant.
    fn together(&self, places: &[ModelKey]) -> (Vec<ModelKey>, Vec<PageKey>) {
        let tenant = POOLS[places[0].0].0;
        let of_tenant = |(pool, ..): &&ModelKey| POOLS[*pool].0 == tenant;
        let places: Vec<ModelKey> = places.iter().filter(of_tenant).copied().collect();
        let key = |(pool, object, index): &ModelKey| self.clients[*pool].key(*object, *index);
        let keys = places.iter().map(key).collect();
        (places, keys)
    }

    /// As if they were put one by one, with the same page perhaps several times.
    fn put_pages(&mut self, places: &[ModelKey]) {
        let (places, keys) = self.together(places);
        let first = self.contents.take(places.len() as u64);
        let puts = self.clients[places[0].0].put_pages(&keys, first);
        for ((place, put), n) in places.iter().zip(puts).zip(0..) {
            self.model_put(*place, first + 1000 * n, put);
        }
        for (pool, object, index) in places {
            if !self.model.contains_key(&(base_of(pool), object, index)) {
                assert_eq!(self.clients[pool].get(object, index), None);
            }
        }
    }

    fn get_pages(&mut self, places: &[ModelKey]) {
        let (places, keys) = self.together(places);
        let broken = self.is_broken();
        let got = self.clients[places[0].0].get_pages(&keys);
        for (place, got) in places.into_iter().zip(got) {
            self.check_get(place, got, broken);
        }
    }

    fn touch(&mut self, pool: usize, object: u64) {
        if POOLS[pool].1.shared {
            self.touched.insert(object, pool);
        }
    }

    /// Later pages of a run may displace earlier ones, as if they were put one by one.
    fn put_run(&mut self, pool: usize, object: u64, index: u32, count: u32) {
        let first = self.contents.take(count.into());
        let puts = self.clients[pool].put_run(object, index, count, first);
        assert_eq!(puts.len(), count as usize);
        for (n, put) in (0..).zip(puts) {
            let content = first + 1000 * u64::from(n);
            self.learn_put((pool, object, index + n), content, put);
        }
    }

    fn get_run(&mut self, pool: usize, object: u64, index: u32, count: u32) {
        let broken = self.is_broken();
        let got = self.clients[pool].get_run(object, index, count);
        for (n, content) in (0..).zip(&got) {
            let known = self.learn_get((pool, object, index + n), true);
            assert_eq!(Some(*content), known);
        }
        if got.len() < count as usize {
            let known = self.learn_get((pool, object, index + got.len() as u32), false);
            let may_miss = !World::is_persistent(pool) || broken;
            assert!(may_miss || known.is_none(), "{known:?} was lost");
        }
    }

    /// What the model knew of a page before the get.
    fn learn_get(&mut self, (pool, object, index): ModelKey, hit: bool) -> Option<u64> {
        let key = (base_of(pool), object, index);
        let known = self.model.get(&key).copied();
        let persistent = World::is_persistent(pool);
        let leaves = !persistent && !POOLS[pool].1.keeping;
        if hit {
            self.touch(pool, object);
        }
        // R-G4: a page that missed does not hit without a new put.
        if leaves || (!hit && !persistent) {
            self.model.remove(&key);
        }
        known
    }

    fn get(&mut self, pool: usize, object: u64, index: u32) {
        let broken = self.is_broken();
        let got = self.clients[pool].get(object, index);
        self.check_get((pool, object, index), got, broken);
    }

    fn check_get(&mut self, place: ModelKey, got: Option<u64>, broken: bool) {
        let known = self.learn_get(place, got.is_some());
        match got {
            Some(_) => assert_eq!(got, known),
            None if World::is_persistent(place.0) && !broken => assert_eq!(known, None),
            None => {}
        }
    }

    fn renew(&mut self, pool: usize) {
        let (owner, flags) = POOLS[pool];
        if flags.shared && !self.may_share(owner) {
            // R-T2: a tenant that was allowed once keeps what it has, and gets no more.
            let refused = self.store.join_pool(self.tenants[owner], NAME);
            return assert_eq!(refused, Err(CreatePoolError::NotAllowed));
        }
        let fresh = self.client(owner, flags);
        self.replace(pool, fresh);
    }

    /// Ends a pool and puts another in its place.
    fn replace(&mut self, pool: usize, fresh: PoolClient) {
        let old = std::mem::replace(&mut self.clients[pool], fresh);
        assert!(old.worker.destroy_pool(old.tenant, old.pool, NOW));
        assert_eq!(old.put(0, 0, 1), PutOutcome::Refused(PutRefused::NoPool));
        match POOLS[pool].1.shared {
            true => self.leave(pool),
            false => self.model.retain(|(p, ..), _| *p != pool),
        }
    }

    /// R-T4: what a sharer touched last goes with it.
    fn leave(&mut self, pool: usize) {
        let own = self.touched.extract_if(|_, last| *last == pool);
        let own: Vec<u64> = own.map(|(object, _)| object).collect();
        let gone = self
            .model
            .extract_if(|(p, object, _), _| *p == base_of(pool) && own.contains(object));
        for ((_, object, index), _) in gone {
            assert_eq!(self.clients[pool].get(object, index), None);
        }
    }

    fn may_share(&self, owner: usize) -> bool {
        owner == 0 || self.is_second_allowed
    }

    fn allow(&mut self, second: bool) {
        self.is_second_allowed = second;
        let [ann, ben, account] = self.tenants;
        let members = if second { vec![ann, ben] } else { vec![ann] };
        let allowed = self.store.allow_sharing(NAME, account, members);
        allowed.expect("two are not too many");
    }

    /// R-T2, R-T3: without permission nothing of a pool can be read, and nothing of it changes.
    fn trespass(&mut self, pool: usize, object: u64, index: u32) {
        let stranger = &mut self.stranger;
        let refused = self.store.join_pool(stranger.tenant, NAME);
        assert_eq!(refused, Err(CreatePoolError::NotAllowed));
        stranger.pool = self.clients[pool].pool;
        assert_eq!(
            stranger.put(object, index, 1),
            PutOutcome::Refused(PutRefused::NoPool)
        );
        assert_eq!(stranger.get(object, index), None);
        assert!(stranger.get_run(object, index, 3).is_empty());
        assert!(!stranger.flush(object, index) && !stranger.flush_object(object));
        assert!(
            !stranger
                .worker
                .destroy_pool(stranger.tenant, stranger.pool, NOW)
        );
    }

    fn pools_of(tenant: usize) -> impl Iterator<Item = usize> {
        (0..POOLS.len()).filter(move |pool| POOLS[*pool].0 == tenant)
    }

    /// R-M2: every persistent page exactly once.
    fn save(&mut self, tenant: usize) {
        let mut bytes = Vec::new();
        let saved = self.clients[0]
            .worker
            .export(self.tenants[tenant], &mut bytes);
        let is_saved = |(pool, ..): &(usize, u64, u32)| {
            POOLS[*pool].0 == tenant && World::is_persistent(*pool)
        };
        let mut pages = self.model.clone();
        pages.retain(|key, _| is_saved(key));
        match saved {
            Ok(saved) => assert_eq!(saved, pages.len() as u64),
            Err(_) => return assert!(self.is_broken(), "only a broken disk hinders a save"),
        }
        let numbers = World::pools_of(tenant).map(|pool| (self.clients[pool].pool.slot, pool));
        self.saved[tenant] = Some(SavedFile {
            bytes,
            numbers: numbers.collect(),
            pages,
            frozen: self.frozen[tenant],
        });
    }

    /// R-M2, R-M4: the pools of a file replace the existing ones, or nothing changes.
    fn restore(&mut self, tenant: usize) {
        let Some(file) = self.saved[tenant].take() else {
            return;
        };
        let before = self.store.pools(self.tenants[tenant]);
        let mut disks = Vec::new();
        let mut spill = |_: &SavedPool| {
            disks.push(FakeSpill::new(300));
            disks.last().cloned().map(|disk| disk as Arc<dyn Spill>)
        };
        let worker = &self.clients[0].worker;
        let (id, all) = (self.tenants[tenant], RestoredPools::All);
        let restored = worker.import(id, &file.bytes[..], NOW, all, &mut spill);
        match restored {
            Ok(pools) => {
                let is_refused = self.frozen[tenant] && !file.pages.is_empty();
                assert!(!is_refused, "a frozen tenant takes no pages");
                self.disks.extend(disks);
                self.take_over(tenant, &file, pools);
            }
            Err(error) => {
                assert!(self.may_fail(tenant, &error), "{error}");
                assert_eq!(self.store.pools(self.tenants[tenant]), before);
            }
        }
        self.saved[tenant] = Some(file);
    }

    fn may_fail(&self, tenant: usize, error: &RestoreError) -> bool {
        match error {
            RestoreError::Pool(error) => {
                *error == CreatePoolError::NotAllowed && !self.may_share(tenant)
            }
            RestoreError::NoPlace(PutRefused::Frozen) => self.frozen[tenant],
            RestoreError::NoPlace(PutRefused::NoMemory | PutRefused::AtTarget) => true,
            _ => false,
        }
    }

    fn take_over(&mut self, tenant: usize, file: &SavedFile, pools: Vec<(SavedPool, PoolId)>) {
        assert_eq!(pools.len(), file.numbers.len());
        for (saved, id) in pools {
            let pool = file.numbers[&saved.number];
            assert_eq!(saved.flags, POOLS[pool].1);
            let fresh = PoolClient::of(&self.store, self.tenants[tenant], id);
            self.replace(pool, fresh);
        }
        let pages = file.pages.iter();
        self.model
            .extend(pages.map(|(key, content)| (*key, *content)));
        self.frozen[tenant] |= file.frozen;
        assert_eq!(
            self.store.is_frozen(self.tenants[tenant]),
            self.frozen[tenant]
        );
    }

    fn release(&mut self, blocks: u64, mode: ReleaseMode) {
        let amount = Bytes(blocks * BLOCK as u64);
        let release = Release {
            amount,
            mode,
            tenant: None,
        };
        self.clients[0].worker.release(release, NOW);
    }

    /// Sums, and every persistent page.
    fn check_all(&mut self) {
        for tenant in self.tenants {
            let figures = self.store.page_figures(tenant);
            let held = figures.held_ephemeral.0 + figures.held_persistent.0;
            assert!(figures.used.0 + figures.free.0 <= held, "{figures:?}");
            let tally = figures.tally;
            assert!(tally.puts >= tally.puts_succeeded && tally.gets >= tally.hits);
        }
        self.disks
            .iter()
            .for_each(|disk| disk.broken.store(false, Ordering::Relaxed));
        let keys: Vec<_> = self.model.keys().copied().collect();
        for (pool, object, index) in keys {
            self.get(pool, object, index);
        }
        assert_counted(&self.store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_page_store_is_a_map_that_may_forget_what_is_ephemeral(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.check_all();
    }
}
