//! `sublet-lab bench store`: what a put and a get of a page cost, beside the bare copy of it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use memmap2::MmapMut;
use sublet_sim::rng::SimRng;
use sublet_store::{
    GetOutcome, PageKey, PageSettings, PutOutcome, Store, StoreSettings, UnwrittenPage, Worker,
};
use sublet_types::{
    Bytes, EvictionKind, GetMode, ObjectId, PAGE_BYTES, PageIndex, PoolFlags, PoolId, Second,
    TenantId, TenantSettings, Weight,
};

use super::amount::worth_timing;
use super::bench_store::BenchStoreError;
use super::error::BenchError;
use super::page_content::page_content;
use super::progress::BenchProgress;
use super::release::touched_memory;
use super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::shuffle::{shuffle, shuffled};
use super::store_lease;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Give the store this much memory, 64MiB or more; a page is put for every frame of it. Bare copies take as much
    /// beside it.
    #[arg(long, default_value = "8GiB", value_parser = worth_timing)]
    memory: Bytes,
    /// Spread the pages over this many objects.
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..))]
    objects: u32,
    /// Measure this many rounds; each puts, gets and displaces every page once.
    #[arg(long, default_value = "3")]
    rounds: NonZeroUsize,
    /// Let pages leave in this order; without it, as auto resolves for pools whose pages leave when they are read.
    #[arg(long, default_value_t = EvictionKind::default().effective(GetMode::Exclusive), value_name = "NAME")]
    eviction: EvictionKind,
}

const PAGE: usize = PAGE_BYTES as usize;

/// Pages that are put or got together.
const TOGETHER: usize = 32;

/// The most operations before the other side has its turn.
const TURN_MAX: usize = 200_000;

/// Memory beyond the blocks of the pages: for the index of items and what is kept free for eviction.
const SPARE: Bytes = Bytes::mib(16);

/// Rounds that time one and two threads.
const SCALING_ROUNDS: usize = 15;

const NOW: Second = Second(2);

/// PUMA's metadata: 8 bytes per page.
const PUMA_BYTES: f64 = 8.0;

/// Times puts and gets. Sublet and bare copies take turns.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BenchError> {
    let rounds = args.rounds.get();
    progress.expect(rounds + 2);
    let mut bench = StoreBench::new(args)?;
    let mut turns = StoreTimings::default();
    let mut report = BenchReport::default();
    progress.show_message("holding the memory".to_owned());
    bench.warm_up();
    for _ in 0..rounds {
        bench.round(&mut turns)?;
        progress.step();
    }
    report.rows = turns.rows();
    report.rows.extend(bench.overhead());
    report.rows.extend(bench.two_threads()?);
    progress.step();
    let pages = bench.order.len();
    drop(bench);
    let lease_rows = store_lease::rows(args.memory, args.objects, args.eviction, rounds)?;
    report.rows.extend(lease_rows);
    progress.step();
    report.notes.push(format!(
        "{} pages over {} objects in random order, eviction {}. The peer copies between random frames of as much \
         memory in huge pages and one hot buffer.",
        pages,
        args.objects,
        args.eviction
    ));
    Ok(report)
}

/// Nanoseconds per operation, turn by turn.
#[derive(Default)]
struct StoreTimings {
    put: OperationTimings,
    get: OperationTimings,
    get_keeping: OperationTimings,
    displace: OperationTimings,
}

#[derive(Default)]
struct OperationTimings {
    /// One operation after the other.
    alone: Vec<f64>,
    /// [`TOGETHER`] operations in one call.
    together: Vec<f64>,
    copy: Vec<f64>,
}

impl StoreTimings {
    fn rows(&self) -> Vec<BenchRow> {
        let row = |name: &str, ours: &[f64], side: &OperationTimings, most: f64| {
            BenchRow::new(name, "ns", RoundsSummary::of(ours))
                .against(RoundsSummary::of(&side.copy))
                .goal(Goal::RatioAtMost(most))
        };
        let rows = |name: &str, side: &OperationTimings, most: f64| {
            let together = format!("{name}, {TOGETHER} at a time");
            [
                row(name, &side.alone, side, most),
                row(&together, &side.together, side, most),
            ]
        };
        [
            rows("get, hit, keeping", &self.get_keeping, 1.35),
            rows("get, hit, exclusive", &self.get, 1.35),
            rows("put, a frame is free", &self.put, 1.5),
            rows("put, another page goes", &self.displace, 1.8),
        ]
        .concat()
    }
}

