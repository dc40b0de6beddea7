//! Random verbs on many pools beside a `HashMap`, with releases, moves and faults in between.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use sublet_types::{EvictionKind, ReleaseMode, Windows};

use super::*;

#[derive(Clone, Debug)]
enum Step {
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
        windows: Windows,
    },
    Exhaust(bool),
    Break(bool),
    Chores,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..POOLS.len(), 0..4u64, 0..200u32);
    let index = |index: u32| if index < 150 { index } else { index * 1000 };
    let step = prop_oneof![
        12 => place().prop_map(move |(pool, object, at)| Step::Put { pool, object, index: index(at) }),
        8 => place().prop_map(move |(pool, object, at)| Step::Get { pool, object, index: index(at) }),
        2 => (place(), 0..40u32).prop_map(move |((pool, object, at), count)| Step::PutRun { pool, object, index: index(at), count }),
        2 => (place(), 0..40u32).prop_map(move |((pool, object, at), count)| Step::GetRun { pool, object, index: index(at), count }),
        3 => place().prop_map(move |(pool, object, at)| Step::Flush { pool, object, index: index(at) }),
        1 => place().prop_map(|(pool, object, _)| Step::FlushObject { pool, object }),
        1 => (0..POOLS.len()).prop_map(|pool| Step::Renew { pool }),
        1 => (1..4u64, modes()).prop_map(|(blocks, mode)| Step::Release { blocks, mode }),
        1 => (0..2usize, proptest::option::of(0..12u64))
            .prop_map(|(tenant, blocks)| Step::Target { tenant, blocks }),
        1 => (4..24u64).prop_map(|blocks| Step::Limit { blocks }),
        1 => (0..8usize).prop_map(|kind| Step::Evict(EvictionKind::ALL[kind].0)),
        1 => (0..POOLS.len(), 0..2usize)
            .prop_map(|(pool, at)| Step::Windows { pool, windows: Windows::ALL[at].1 }),
        1 => any::<bool>().prop_map(Step::Exhaust),
        1 => any::<bool>().prop_map(Step::Break),
        2 => Just(Step::Chores),
    ];
    proptest::collection::vec(step, 1..600)
}

fn modes() -> impl Strategy<Value = ReleaseMode> {
    prop_oneof![
        Just(ReleaseMode::Ordered),
        Just(ReleaseMode::Fast),
        Just(ReleaseMode::Scra),
        Just(ReleaseMode::Random),
    ]
}

/// Tenant and flags of each pool.
const POOLS: [(usize, PoolFlags); 5] = [
    (0, EPHEMERAL),
    (0, PERSISTENT),
    (1, EPHEMERAL),
    (1, KEEPING),
    (1, PERSISTENT),
];

struct World {
    store: Arc<Store>,
    levers: Arc<Levers>,
    disks: Vec<Arc<Disk>>,
    tenants: [TenantId; 2],
    clients: Vec<Client>,
    model: HashMap<(usize, u64, u32), u64>,
    contents: u64,
    second: u32,
}

impl World {
    fn new() -> World {
        let (store, levers) = store(24, 3);
        let tenants = [tenant(&store, "ann", 100), tenant(&store, "ben", 300)];
        let mut world = World {
            store,
            levers,
            disks: Vec::new(),
            tenants,
            clients: Vec::new(),
            model: HashMap::new(),
            contents: 0,
            second: NOW.0,
        };
        for (owner, flags) in POOLS {
            let client = world.client(owner, flags);
            world.clients.push(client);
        }
        world
    }

    fn client(&mut self, owner: usize, flags: PoolFlags) -> Client {
        let disk = flags.persistent.then(|| Disk::new(300));
        self.disks.extend(disk.clone());
        let spill = disk.map(|disk| disk as Arc<dyn Spill>);
        let owner = self.tenants[owner];
        let pool = self.store.create_pool(owner, flags, spill).expect("a pool");
        Client::of(&self.store, owner, pool)
    }

