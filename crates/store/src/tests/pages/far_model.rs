//! Random operations beside a `HashMap`, with a lender that delays, loses, reorders, lies and recalls.
//!
//! A page may leave at any time, so a miss is never wrong by itself. But from then on it is a miss until the next put,
//! and a hit is what was put last.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use sublet_types::{EvictionKind, ReleaseMode, WindowEviction};

use super::super::counted::assert_counted;
use super::lender::{FakeLender, FetchAnswer};
use super::*;
use crate::borrowing::{AwayTicket, Borrowing, LEASES_MAX, LeaseSlot};

/// Steps of one run, and runs. Together they are a million operations.
const STEPS: u32 = 10_000;
const RUNS: u64 = 100;

/// After so many steps, the far pages are compared with the model.
const COUNTED_EACH: u32 = 32;

const LEASES: u16 = 3;

/// Flags of each pool, and the tenant that has it.
const POOLS: [(usize, PoolFlags); 4] =
    [(0, EPHEMERAL), (0, KEEPING), (1, KEEPING), (1, PERSISTENT)];

/// A pool, an object and an index.
type PagePlace = (usize, u64, u32);

/// A get that waits for its lender.
struct Fetch {
    place: PagePlace,
    ticket: AwayTicket,
    /// What the lender had when it was asked.
    page: Option<Vec<u8>>,
}