impl OperationTimings {
    /// Times one turn of Sublet. Every other batch is one call. Either way the worker pins blocks for as many
    /// operations at a time, as rings do.
    fn time(&mut self, worker: &Worker, keys: &[u32], mut work: impl FnMut(Batching, &[u32])) {
        let way = match self.alone.len() > self.together.len() {
            true => Batching::Together,
            false => Batching::Alone,
        };
        let begun = Instant::now();
        for batch in keys.chunks(TOGETHER) {
            worker.pinned(|| work(way, batch));
        }
        let each = nanoseconds_each(begun, keys);
        match way {
            Batching::Alone => self.alone.push(each),
            Batching::Together => self.together.push(each),
        }
    }
}

/// Operations per turn, so many that each round has at least one turn of either way.
fn operations_per_turn(keys: &[u32]) -> usize {
    TURN_MAX.min(keys.len().div_ceil(2))
}

/// How a batch of operations is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batching {
    /// One call after the other.
    Alone,
    /// In one call.
    Together,
}

struct StoreBench {
    store: Arc<Store>,
    client: PoolClient,
    /// A client of a pool that keeps what is got.
    keeper: PoolClient,
    /// As much memory as the store has, for bare copies.
    bare: MmapMut,
    buffer: Vec<u8>,
    /// Keys in the order of the puts.
    order: Vec<u32>,
    /// Frames in the order of the copies.
    frames: Vec<u32>,
    /// Keys in the order of the gets.
    got: Vec<u32>,
    rng: SimRng,
}

/// A worker on one pool.
struct PoolClient {
    worker: Worker,
    tenant: TenantId,
    pool: PoolId,
    objects: u32,
}

impl PoolClient {
    fn key(&self, number: u32, generation: u64) -> PageKey {
        PageKey {
            pool: self.pool,
            object: ObjectId(u64::from(number % self.objects) | generation << 32),
            index: PageIndex(number / self.objects),
        }
    }

    fn put(&self, number: u32, generation: u64, buffer: &[u8]) -> PutOutcome {
        let key = self.key(number, generation);
        self.worker
            .put_page(self.tenant, key, NOW, |page| page.write(buffer))
    }

    /// Fills `room` with up to [`TOGETHER`] keys.
    fn keys<'a>(
        &self,
        numbers: &[u32],
        generation: u64,
        room: &'a mut [PageKey; TOGETHER],
    ) -> &'a [PageKey] {
        let room = &mut room[..numbers.len()];
        for (key, number) in room.iter_mut().zip(numbers) {
            *key = self.key(*number, generation);
        }
        room
    }

    fn put_batch(&self, way: Batching, numbers: &[u32], generation: u64, buffer: &[u8]) {
        if way == Batching::Alone {
            return numbers.iter().for_each(|number| {
                self.put(*number, generation, buffer);
            });
        }
        let mut room = [self.key(0, 0); TOGETHER];
        let keys = self.keys(numbers, generation, &mut room);
        let fill = |_, page: &mut UnwrittenPage<'_>| page.write(buffer);
        self.worker
            .put_pages(self.tenant, keys, NOW, fill, |_, _| {});
    }

    /// Gets a batch. Returns how many pages were there.
    fn get_batch(
        &self,
        way: Batching,
        numbers: &[u32],
        generation: u64,
        buffer: &mut [u8],
    ) -> usize {
        if way == Batching::Alone {
            let is_hit = |number: &&u32| self.get(**number, generation, buffer) == GetOutcome::Hit;
            return numbers.iter().filter(is_hit).count();
        }
        let mut room = [self.key(0, 0); TOGETHER];
        let keys = self.keys(numbers, generation, &mut room);
        let visit = |_, page: &[u8]| buffer.copy_from_slice(page);
        let mut hits = 0;
        self.worker
            .get_pages(self.tenant, keys, NOW, visit, |_, got| {
                hits += usize::from(got == GetOutcome::Hit);
            });
        hits
    }

    fn flush(&self, generation: u64) {
        for object in 0..u64::from(self.objects) {
            let object = ObjectId(object | generation << 32);
            self.worker
                .flush_object(self.tenant, self.pool, object, NOW);
        }
    }

    fn get(&self, number: u32, generation: u64, buffer: &mut [u8]) -> GetOutcome {
        let key = self.key(number, generation);
        self.worker
            .get_page(self.tenant, key, NOW, |page| buffer.copy_from_slice(page))
    }
}

