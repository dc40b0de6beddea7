//! Table 1: TPC-C borrows from a neighbour that clones repositories now and then, and needs its memory for that.

use serde::Serialize;

use super::benchmarks::PumaBenchmark;
use super::borrowing_guest::BorrowingGuest;
use super::borrowing_store::{BLOCK_PAGES, FarCounts};
use super::run::{RunningBenchmark, cache_pages};
use super::setting::{PumaScale, SettingName};
use super::variants::{BenchmarkRun, CachingStrategy, FarAmount, GuardChoice, SequentialFilter};
use crate::machine::tier_store::StoreTierError;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// How many repositories the lender clones at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BurstCount {
    /// One.
    One,
    /// Three.
    Three,
}

/// What the lender of 4 GB can lend while it is idle, in MiB.
const IDLE_MIB: u64 = 3584;

/// The memory of a clone in MiB. Three of them need all that the lender lends. The paper does not say how much.
const CLONE_MIB: u64 = 1152;

/// A clone takes its memory over this time.
const CLONE_GROWS_SECS: u64 = 60;

/// The borrower runs for as long before the clones begin (figure 10).
const IDLE_SECS: u64 = 90;

/// The borrower runs for as long in total.
const TOTAL_SECS: u64 = 600;

/// Processors of the lender's virtual machine. The clones keep all of them busy.
const PROCESSORS: f64 = 2.0;

/// What the lender may spend on others, in processors (`lend.cpu`).
const LEND_PROCESSORS: f64 = 0.25;

/// The lender's time for a page that it sends or takes, in seconds.
const PAGE_SECS: f64 = 10e-6;

/// The kernel's time to give a block of 2 MiB back, in seconds: 8 GiB take 35 ms.
const BLOCK_SECS: f64 = 8.5e-6;

/// What a lender's bursts came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BurstOutcome {
    /// How long the clones take, in seconds.
    pub clone_secs: f64,
    /// How long they take without lending.
    pub baseline_secs: f64,
    /// The 90th percentile of TPC-C's response in seconds, from beginning to end.
    pub response: f64,
    /// That without far memory.
    pub baseline_response: f64,
    /// The same while the lender is idle.
    pub idle_response: f64,
    /// The same while the clones run.
    pub clone_response: f64,
    /// Blocks that were taken back.
    pub blocks_taken: u64,
    /// Pages that came back with other content than they had. Always zero.
    pub pages_wrong: u64,
}

impl BurstCount {
    /// The words of tables.
    pub fn words(self) -> &'static str {
        match self {
            BurstCount::One => "1 clone",
            BurstCount::Three => "3 clones",
        }
    }

    fn clones(self) -> u64 {
        match self {
            BurstCount::One => 1,
            BurstCount::Three => 3,
        }
    }

    /// The paper's time of these clones in an isolated machine, in seconds (table 1).
    pub(super) fn baseline_secs(self) -> f64 {
        match self {
            BurstCount::One => 215.0,
            BurstCount::Three => 204.0,
        }
    }

    /// Plays the borrower beside its lender.
    ///
    /// # Errors
    ///
    /// There is no memory for a store.
    pub(super) fn play(self, scale: PumaScale, seed: u64) -> Result<BurstOutcome, StoreTierError> {
        let lending = BenchmarkRun {
            benchmark: PumaBenchmark::LargeTpcC,
            setting: SettingName::Paper,
            far: FarAmount(IDLE_MIB),
            strategy: CachingStrategy::Exclusive,
            filter: SequentialFilter::Off,
            guard: GuardChoice::Relative,
            injected: VirtualDuration::default(),
        };
        let mut alone = running(&lending.baseline(), scale, seed)?;
        let began = alone.play_until_counted();
        play_until(&mut alone, began + VirtualDuration::secs(TOTAL_SECS));
        let baseline_response = alone.response(0.9);
        let mut played = PlayedBursts {
            running: running(&lending, scale, seed)?,
            clones: self.clones(),
            scale,
            work: self.baseline_secs(),
        };
        Ok(BurstOutcome {
            baseline_secs: self.baseline_secs(),
            baseline_response,
            ..played.play()
        })
    }
}

