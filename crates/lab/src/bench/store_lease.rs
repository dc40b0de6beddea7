//! What an evicting put costs more if the page that goes may go to a lender.
//!
//! One store measures three cases in turns:
//!
//! - the tenant may not borrow,
//! - a courier settles all pages between the batches, outside of what is timed,
//! - no courier comes, so the outbox is full.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sublet_sim::rng::SimRng;
use sublet_store::{
    Borrowing, LeaseSlot, PageKey, PageSettings, SealTag, SendOutcome, Store, StoreSettings,
    UnwrittenPage, Worker,
};
use sublet_types::{
    BLOCK_BYTES, Bytes, EvictionKind, ObjectId, PAGE_BYTES, PageIndex, PoolFlags, PoolId, Second,
    TenantId, TenantSettings, Weight,
};

use super::bench_store::BenchStoreError;
use super::error::BenchError;
use super::page_content::page_content;
use super::report::{BenchRow, Goal, RoundsSummary};
use super::shuffle::shuffled;

const NOW: Second = Second(2);

const LEASE: LeaseSlot = LeaseSlot(0);

/// Pages that are put between two visits of the courier.
const BATCH: usize = 32;

/// Puts of a turn. Their evicted pages fit into the borrowed blocks.
const TURN: usize = 32_000;

/// Blocks that are borrowed: a quarter more than a turn fills.
const FAR_BLOCKS: u32 = (TURN * 5 / 4 / (BLOCK_BYTES / PAGE_BYTES) as usize) as u32;

/// Memory beyond the blocks of the pages: for the index of items, the records of far blocks, and what is kept free.
const SPARE: Bytes = Bytes::mib(32);

/// The most that a put may cost more while a courier keeps up.
const MORE_NS_MAX: f64 = 700.0;

/// The most that it may cost more while the outbox is full: what such a measurement scatters by.
const MORE_NS_MAX_FULL: f64 = 30.0;

/// What happens to pages that are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseCase {
    /// They are let go.
    Without,
    /// They go to a lender.
    Settled,
    /// They would go to a lender, but the outbox is full.
    Full,
}

impl LeaseCase {
    const ALL: [LeaseCase; 3] = [LeaseCase::Without, LeaseCase::Settled, LeaseCase::Full];
}

/// Nanoseconds per put, turn by turn, in each case.
#[derive(Default)]
struct LeaseTimings([Vec<f64>; LeaseCase::ALL.len()]);

/// A store whose tenant has all that it may have, and a lease.
struct LeaseBench {
    store: Arc<Store>,
    worker: Worker,
    tenant: TenantId,
    pool: PoolId,
    objects: u32,
    buffer: Vec<u8>,
    /// Keys in the order of the puts.
    order: Vec<u32>,
    /// Turns so far. Each has keys of its own.
    turns: u64,
    /// Pages sent for each put, in each turn that a courier settled.
    sent: Vec<f64>,
}

/// How pages are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PutWay {
    /// One call after the other.
    Alone,
    /// A batch in one call.
    Together,
}

/// Times evicting puts, this many rounds of turns, and adds a row for each case.
pub(super) fn rows(
    memory: Bytes,
    objects: u32,
    eviction: EvictionKind,
    rounds: usize,
) -> Result<Vec<BenchRow>, BenchError> {
    let mut bench = LeaseBench::new(memory, objects, eviction)?;
    let turns = (bench.order.len() / TURN).max(1) * rounds;
    let mut rows = Vec::new();
    for (way, called) in [(PutWay::Alone, ""), (PutWay::Together, ", 32 at a time")] {
        let mut timings = LeaseTimings::default();
        for _ in 0..turns {
            for case in LeaseCase::ALL {
                timings.0[case as usize].push(bench.turn(case, way));
            }
        }
        rows.extend(timings.rows(called));
    }
    let sent = RoundsSummary::of(&bench.sent);
    rows.push(BenchRow::new(
        "pages sent for each put to a lender",
        "",
        sent,
    ));
    Ok(rows)
}

impl LeaseTimings {
    /// What each case with a lease costs beyond the case without one, turn by turn.
    fn rows(&self, way: &str) -> [BenchRow; 2] {
        let without = &self.0[LeaseCase::Without as usize];
        let more = |case: LeaseCase| {
            let both = self.0[case as usize].iter().zip(without);
            let more: Vec<f64> = both.map(|(with, without)| with - without).collect();
            RoundsSummary::of(&more)
        };
        let row = |name: &str, case: LeaseCase, most: f64| {
            BenchRow::new(name, "ns", more(case)).goal(Goal::OursAtMost(most))
        };
        let sent = format!("put, another page goes to a lender{way}: more");
        let full = format!("put, another page goes, full outbox{way}: more");
        [
            row(&sent, LeaseCase::Settled, MORE_NS_MAX),
            row(&full, LeaseCase::Full, MORE_NS_MAX_FULL),
        ]
    }
}

