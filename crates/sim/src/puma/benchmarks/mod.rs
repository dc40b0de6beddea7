//! The paper's benchmarks, as steps of a guest's threads. What the paper does not say of them is our choice, and
//! stands beside it.

mod blast;
mod database;
mod postmark;
mod reads;

use std::collections::VecDeque;
use std::ops::Range;

use serde::Serialize;

use super::setting::PumaScale;
use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// A benchmark of the paper's section 4.1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PumaBenchmark {
    /// Filebench: one thread reads pages of a file of 4 GB at random.
    RandomReads,
    /// Filebench: one thread reads a file of 4 GB from its beginning to its end, again and again.
    SequentialReads,
    /// BLAST over a database of 3 GB.
    Blast,
    /// Postmark over small files of 3.5 GB.
    Postmark,
    /// TPC-H over 3 GB.
    TpcH,
    /// TPC-C over 4 GB.
    TpcC,
    /// TPC-C over 15 GB, in a guest of 10 GB (section 5).
    LargeTpcC,
}

/// A step of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BenchmarkStep {
    /// It reads neighbouring pages.
    Read(Range<u64>),
    /// It writes whole pages.
    Write(Range<u64>),
    /// It deletes a file.
    Delete(Range<u64>),
    /// It computes.
    Compute(VirtualDuration),
    /// It writes its log, and waits for the disk.
    Commit,
    /// A transaction ends. The next one begins after this time.
    End(VirtualDuration),
}

/// What a transaction of a benchmark does. Threads of one benchmark share it.
pub(super) trait TransactionSource {
    /// Adds the steps of the next transaction.
    fn next(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>);
}

/// A benchmark, ready to run.
pub(super) struct BenchmarkShape {
    pub(super) source: Box<dyn TransactionSource>,
    pub(super) threads: u32,
    /// Transactions before those that count.
    pub(super) warm_up: u64,
    /// Transactions that count.
    pub(super) counted: u64,
    /// Whether the figure is a rate, or a response.
    pub(super) figure: BenchmarkFigure,
    /// MiB of the guest's memory.
    pub(super) guest_mib: u64,
}

/// What a benchmark reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchmarkFigure {
    /// Transactions per second: more is better.
    Rate,
    /// The 90th percentile of the transactions' response: less is better.
    Response,
}

/// MiB of the guest of section 4.
const GUEST_MIB: u64 = 1024;

impl PumaBenchmark {
    /// The benchmarks of figures 5a to 5f, in their order.
    pub(super) const OF_FIGURE_5: [PumaBenchmark; 6] = [
        PumaBenchmark::RandomReads,
        PumaBenchmark::SequentialReads,
        PumaBenchmark::Blast,
        PumaBenchmark::Postmark,
        PumaBenchmark::TpcH,
        PumaBenchmark::TpcC,
    ];

    /// The words of tables and plots.
    pub fn words(self) -> &'static str {
        match self {
            PumaBenchmark::RandomReads => "random reads",
            PumaBenchmark::SequentialReads => "sequential reads",
            PumaBenchmark::Blast => "BLAST",
            PumaBenchmark::Postmark => "Postmark",
            PumaBenchmark::TpcH => "TPC-H",
            PumaBenchmark::TpcC => "TPC-C",
            PumaBenchmark::LargeTpcC => "TPC-C of 15 GB",
        }
    }

    pub(super) fn shape(self, scale: PumaScale) -> BenchmarkShape {
        match self {
            PumaBenchmark::RandomReads => reads::random(scale),
            PumaBenchmark::SequentialReads => reads::sequential(scale),
            PumaBenchmark::Blast => blast::shape(scale),
            PumaBenchmark::Postmark => postmark::shape(scale),
            PumaBenchmark::TpcH => database::tpc_h(scale),
            PumaBenchmark::TpcC => database::tpc_c(scale),
            PumaBenchmark::LargeTpcC => database::large_tpc_c(scale),
        }
    }
}
