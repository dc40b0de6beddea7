//! `sublet-lab bench release`: how fast memory is given back, and how soon the hit rate recovers.

use std::io;
use std::time::Instant;

use memmap2::{Advice, MmapMut};
use sublet_sim::rng::{SimRng, Zipf};
use sublet_types::{Bytes, PAGE_BYTES, ReleaseMode};

use super::bench_store::BenchStore;
use super::error::BenchError;
use super::pair::micros;
use super::progress::BenchProgress;
use super::recovery;
use super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::shuffle::shuffled;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Give the store this much memory, all of it full.
    #[arg(long, default_value = "12GiB")]
    memory: Bytes,
    /// Release this much of it.
    #[arg(long, default_value = "8GiB")]
    size: Bytes,
    /// Use values of this many bytes.
    #[arg(long, default_value_t = 51_200)]
    value: usize,
    /// Make this many releases of each kind.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Give the store whose hit rate is watched this much memory; half of it is released.
    #[arg(long, default_value = "2GiB")]
    recovery_memory: Bytes,
}

/// The most milliseconds of a fast release of 8 GiB.
const FAST_MILLIS: f64 = 60.0;
/// The most of a fast release, relative to the kernel's own release of the same memory.
const FAST_RATIO: f64 = 1.5;
/// The most of an ordered release, relative to a plain copy of what it keeps plus the kernel's release.
const ORDERED_RATIO: f64 = 3.0;

/// Times releases, then watches the hit rate recover.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BenchError> {
    progress.expect(2 * args.rounds + recovery::MODES.len());
    let fast = time_releases(args, ReleaseMode::Fast, progress)?;
    let ordered = time_releases(args, ReleaseMode::Ordered, progress)?;
    let mut report = BenchReport {
        rows: release_rows(args, &fast, &ordered),
        ..BenchReport::default()
    };
    report.notes.push(format!(
        "Released {} of {}: fast lost {:.0} items, ordered lost {:.0} and kept {} by copying.",
        args.size,
        args.memory,
        RoundsSummary::of(&fast.lost).median,
        RoundsSummary::of(&ordered.lost).median,
        Bytes(RoundsSummary::of(&ordered.kept).median as u64),
    ));
    recovery::watch(args.recovery_memory, args.value, progress, &mut report)?;
    Ok(report)
}

fn release_rows(args: &Args, fast: &ReleaseTimings, ordered: &ReleaseTimings) -> Vec<BenchRow> {
    let named = |what: &str| format!("{what} release of {}", args.size);
    let row = |name: String, millis: &[f64]| BenchRow::new(name, "ms", RoundsSummary::of(millis));
    vec![
        row(named("fast"), &fast.ours).goal(Goal::OursAtMost(FAST_MILLIS)),
        row(named("fast") + " beside the bare kernel's", &fast.ours)
            .against(RoundsSummary::of(&fast.kernel))
            .goal(Goal::RatioAtMost(FAST_RATIO)),
        row(
            named("ordered") + " beside a copy and the bare kernel's",
            &ordered.ours,
        )
        .against(RoundsSummary::of(&ordered.copy_and_kernel()))
        .goal(Goal::RatioAtMost(ORDERED_RATIO)),
    ]
}

/// Milliseconds of each round, and how much was lost and kept.
#[derive(Default)]
struct ReleaseTimings {
    ours: Vec<f64>,
    kernel: Vec<f64>,
    copy: Vec<f64>,
    lost: Vec<f64>,
    kept: Vec<f64>,
}

impl ReleaseTimings {
    fn copy_and_kernel(&self) -> Vec<f64> {
        let both = self.copy.iter().zip(&self.kernel);
        both.map(|(copy, kernel)| copy + kernel).collect()
    }
}

/// Fills the store, uses it, and releases. Then the bare kernel does the same. This repeats every round.
fn time_releases(
    args: &Args,
    mode: ReleaseMode,
    progress: &BenchProgress,
) -> Result<ReleaseTimings, BenchError> {
    let mut timed = ReleaseTimings::default();
    let mut bench_store = BenchStore::new(args.memory, args.value)?;
    let keys = bench_store.keys_in(args.memory);
    let mut rng = SimRng::seeded(1);
    let places = shuffled(keys as usize, &mut rng);
    let zipf = Zipf::of(u64::from(keys), recovery::ALPHA);
    for _ in 0..args.rounds.max(1) {
        progress.show_message(format!("filling {}", args.memory));
        for &key in &places {
            bench_store.set(key)?;
        }
        for _ in 0..2 * keys {
            bench_store.get(places[zipf.draw(&mut rng) as usize]);
        }
        progress.show_message(format!("releasing {}, {mode:?}", args.size));
        bench_store.pause_populating();
        let begun = Instant::now();
        let released = bench_store.release(args.size, mode);
        timed.ours.push(micros(begun.elapsed()) / 1000.0);
        timed
            .kernel
            .push(kernel_millis(released.bytes).map_err(BenchError::Memory)?);
        timed
            .copy
            .push(copy_millis(released.bytes_kept, args.value).map_err(BenchError::Memory)?);
        timed.lost.push(released.items_lost as f64);
        timed.kept.push(released.bytes_kept.0 as f64);
        bench_store.resume_populating();
        progress.step();
    }
    Ok(timed)
}

/// How long the kernel takes to take back `amount` of touched huge pages.
pub(super) fn kernel_millis(amount: Bytes) -> io::Result<f64> {
    let region = touched_memory(amount)?;
    let begun = Instant::now();
    drop(region);
    Ok(micros(begun.elapsed()) / 1000.0)
}

/// How long it takes to copy `amount` in values of `value_bytes`, from huge pages to huge pages.
fn copy_millis(amount: Bytes, value_bytes: usize) -> io::Result<f64> {
    let from = touched_memory(amount)?;
    let mut to = touched_memory(amount)?;
    let begun = Instant::now();
    let pairs = from.chunks(value_bytes).zip(to.chunks_mut(value_bytes));
    pairs.for_each(|(from, to)| to.copy_from_slice(from));
    std::hint::black_box(&to);
    Ok(micros(begun.elapsed()) / 1000.0)
}

/// Memory of huge pages, each of which was written to.
pub(super) fn touched_memory(amount: Bytes) -> io::Result<MmapMut> {
    let bytes = amount.0.max(PAGE_BYTES) as usize;
    let mut region = MmapMut::map_anon(bytes)?;
    region.advise(Advice::HugePage)?;
    let pages = region.chunks_mut(PAGE_BYTES as usize);
    pages.for_each(|page| page[0] = 1);
    Ok(region)
}