impl StoreBench {
    fn new(args: &Args) -> Result<StoreBench, BenchError> {
        // This comes first: the kernel refuses if the machine does not have the memory.
        let bare = touched_memory(args.memory).map_err(BenchError::Memory)?;
        let limit = args.memory + SPARE;
        let store = Store::new(StoreSettings {
            capacity: limit,
            limit,
            item_max: Bytes::mib(1),
            seed: 0x5eed,
            evicts: true,
            pages: PageSettings::default(),
        })
        .map_err(BenchStoreError::from)?;
        let tenant = store
            .add_tenant(TenantSettings {
                name: "bench".parse().map_err(BenchStoreError::from)?,
                weight: Weight::default(),
                floor: None,
                ceiling: Some(args.memory),
            })
            .map_err(BenchStoreError::from)?;
        store.set_eviction(tenant, args.eviction, NOW);
        let client = |keeping| -> Result<PoolClient, BenchError> {
            let flags = PoolFlags {
                keeping,
                ..PoolFlags::default()
            };
            Ok(PoolClient {
                worker: store.worker().map_err(BenchStoreError::from)?,
                tenant,
                pool: store
                    .create_pool(tenant, flags, None)
                    .map_err(BenchStoreError::from)?,
                objects: args.objects,
            })
        };
        let mut rng = SimRng::seeded(1);
        let pages = (args.memory.0 / PAGE_BYTES) as usize;
        // A little less than there are frames, because the last frames are spread over the shards.
        let order = shuffled(pages - pages / 64, &mut rng);
        Ok(StoreBench {
            client: client(false)?,
            keeper: client(true)?,
            store,
            bare,
            buffer: page_content(PAGE),
            got: order.clone(),
            frames: shuffled(pages, &mut rng),
            order,
            rng,
        })
    }

    /// Makes the kernel provide all the memory, and sizes the page directory, before anything is timed.
    fn warm_up(&mut self) {
        while self.store.populate() {}
        for key in &self.order {
            self.client.put(*key, 0, &self.buffer);
            self.store.populate();
        }
        while self.client.worker.upkeep(Second(NOW.0 + 1)) {}
        self.client.flush(0);
    }

    /// Puts everything and gets it. Then displaces all of it by other pages, and gets what stays.
    fn round(&mut self, turns: &mut StoreTimings) -> Result<(), BenchError> {
        shuffle(&mut self.order, &mut self.rng);
        shuffle(&mut self.got, &mut self.rng);
        shuffle(&mut self.frames, &mut self.rng);
        let (order, got, frames) = (&self.order, &self.got, &self.frames);
        let (client, buffer) = (&self.client, &mut self.buffer);
        for (keys, frames) in order
            .chunks(operations_per_turn(order))
            .zip(frames.chunks(operations_per_turn(order)))
        {
            turns.put.time(&client.worker, keys, |way, batch| {
                client.put_batch(way, batch, 0, buffer);
            });
            turns
                .put
                .copy
                .push(nanoseconds_per_operation(frames, |frame| {
                    copy_in(&mut self.bare, frame, buffer)
                }));
        }
        client.gets(got, frames, &self.bare, buffer, &mut turns.get)?;
        for key in order {
            client.put(*key, 1, buffer);
        }
        for (keys, frames) in got
            .chunks(operations_per_turn(got))
            .zip(frames.chunks(operations_per_turn(got)))
        {
            turns.displace.time(&client.worker, keys, |way, batch| {
                client.put_batch(way, batch, 2, buffer);
            });
            turns
                .displace
                .copy
                .push(nanoseconds_per_operation(frames, |frame| {
                    copy_in(&mut self.bare, frame, buffer)
                }));
        }
        client.flush(1);
        client.flush(2);
        // Its objects lie in other shards than those of the first pool. Half of them surely have frames there.
        let mut kept = order[..order.len() / 2].to_vec();
        for key in &kept {
            self.keeper.put(*key, 0, buffer);
        }
        shuffle(&mut kept, &mut self.rng);
        let side = &mut turns.get_keeping;
        self.keeper.gets(&kept, frames, &self.bare, buffer, side)?;
        self.keeper.flush(0);
        Ok(())
    }

    /// The bytes per page that the store's own records take when it is full.
    fn overhead(&mut self) -> Vec<BenchRow> {
        for key in &self.order {
            self.client.put(*key, 0, &self.buffer);
        }
        let pages = self.store.page_figures(self.client.tenant).used.0 as f64;
        let overhead = self.store.page_overhead();
        let row = |name: &str, bytes: u64| {
            BenchRow::new(name, "B/page", RoundsSummary::once(bytes as f64 / pages))
        };
        let all = overhead.directory + overhead.frames + overhead.ghosts;
        vec![
            row("directory, beside PUMA's metadata", overhead.directory)
                .against(RoundsSummary::once(PUMA_BYTES)),
            row("directory and frames", overhead.directory + overhead.frames)
                .goal(Goal::OursAtMost(0.02 * PAGE_BYTES as f64)),
            row("directory, frames and ghosts", all),
        ]
    }