fn running(
    run: &BenchmarkRun,
    scale: PumaScale,
    seed: u64,
) -> Result<RunningBenchmark, StoreTierError> {
    let shape = run.benchmark.shape(scale);
    let far_blocks = scale.pages(run.far.0) / BLOCK_PAGES;
    let guest = BorrowingGuest::of(run, cache_pages(scale, shape.guest_mib), far_blocks, seed)?;
    Ok(RunningBenchmark::of(guest, shape, seed))
}

fn play_until(running: &mut RunningBenchmark, until: VirtualInstant) {
    while running.step() < until {}
}

/// A borrower whose lender has bursts.
struct PlayedBursts {
    running: RunningBenchmark,
    clones: u64,
    scale: PumaScale,
    /// Seconds of the clones if nobody else uses the lender's processors.
    work: f64,
}

impl PlayedBursts {
    fn play(&mut self) -> BurstOutcome {
        let began = self.running.play_until_counted();
        let after = |secs: u64| began + VirtualDuration::secs(secs);
        play_until(&mut self.running, after(IDLE_SECS));
        let idle_response = self.running.response(0.9);
        let first_of_clones = self.running.responses();
        let (clone_secs, blocks_taken) = self.clone_from(after(IDLE_SECS));
        let clone_response = self.running.response_since(first_of_clones, 0.9);
        self.end_clones(after(IDLE_SECS) + VirtualDuration::secs(clone_secs as u64));
        play_until(&mut self.running, after(TOTAL_SECS));
        BurstOutcome {
            clone_secs,
            idle_response,
            clone_response,
            response: self.running.response(0.9),
            blocks_taken,
            pages_wrong: self.running.guest.far_counts().pages_wrong,
            ..BurstOutcome::default()
        }
    }

    /// Clones until the work is done. Returns the seconds that it took, and the blocks that were taken back for it.
    fn clone_from(&mut self, began: VirtualInstant) -> (f64, u64) {
        let (mut left, mut secs, mut blocks_taken) = (self.work, 0, 0);
        let mut before = self.running.guest.far_counts();
        while left > 0.0 && secs < TOTAL_SECS {
            let taken = self.take_memory(secs, began + VirtualDuration::secs(secs));
            blocks_taken += taken;
            secs += 1;
            play_until(&mut self.running, began + VirtualDuration::secs(secs));
            let counts = self.running.guest.far_counts();
            let served = pages_of(counts) - pages_of(before);
            before = counts;
            let lent = (served as f64 * PAGE_SECS).min(LEND_PROCESSORS);
            // A scaled block stands for as many of the paper's.
            let real_blocks = taken * self.scale.factor();
            left -= 1.0 - lent / PROCESSORS - real_blocks as f64 * BLOCK_SECS;
        }
        (secs as f64 + left, blocks_taken)
    }

    /// The clones' memory grows. Returns how many lent blocks went for it.
    fn take_memory(&mut self, secs: u64, now: VirtualInstant) -> u64 {
        let needed = self.clones * CLONE_MIB * (secs + 1).min(CLONE_GROWS_SECS) / CLONE_GROWS_SECS;
        let blocks = self.scale.pages(needed) / BLOCK_PAGES;
        let Some(store) = self.running.guest.store() else {
            return 0;
        };
        let taken = store.lender.take_for_itself(blocks, now);
        store.recall(&taken);
        taken.len() as u64
    }

    fn end_clones(&mut self, now: VirtualInstant) {
        if let Some(store) = self.running.guest.store() {
            store.lender.take_for_itself(0, now);
        }
    }
}

fn pages_of(counts: FarCounts) -> u64 {
    counts.fetched + counts.sent
}