struct World {
    store: Arc<Store>,
    tenants: [TenantId; 2],
    clients: Vec<PoolClient>,
    lender: FakeLender,
    model: HashMap<PagePlace, u64>,
    /// Pages that were put last as part of a sequential run.
    sequential: HashSet<PagePlace>,
    fetches: Vec<Fetch>,
    random: u64,
    contents: NextContents,
    second: u32,
    /// Hits that a lender's bytes served.
    far_hits: u64,
    /// Blocks that went back because they held nothing.
    given_back: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let settings = PageSettings {
            shards: 3,
            far_blocks: 24,
            outbox_pages: 48,
            ..PageSettings::default()
        };
        let (store, _) = store_with(11, settings);
        let tenants = [tenant(&store, "ann", 100), tenant(&store, "ben", 200)];
        let client =
            |(owner, flags): (usize, PoolFlags)| PoolClient::new(&store, tenants[owner], flags);
        let clients = POOLS.map(client).into_iter().collect();
        World {
            store,
            tenants,
            clients,
            lender: FakeLender::new(),
            model: HashMap::new(),
            sequential: HashSet::new(),
            fetches: Vec::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            contents: NextContents::default(),
            second: NOW.0,
            far_hits: 0,
            given_back: 0,
        }
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % n
    }

    fn place(&mut self) -> PagePlace {
        let pool = self.below(POOLS.len() as u64) as usize;
        let index = self.below(90) as u32;
        let index = if index < 70 { index } else { index * 1000 };
        (pool, self.below(2), index)
    }

    fn lease(&mut self) -> LeaseSlot {
        LeaseSlot(self.below(LEASES.into()) as u16)
    }

    fn worker(&self) -> &Worker {
        &self.clients[0].worker
    }

    fn step(&mut self) {
        match self.below(100) {
            0..34 => self.put(),
            34..60 => self.get(),
            60..66 if self.fetches.len() > 8 || self.below(8) == 0 => self.end_fetch(),
            66..71 => {
                let place @ (pool, object, index) = self.place();
                assert!(self.clients[pool].flush(object, index));
                self.model.remove(&place);
            }
            71 => {
                let (pool, object, _) = self.place();
                assert!(self.clients[pool].flush_object(object));
                self.model.retain(|(p, o, _), _| (*p, *o) != (pool, object));
            }
            72..80 => {
                let (lease, most) = (self.lease(), self.below(17) as usize);
                self.lender.carry(&self.clients[0].worker, lease, most);
            }
            80..90 => (0..4).for_each(|_| self.answer()),
            90 => self.release(),
            91 | 97 | 98 => self.lend(),
            92 => {
                let lease = self.lease();
                let first = self.below(1 + u64::from(self.lender.lent(lease))) as u32;
                let one = first..first + 1 + self.below(3) as u32;
                let next = one.end + self.below(3) as u32;
                let other = next..next + self.below(2) as u32;
                self.store.recall(lease, &[one, other]);
            }
            93 if self.below(8) == 0 => {
                let lease = self.lease();
                self.store.end_lease(lease);
            }
            94 => {
                let (lease, blocks) = (self.lease(), self.below(3) as u32);
                match self.below(2) {
                    0 => _ = self.store.return_blocks_of(lease, blocks),
                    _ => self.give_back_idle(blocks),
                }
                self.store.take_returned();
            }
            95 => self.set_something(),
            96 => {
                self.second += 1 + self.below(300) as u32;
                let second = Second(self.second);
                while self.worker().upkeep(second) {}
            }
            _ => {
                self.worker().keep_far_blocks_ready();
            }
        }
    }

    fn put(&mut self) {
        let place @ (pool, object, index) = self.place();
        let content = self.contents.take(1);
        let put = match self.below(4) {
            0 => {
                let count = 1 + self.below(12) as u32;
                return self.put_run(place, count);
            }
            _ => self.clients[pool].put(object, index, content),
        };
        self.learn_put(place, content, AccessPattern::Random, put);
    }

    fn put_run(&mut self, (pool, object, index): PagePlace, count: u32) {
        let first = self.contents.take(count.into());
        let pattern = match self.below(4) {
            0 => AccessPattern::Sequential,
            _ => AccessPattern::Random,
        };
        let run = PageRun {
            first: self.clients[pool].key(object, index),
            count,
            pattern,
        };
        let puts = self.clients[pool].put_run_of(run, first);
        for (n, put) in (0..).zip(puts) {
            let content = first + 1000 * u64::from(n);
            self.learn_put((pool, object, index + n), content, pattern, put);
        }
    }

    fn learn_put(
        &mut self,
        place: PagePlace,
        content: u64,
        pattern: AccessPattern,
        put: PutOutcome,
    ) {
        match pattern {
            AccessPattern::Random => self.sequential.remove(&place),
            AccessPattern::Sequential => self.sequential.insert(place),
        };
        match put.is_stored() {
            true => self.model.insert(place, content),
            // R-P3: neither the new page nor the old one, wherever it was.
            false => self.model.remove(&place),
        };
    }

    fn get(&mut self) {
        let place @ (pool, object, index) = self.place();
        if self.below(4) == 0 {
            let keys: Vec<PageKey> = (index..index + 9)
                .map(|index| self.clients[pool].key(object, index))
                .collect();
            return self.get_pages(place, &keys);
        }
        let (got, content) = self.clients[pool].begin_get(object, index);
        self.learn_get(place, got, content);
    }

    fn get_pages(&mut self, (pool, object, index): PagePlace, keys: &[PageKey]) {
        let seen = Cell::new(None);
        let mut outcomes = Vec::new();
        let client = &self.clients[pool];
        let visit = |_, page: &[u8]| seen.set(Some(content_of(page)));
        let report = |n, got| outcomes.push((n, got, seen.take()));
        client
            .worker
            .get_pages(client.tenant, keys, NOW, visit, report);
        for (n, got, content) in outcomes {
            self.learn_get((pool, object, index + n as u32), got, content);
        }
    }

    fn learn_get(&mut self, place: PagePlace, got: GetOutcome, content: Option<u64>) {
        let (pool, flags) = (place.0, POOLS[place.0].1);
        match got {
            GetOutcome::Hit => {
                let content = content.expect("a hit shows the page");
                assert_eq!(self.model.get(&place), Some(&content), "{place:?}");
                if !flags.keeping && !flags.persistent {
                    self.model.remove(&place);
                }
            }
            GetOutcome::Miss => {
                let was = self.model.remove(&place);
                assert!(!flags.persistent || was.is_none(), "N2: {place:?} is lost");
            }
            GetOutcome::Away(ticket) => {
                assert!(!flags.persistent, "a persistent page stays here");
                assert!(self.model.contains_key(&place), "G4: {place:?} came back");
                assert!(!self.sequential.contains(&place), "P6: {place:?} was sent");
                let answer = FetchAnswer::ALL[match self.below(3) {
                    0 => self.below(5) as usize,
                    _ => 0,
                }];
                let page = self.lender.fetch(&ticket, answer);
                self.fetches.push(Fetch {
                    place,
                    ticket,
                    page,
                });
            }
            GetOutcome::NoPool | GetOutcome::Failed => panic!("{got:?} of pool {pool}"),
        }
    }

    /// Ends a get that waits, perhaps long after others of the same page.
    fn end_fetch(&mut self) {
        if self.fetches.is_empty() {
            return;
        }
        let nth = self.below(self.fetches.len() as u64) as usize;
        let Fetch {
            place,
            ticket,
            page,
        } = self.fetches.swap_remove(nth);
        let (pool, object, index) = place;
        let key = self.clients[pool].key(object, index);
        let (got, content) = self.clients[pool].end_get(key, &ticket, page.as_deref());
        if got == GetOutcome::Hit && page.is_some() {
            self.far_hits += 1;
        }
        self.learn_get(place, got, content);
    }

    fn answer(&mut self) {
        let under_way = self.lender.under_way() as u64;
        if under_way > 0 {
            let (nth, fate) = (self.below(under_way) as usize, self.below(8));
            let (is_lost, is_done) = (fate < 2, fate == 0);
            self.lender
                .answer(&self.clients[0].worker, nth, is_lost, is_done);
        }
    }

    fn release(&mut self) {
        let release = Release {
            amount: Bytes((1 + self.below(4)) * BLOCK as u64),
            mode: match self.below(2) {
                0 => ReleaseMode::Fast,
                _ => ReleaseMode::Ordered,
            },
            tenant: None,
        };
        self.worker().release(release, Second(self.second));
    }

    /// What goes back because it holds nothing costs no page.
    fn give_back_idle(&mut self, blocks: u32) {
        let pages = self.store.pages.assert_far_counted();
        self.given_back += u64::from(self.store.give_back_idle(blocks));
        assert_eq!(self.store.pages.assert_far_counted(), pages);
    }

    /// Compares what each far block counts with its frames, and these with the pages that the model knows.
    fn check_far_counts(&self) {
        let pages = self.store.pages.assert_far_counted();
        let is_away = |(pool, object, index): &PagePlace| {
            let client = &self.clients[*pool];
            let key = client.key(*object, *index);
            client.worker.away_ticket(client.tenant, key, NOW).is_some()
        };
        let away = self.model.keys().filter(|place| is_away(place)).count();
        assert_eq!(pages.away, away as u64);
    }

    fn lend(&mut self) {
        let (lease, blocks) = (self.lease(), 1 + self.below(6) as u32);
        self.lender.lend(&self.store, lease, blocks);
    }

    fn set_something(&mut self) {
        let tenant = self.tenants[self.below(2) as usize];
        match self.below(5) {
            4 => {
                let blocks = self.below(20);
                let target = (blocks > 0).then_some(Bytes(blocks * BLOCK as u64));
                self.store.set_target(tenant, target);
            }
            0 => {
                let borrowing = match self.below(8) {
                    0 => Borrowing::Forbidden,
                    _ => Borrowing::Allowed,
                };
                self.store.set_borrowing(tenant, borrowing);
            }
            1 => {
                let kind = self.below(EvictionKind::ALL.len() as u64) as usize;
                self.store
                    .set_eviction(tenant, EvictionKind::ALL[kind].0, NOW);
            }
            2 => {
                let pool = self.below(3) as usize;
                let windows = WindowEviction::ALL[self.below(2) as usize].1;
                self.store.set_windows(self.clients[pool].pool, windows);
            }
            _ => {
                // The outbox and records of far blocks take three of them.
                let blocks = 7 + self.below(5);
                self.store.set_limit(Bytes(blocks * BLOCK as u64));
            }
        }
    }

    /// Lets all that is under way end, and checks that nothing is left over.
    fn finish(&mut self) {
        while !self.fetches.is_empty() {
            self.end_fetch();
        }
        for lease in (0..LEASES).map(LeaseSlot) {
            self.lender.settle_all(&self.clients[0].worker, lease);
            assert_eq!(self.store.lease_figures(lease).outbound, 0);
        }
        assert_counted(&self.store);
        for lease in 0..LEASES_MAX as u16 {
            self.store.end_lease(LeaseSlot(lease));
        }
        while self.worker().upkeep(Second(self.second + 1)) {}
        for tenant in self.tenants {
            assert_eq!(self.store.page_figures(tenant).at_lenders.0, 0);
        }
        for lease in (0..LEASES).map(LeaseSlot) {
            let figures = self.store.lease_figures(lease);
            assert_eq!((figures.blocks, figures.outbound), (0, 0));
        }
    }
}

/// Runs a world for each seed.
fn run_worlds(seeds: Range<u64>) {
    let (mut far_hits, mut given_back, runs) = (0, 0, seeds.end - seeds.start);
    for seed in seeds {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            world.step();
            world.store.pages.assert_far_counted();
            if step.is_multiple_of(COUNTED_EACH) {
                world.check_far_counts();
            }
        }
        world.finish();
        far_hits += world.far_hits;
        given_back += world.given_back;
    }
    assert!(given_back > runs, "{given_back} blocks went back");
    assert!(
        far_hits > runs * u64::from(STEPS) / 2000,
        "{far_hits} hits at the lender"
    );
}

#[test]
fn no_rule_is_broken_by_a_lender_that_delays_loses_reorders_lies_and_recalls() {
    run_worlds(0..RUNS);
}

#[test]
#[ignore = "ten million operations; `cargo xtask soak --only far` runs them"]
fn no_rule_is_broken_in_ten_million_operations() {
    run_worlds(RUNS..11 * RUNS);
}
