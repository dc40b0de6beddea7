//! Stand-ins for the two CloudSuite programs of SmarTmem's evaluation (§IV, Table II): what they are assumed to demand,
//! and why. The figures were fixed before any result was looked at.
//!
//! The paper gives no curves of demand, only their effect on the tier. This is what it says, and what follows:
//!
//! - All virtual machines of a scenario press on 1 GB of tmem until it is full (figures 4, 6, 10), and none of them can
//!   have what it wants. So the sum of what does not fit into their own memory is above 1 GB, by about a fifth to a
//!   half.
//! - *graph-analytics*: it "starts by making use of a large amount of tmem", and "VM1 and VM2 take up half of the
//!   available memory each" (§V-B, D). Each has 512 MB, and 512 MB more in tmem before the third arrives 30 seconds
//!   later. So it reaches 512 MB + 512 MB within about half a minute and stays there.
//! - *in-memory-analytics*: three of them with 1 GB each reach different peaks in the first run, and press less than
//!   graph-analytics does (figure 4). That is 1.3 GB each, an excess of 0.3 to 0.4 GB.
//! - Without tmem the programs take about 1.3 to 1.7 times as long (21 to 40 % gained over no-tmem): they compute
//!   between touches. A Spark or GraphX stage on one 2.1 GHz core of a nested guest takes 100 µs per page of 4 KiB (40
//!   MB/s) with records of some hundred bytes.
//! - Alternating least squares (in-memory-analytics) goes linearly over its cached ratings. Between passes it picks
//!   factors of users and films by popularity.
//! - PageRank-like graph programs pick vertices by a power law (Twitter's followers: exponent about 1 of rank). Their
//!   active set shrinks as vertices converge.

use serde::Deserialize;
use sublet_types::Bytes;

use crate::bounds;
use crate::virtual_time::VirtualDuration;

/// How often a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramRuns {
    /// The number of runs.
    pub runs: u32,
    /// Rest between two of them.
    pub rest: VirtualDuration,
    /// Its memory, as a share of the paper's.
    #[serde(deserialize_with = "bounds::scale")]
    pub scale: f64,
    /// Its computing time for each page, as a multiple of the paper's.
    #[serde(deserialize_with = "bounds::scale")]
    pub work: f64,
}

impl ProgramRuns {
    /// The names of its stretches.
    pub(super) fn stretches(self) -> impl Iterator<Item = String> {
        (1..=self.runs).map(ProgramRuns::title)
    }

    /// The name of a run, by its number from 1.
    pub(super) fn title(run: u32) -> String {
        format!("run {run}")
    }
}

/// One run at full size. Scenario 1 rests 5 seconds between its two runs (Table II).
impl Default for ProgramRuns {
    fn default() -> ProgramRuns {
        ProgramRuns {
            runs: 1,
            rest: VirtualDuration::secs(5),
            scale: 1.0,
            work: 1.0,
        }
    }
}

/// One stage of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgramStage {
    /// What it has from here on. It writes what is new, and frees what is too much.
    pub memory: Bytes,
    /// Touches afterwards, as a share of its pages (1 is one pass).
    pub passes: f64,
    /// The order of the touches.
    pub pattern: TouchPattern,
    /// The share of touches that write.
    pub write_share: f64,
    /// Computing time for each page that is touched.
    pub work: VirtualDuration,
}

/// The order in which a stage touches its pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TouchPattern {
    /// One after another.
    Linear,
    /// By Zipf's law with this exponent. Ranks are scattered over runs of eight pages.
    Zipf(f64),
}

const WORK: VirtualDuration = VirtualDuration::micros(100);

/// The computing time while it reads input: it only parses.
const PARSING: VirtualDuration = VirtualDuration::micros(50);

const fn stage(
    mib: u64,
    passes: f64,
    pattern: TouchPattern,
    write_share: f64,
    work: VirtualDuration,
) -> ProgramStage {
    ProgramStage {
        memory: Bytes::mib(mib),
        passes,
        pattern,
        write_share,
        work,
    }
}

/// CloudSuite's in-memory analytics: load and parse ratings, cache them, iterate, write the model.
pub const IN_MEMORY_ANALYTICS: [ProgramStage; 7] = [
    stage(600, 0.0, TouchPattern::Linear, 1.0, PARSING),
    stage(1_300, 0.0, TouchPattern::Linear, 1.0, PARSING),
    stage(1_300, 1.0, TouchPattern::Linear, 0.1, WORK),
    stage(1_300, 1.5, TouchPattern::Zipf(0.8), 0.3, WORK),
    stage(1_300, 1.0, TouchPattern::Linear, 0.1, WORK),
    stage(1_300, 1.5, TouchPattern::Zipf(0.8), 0.3, WORK),
    stage(900, 0.5, TouchPattern::Linear, 0.1, WORK),
];

/// CloudSuite's graph analytics: load edges fast, build the graph, iterate over a shrinking active set.
pub const GRAPH_ANALYTICS: [ProgramStage; 5] = [
    stage(1_024, 0.0, TouchPattern::Linear, 1.0, PARSING),
    stage(1_024, 1.0, TouchPattern::Zipf(0.6), 0.3, WORK),
    stage(1_024, 2.0, TouchPattern::Zipf(0.9), 0.3, WORK),
    stage(900, 1.5, TouchPattern::Zipf(0.9), 0.2, WORK),
    stage(768, 1.0, TouchPattern::Zipf(0.9), 0.1, WORK),
];
