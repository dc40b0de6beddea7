//! The paper's benchmarks, as steps of a guest's threads. What the paper does not say of them is our choice, and
//! stands beside it.

mod blast;
mod database;
mod postmark;
mod reads;
pub(super) mod shape;

use serde::Serialize;

use super::setting::PumaScale;
use shape::BenchmarkShape;

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
