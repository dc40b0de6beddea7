//! `sublet-lab bench release`: how fast memory is given back, and how soon the hit rate recovers.

use std::time::Instant;

use memmap2::{Advice, MmapMut};
use sublet_sim::chance::{Chance, Zipf};
use sublet_types::{Bytes, PAGE_BYTES, ReleaseMode};

use super::error::BenchError;
use super::pair::micros;
use super::progress::Progress;
use super::recovery;
use super::report::{Goal, Measured, Report, Row};
use super::rig::Rig;
use super::shuffle::shuffled;

/// What is released.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Memory of the store, all of it full.
    #[arg(long, default_value = "12GiB")]
    memory: Bytes,
    /// How much of it is released.
    #[arg(long, default_value = "8GiB")]
    size: Bytes,
    /// Bytes of a value.
    #[arg(long, default_value_t = 51_200)]
    value: usize,
    /// Releases of each kind.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Memory of the store whose hit rate is watched after half of it was released.
    #[arg(long, default_value = "2GiB")]
    recovery_memory: Bytes,
}

/// A fast release of 8 GiB takes no longer, in milliseconds.
const FAST_MILLIS: f64 = 60.0;
/// Nor longer than so many times the kernel's own release of the same memory.
const FAST_RATIO: f64 = 1.5;
/// An ordered one: than so many times a plain copy of what it keeps and the kernel's release.
const ORDERED_RATIO: f64 = 3.0;

/// Times releases, then watches the hit rate recover.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    progress.expect(2 * args.rounds + recovery::MODES.len());
    let fast = timed(args, ReleaseMode::Fast, progress)?;
    let ordered = timed(args, ReleaseMode::Ordered, progress)?;
    let mut report = Report {
        rows: release_rows(args, &fast, &ordered),
        ..Report::default()
    };
    report.notes.push(format!(
        "Released {} of {}: fast lost {:.0} items, ordered lost {:.0} and kept {} by copying.",
        args.size,
        args.memory,
        Measured::of(&fast.lost).median,
        Measured::of(&ordered.lost).median,
        Bytes(Measured::of(&ordered.kept).median as u64),
    ));
    recovery::watch(args.recovery_memory, args.value, progress, &mut report)?;
    Ok(report)
}

fn release_rows(args: &Args, fast: &Timed, ordered: &Timed) -> Vec<Row> {
    let named = |what: &str| format!("{what} release of {}", args.size);
    let row = |name: String, millis: &[f64]| Row::new(name, "ms", Measured::of(millis));
    vec![
        row(named("fast"), &fast.ours).goal(Goal::OursAtMost(FAST_MILLIS)),
        row(named("fast") + " beside the bare kernel's", &fast.ours)
            .against(Measured::of(&fast.kernel))
            .goal(Goal::RatioAtMost(FAST_RATIO)),
        row(
            named("ordered") + " beside a copy and the bare kernel's",
            &ordered.ours,
        )
        .against(Measured::of(&ordered.copy_and_kernel()))
        .goal(Goal::RatioAtMost(ORDERED_RATIO)),
    ]
}

/// Milliseconds of each round, and what was lost and kept.
#[derive(Default)]
struct Timed {
    ours: Vec<f64>,
    kernel: Vec<f64>,
    copy: Vec<f64>,
    lost: Vec<f64>,
    kept: Vec<f64>,
}

impl Timed {
    fn copy_and_kernel(&self) -> Vec<f64> {
        let both = self.copy.iter().zip(&self.kernel);
        both.map(|(copy, kernel)| copy + kernel).collect()
    }
}

/// Fills the store, uses it, releases, and has the bare kernel do the same; again and again.
fn timed(args: &Args, mode: ReleaseMode, progress: &Progress) -> Result<Timed, BenchError> {
    let mut timed = Timed::default();
    let mut rig = Rig::new(args.memory, args.value)?;
    let keys = rig.keys_in(args.memory);
    let mut chance = Chance::seeded(1);
    let places = shuffled(keys as usize, &mut chance);
    let zipf = Zipf::of(u64::from(keys), recovery::ALPHA);
    for _ in 0..args.rounds.max(1) {
        progress.say(format!("filling {}", args.memory));
        for &key in &places {
            rig.set(key)?;
        }
        for _ in 0..2 * keys {
            rig.get(places[zipf.draw(&mut chance) as usize]);
        }
        progress.say(format!("releasing {}, {mode:?}", args.size));
        rig.calm();
        let begun = Instant::now();
        let released = rig.release(args.size, mode);
        timed.ours.push(micros(begun.elapsed()) / 1000.0);
        timed.kernel.push(kernel_millis(released.bytes)?);
        timed
            .copy
            .push(copy_millis(released.bytes_kept, args.value)?);
        timed.lost.push(released.items_lost as f64);
        timed.kept.push(released.bytes_kept.0 as f64);
        rig.resume();
        progress.step();
    }
    Ok(timed)
}

/// How long the kernel takes to take `amount` of touched huge pages back.
fn kernel_millis(amount: Bytes) -> Result<f64, BenchError> {
    let region = touched(amount)?;
    let begun = Instant::now();
    drop(region);
    Ok(micros(begun.elapsed()) / 1000.0)
}

/// How long it takes to copy `amount` in values of `value_bytes`, from huge pages to huge pages.
fn copy_millis(amount: Bytes, value_bytes: usize) -> Result<f64, BenchError> {
    let from = touched(amount)?;
    let mut to = touched(amount)?;
    let begun = Instant::now();
    let pairs = from.chunks(value_bytes).zip(to.chunks_mut(value_bytes));
    pairs.for_each(|(from, to)| to.copy_from_slice(from));
    std::hint::black_box(&to);
    Ok(micros(begun.elapsed()) / 1000.0)
}

/// Memory of huge pages, each of which was written to.
pub(super) fn touched(amount: Bytes) -> Result<MmapMut, BenchError> {
    let bytes = amount.0.max(PAGE_BYTES) as usize;
    let mut region = MmapMut::map_anon(bytes).map_err(BenchError::Memory)?;
    region
        .advise(Advice::HugePage)
        .map_err(BenchError::Memory)?;
    let pages = region.chunks_mut(PAGE_BYTES as usize);
    pages.for_each(|page| page[0] = 1);
    Ok(region)
}