    /// How much faster two threads are than one, beside two threads of bare copies.
    fn two_threads(&mut self) -> Result<Vec<BenchRow>, BenchError> {
        let quarter = self.order.len() / 4;
        let halves = [
            &self.order[..quarter],
            &self.order[2 * quarter..3 * quarter],
        ];
        let (mut alone, mut together, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..SCALING_ROUNDS {
            for (way, speeds) in [
                (Batching::Alone, &mut alone),
                (Batching::Together, &mut together),
            ] {
                let one = self.client.gets_and_puts(&self.store, way, &halves[..1])?;
                let two = self.client.gets_and_puts(&self.store, way, &halves)?;
                speeds.push(2.0 * one / two);
            }
            let copied = copies(&mut self.bare, &self.frames[..quarter], 1);
            let copied_by_two = copies(&mut self.bare, &self.frames[..quarter], 2);
            bare.push(2.0 * copied / copied_by_two);
        }
        let row = |name: &str, ours: &[f64]| {
            BenchRow::new(name, "x", RoundsSummary::of(ours))
                .against(RoundsSummary::of(&bare))
                .goal(Goal::RatioAtLeast(0.95))
        };
        let name = "two threads' speed, in one's";
        let batched = format!("{name}, {TOGETHER} at a time");
        Ok(vec![row(name, &alone), row(&batched, &together)])
    }
}

impl PoolClient {
    /// Gets what is there, and times it.
    fn gets(
        &self,
        numbers: &[u32],
        frames: &[u32],
        bare: &[u8],
        buffer: &mut [u8],
        side: &mut OperationTimings,
    ) -> Result<(), BenchError> {
        let mut hits = 0;
        for (numbers, frames) in numbers
            .chunks(operations_per_turn(numbers))
            .zip(frames.chunks(operations_per_turn(numbers)))
        {
            side.time(&self.worker, numbers, |way, batch| {
                hits += self.get_batch(way, batch, 0, buffer);
            });
            side.copy.push(nanoseconds_per_operation(frames, |frame| {
                copy_out(bare, frame, buffer)
            }));
        }
        match numbers.len() - hits {
            0 => Ok(()),
            missed => Err(BenchError::Missed(missed)),
        }
    }

    /// Seconds in which one thread per list gets its keys and puts them again.
    fn gets_and_puts(
        &self,
        store: &Arc<Store>,
        way: Batching,
        lists: &[&[u32]],
    ) -> Result<f64, BenchError> {
        let mut jobs = Vec::new();
        for keys in lists {
            let client = PoolClient {
                worker: store.worker().map_err(BenchStoreError::from)?,
                ..*self
            };
            jobs.push(move || {
                let mut buffer = page_content(PAGE);
                for batch in keys.chunks(TOGETHER) {
                    client.get_batch(way, batch, 0, &mut buffer);
                    client.put_batch(way, batch, 0, &buffer);
                }
            });
        }
        Ok(seconds_together(jobs))
    }
}

/// Seconds in which each of `threads` threads copies the frames of its part of `memory` out and in.
fn copies(memory: &mut [u8], frames: &[u32], threads: usize) -> f64 {
    let part = memory.len() / threads / PAGE * PAGE;
    let jobs = memory.chunks_mut(part).take(threads).map(|part| {
        move || {
            let mut buffer = page_content(PAGE);
            let pages = (part.len() / PAGE) as u32;
            for frame in frames {
                copy_out(part, frame % pages, &mut buffer);
                copy_in(part, frame % pages, &buffer);
            }
        }
    });
    seconds_together(jobs.collect())
}

/// Seconds until all jobs are done that began together.
fn seconds_together(jobs: Vec<impl FnOnce() + Send>) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for job in jobs {
            scope.spawn(job);
        }
    });
    begun.elapsed().as_secs_f64()
}

/// Nanoseconds that `work` takes per number.
fn nanoseconds_per_operation(numbers: &[u32], mut work: impl FnMut(u32)) -> f64 {
    let begun = Instant::now();
    numbers.iter().for_each(|number| work(*number));
    nanoseconds_each(begun, numbers)
}

fn nanoseconds_each(begun: Instant, numbers: &[u32]) -> f64 {
    begun.elapsed().as_nanos() as f64 / numbers.len() as f64
}

fn copy_in(memory: &mut [u8], frame: u32, buffer: &[u8]) {
    let at = frame as usize * PAGE;
    memory[at..at + PAGE].copy_from_slice(buffer);
}

fn copy_out(memory: &[u8], frame: u32, buffer: &mut [u8]) {
    let at = frame as usize * PAGE;
    buffer.copy_from_slice(&memory[at..at + PAGE]);
}