impl LeaseBench {
    fn new(memory: Bytes, objects: u32, eviction: EvictionKind) -> Result<LeaseBench, BenchError> {
        let limit = memory + SPARE;
        let store = Store::new(StoreSettings {
            capacity: limit,
            limit,
            item_max: Bytes::mib(1),
            seed: 0x5eed,
            evicts: true,
            pages: PageSettings {
                far_blocks: FAR_BLOCKS,
                ..PageSettings::default()
            },
        })
        .map_err(BenchStoreError::from)?;
        let tenant = store
            .add_tenant(TenantSettings {
                name: "bench".parse().map_err(BenchStoreError::from)?,
                weight: Weight::default(),
                floor: None,
                ceiling: Some(memory),
            })
            .map_err(BenchStoreError::from)?;
        store.set_eviction(tenant, eviction, NOW);
        let pool = store
            .create_pool(tenant, PoolFlags::default(), None)
            .map_err(BenchStoreError::from)?;
        let pages = (memory.0 / PAGE_BYTES) as usize;
        let mut bench = LeaseBench {
            worker: store.worker().map_err(BenchStoreError::from)?,
            store,
            tenant,
            pool,
            objects,
            buffer: page_content(PAGE_BYTES as usize),
            order: shuffled(pages, &mut SimRng::seeded(1)),
            turns: 0,
            sent: Vec::new(),
        };
        bench.fill();
        let lease = bench.store.add_to_lease(LEASE, 0, 0..FAR_BLOCKS);
        lease.expect("the store was made for these blocks");
        Ok(bench)
    }

    /// Makes the kernel provide all the memory, and fills it.
    fn fill(&mut self) {
        while self.store.populate() {}
        for number in &self.order {
            let key = self.key(*number);
            self.worker
                .put_page(self.tenant, key, NOW, |page| page.write(&self.buffer));
            self.store.populate();
        }
        while self.worker.upkeep(Second(NOW.0 + 1)) {}
    }

    fn key(&self, number: u32) -> PageKey {
        PageKey {
            pool: self.pool,
            object: ObjectId(u64::from(number % self.objects) | self.turns << 32),
            index: PageIndex(number / self.objects),
        }
    }

    /// Times a turn of new pages. Returns nanoseconds per put.
    fn turn(&mut self, case: LeaseCase, way: PutWay) -> f64 {
        self.turns += 1;
        self.empty_far_memory(case);
        if case == LeaseCase::Full {
            // More pages than the outbox has.
            let fill = 4 * usize::from(PageSettings::default().outbox_pages);
            self.put(&self.numbers(fill), PutWay::Alone);
            self.turns += 1;
        }
        let numbers = self.numbers(TURN);
        let sent_before = self.sent_so_far();
        let mut took = Duration::ZERO;
        for batch in numbers.chunks(BATCH) {
            let begun = Instant::now();
            self.put(batch, way);
            took += begun.elapsed();
            if case == LeaseCase::Settled {
                self.settle();
            }
        }
        self.settle();
        if case == LeaseCase::Settled {
            let sent = self.sent_so_far() - sent_before;
            self.sent.push(sent as f64 / numbers.len() as f64);
        }
        took.as_nanos() as f64 / numbers.len() as f64
    }

    fn sent_so_far(&self) -> u64 {
        self.store.lease_figures(LEASE).sent
    }

    /// The first keys of this turn.
    fn numbers(&self, count: usize) -> Vec<u32> {
        let from = self.turns as usize * TURN % self.order.len();
        let all = self.order.iter().cycle().skip(from);
        all.take(count).copied().collect()
    }

    fn put(&self, numbers: &[u32], way: PutWay) {
        let fill = |page: &mut UnwrittenPage<'_>| page.write(&self.buffer);
        match way {
            PutWay::Alone => {
                self.worker.pinned(|| {
                    for number in numbers {
                        self.worker
                            .put_page(self.tenant, self.key(*number), NOW, fill);
                    }
                });
            }
            PutWay::Together => {
                let mut keys = [self.key(0); BATCH];
                for (key, number) in keys.iter_mut().zip(numbers) {
                    *key = self.key(*number);
                }
                let keys = &keys[..numbers.len()];
                self.worker
                    .put_pages(self.tenant, keys, NOW, |_, page| fill(page), |_, _| {});
            }
        }
    }

    /// Carries what waits in the outbox.
    fn settle(&self) {
        let mut sent = Vec::new();
        self.worker
            .take_outbound(LEASE, usize::MAX, |page, _| sent.push(page));
        for page in sent {
            self.worker
                .settle(page, SendOutcome::Taken(SealTag::default()));
        }
    }

    /// Forgets what is at the lender. All borrowed blocks are ready then, with their records in memory.
    fn empty_far_memory(&self, case: LeaseCase) {
        self.store.set_borrowing(self.tenant, Borrowing::Forbidden);
        while self.worker.upkeep(NOW) {}
        if case != LeaseCase::Without {
            self.store.set_borrowing(self.tenant, Borrowing::Allowed);
        }
    }
}