    fn is_persistent(pool: usize) -> bool {
        POOLS[pool].1.persistent
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put {
                pool,
                object,
                index,
            } => self.put(pool, object, index),
            Step::Get {
                pool,
                object,
                index,
            } => self.get(pool, object, index),
            Step::PutRun {
                pool,
                object,
                index,
                count,
            } => self.put_run(pool, object, index, count),
            Step::GetRun {
                pool,
                object,
                index,
                count,
            } => self.get_run(pool, object, index, count),
            Step::Flush {
                pool,
                object,
                index,
            } => {
                assert!(self.clients[pool].flush(object, index));
                self.model.remove(&(pool, object, index));
            }
            Step::FlushObject { pool, object } => {
                assert!(self.clients[pool].flush_object(object));
                self.model.retain(|(p, o, _), _| (*p, *o) != (pool, object));
            }
            Step::Renew { pool } => self.renew(pool),
            Step::Release { blocks, mode } => self.release(blocks, mode),
            Step::Target { tenant, blocks } => {
                let target = blocks.map(|blocks| Bytes(blocks * BLOCK as u64));
                self.store.set_target(self.tenants[tenant], target);
            }
            Step::Limit { blocks } => self.store.set_limit(Bytes(blocks * BLOCK as u64)),
            Step::Evict(kind) => {
                for tenant in self.tenants {
                    self.store.set_eviction(tenant, kind, NOW);
                }
            }
            Step::Windows { pool, windows } => {
                self.store.set_windows(self.clients[pool].pool, windows);
            }
            Step::Exhaust(exhausted) => self.levers.exhausted.store(exhausted, Ordering::Relaxed),
            Step::Break(broken) => {
                let set = |disk: &Arc<Disk>| disk.broken.store(broken, Ordering::Relaxed);
                self.disks.iter().for_each(set);
            }
            Step::Chores => {
                self.second += 1;
                for _ in 0..8 {
                    self.clients[0].worker.upkeep(Second(self.second));
                }
            }
        }
    }

    fn put(&mut self, pool: usize, object: u64, index: u32) {
        self.contents += 1000;
        let put = self.clients[pool].put(object, index, self.contents);
        self.learn_put((pool, object, index), self.contents, put);
    }

    fn learn_put(&mut self, key: (usize, u64, u32), content: u64, put: Put) {
        match put.is_stored() {
            true => self.model.insert(key, content),
            // R-P3: neither the new page nor the old one.
            false => self.model.remove(&key),
        };
        if !put.is_stored() {
            assert_eq!(self.clients[key.0].get(key.1, key.2), None);
        }
    }

    /// Later pages of a run may displace earlier ones, as if put one by one.
    fn put_run(&mut self, pool: usize, object: u64, index: u32, count: u32) {
        let first = self.contents + 1000;
        self.contents += 1000 * u64::from(count);
        self.clients[pool].look_ahead(PageVerb::Put, object, index, count);
        let puts = self.clients[pool].put_run(object, index, count, first);
        assert_eq!(puts.len(), count as usize);
        for (n, put) in (0..).zip(puts) {
            let content = first + 1000 * u64::from(n);
            self.learn_put((pool, object, index + n), content, put);
        }
    }

    fn get_run(&mut self, pool: usize, object: u64, index: u32, count: u32) {
        let broken = self.disks[0].broken.load(Ordering::Relaxed);
        self.clients[pool].look_ahead(PageVerb::Get, object, index, count);
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

    /// What the model knew of a page before it was asked for.
    fn learn_get(&mut self, key: (usize, u64, u32), hit: bool) -> Option<u64> {
        let known = self.model.get(&key).copied();
        let persistent = World::is_persistent(key.0);
        let leaves = !persistent && !POOLS[key.0].1.keeping;
        // R-G4: who missed does not hit without a new put.
        if leaves || (!hit && !persistent) {
            self.model.remove(&key);
        }
        known
    }

    fn get(&mut self, pool: usize, object: u64, index: u32) {
        let key = (pool, object, index);
        let broken = self.disks[0].broken.load(Ordering::Relaxed);
        let got = self.clients[pool].get(object, index);
        let known = self.learn_get(key, got.is_some());
        match got {
            Some(_) => assert_eq!(got, known),
            None if World::is_persistent(pool) && !broken => assert_eq!(known, None),
            None => {}
        }
    }

    fn renew(&mut self, pool: usize) {
        let (owner, flags) = POOLS[pool];
        let fresh = self.client(owner, flags);
        let old = std::mem::replace(&mut self.clients[pool], fresh);
        assert!(old.worker.destroy_pool(old.tenant, old.pool, NOW));
        assert_eq!(old.put(0, 0, 1), Put::Refused(PutRefused::NoPool));
        self.model.retain(|(p, ..), _| *p != pool);
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
    fn judge(&mut self) {
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
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_page_store_is_a_map_that_may_forget_what_is_ephemeral(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.judge();
    }
}
