//! `sublet-lab bench traces`: misses on public and made traces, at equal memory.

mod prepared;
pub(super) mod source;

use std::path::PathBuf;

use sublet_types::Bytes;

use super::baseline::lru_misses;
use super::both::Both;
use super::error::BenchError;
use super::pair::{Against, Pair};
use super::progress::Progress;
use super::replay::Replay;
use super::report::{Goal, Measured, Report, Row};
use super::subject::{Start, Subject};
use prepared::{KEY_BYTES, Prepared, Room};
use source::{Source, TraceError, ValueSizes};

/// What is replayed.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: Against,
    /// Folder with traces in any format of `sublet-lab sim`, and cachelib/*.sizes.json and *.pop.json.
    #[arg(long, value_name = "DIR")]
    traces: PathBuf,
    /// Which traces, with commas between: files' names up to the first dot, or made ones.
    #[arg(long, value_delimiter = ',', default_values = NAMES)]
    names: Vec<String>,
    /// One size for all values, or sizes as CacheLib recorded them; each is tried.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["one", "real"])]
    sizes: Vec<ValueSizes>,
    /// The servers' memory as a share of the footprint, in per cent.
    #[arg(long, default_value_t = 10.0)]
    percent: f64,
    /// The memory that each server gets; the trace is copied, and its values' sizes are changed, to suit.
    #[arg(long, default_value = "64MiB")]
    memory: Bytes,
    /// Most requests of a replay, unless a single copy has more.
    #[arg(long, default_value_t = 12_000_000)]
    requests: usize,
}

const NAMES: [&str; 13] = [
    "web07",
    "web12",
    "orm-busy",
    "OLTP",
    "P3",
    "P6",
    "w106",
    "drift",
    "kvcache-c4",
    "graph-c4",
    "zipf-1.0",
    "zipf+scan",
    "loop",
];

/// No trace is to miss more, beside memcached.
const WORST_BESIDE_PEER: f64 = 1.05;

/// Replays every trace with every kind of sizes against both servers.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    progress.expect(2 * args.names.len() * args.sizes.len());
    let mut report = Report::default();
    for sizes in &args.sizes {
        let mut ratios = Ratios::default();
        for name in &args.names {
            match Source::find(&args.traces, name)? {
                Some(source) => {
                    let trace = prepared(args, &source, *sizes)?;
                    let what = format!("{name}, {sizes}");
                    replay(args, &what, &trace, progress, &mut report, &mut ratios)?;
                }
                None => report.notes.push(format!(
                    "{name} was skipped: it is no made trace, and there is none in {}.",
                    args.traces.display()
                )),
            }
        }
        report.rows.extend(ratios.rows(*sizes, args.memory));
    }
    Ok(report)
}

fn prepared(args: &Args, source: &Source, sizes: ValueSizes) -> Result<Prepared, TraceError> {
    let room = Room {
        memory: args.memory,
        share: (args.percent / 100.0).clamp(0.001, 1.0),
        requests_max: args.requests,
    };
    let size_of = source.size_of(sizes)?;
    Ok(Prepared::of(&source.ids()?, size_of, room))
}

/// What the traces with one kind of sizes came to.
#[derive(Default)]
struct Ratios {
    peer: Vec<f64>,
    lru: Vec<f64>,
    /// Bytes of keys and values at the end, in per cent of the memory.
    held: Both,
}

impl Ratios {
    /// Means and worst of all traces, with what they may be.
    fn rows(&self, sizes: ValueSizes, memory: Bytes) -> Vec<Row> {
        let [mean_peer, mean_lru, worst_lru] = match sizes {
            ValueSizes::One => [1.0, 1.03, 1.13],
            ValueSizes::Real => [0.95, 0.96, 1.08],
        };
        let held = if memory < Bytes::mib(512) { 88.0 } else { 92.0 };
        let row = |said: &str, figure: f64, bound: f64| {
            Row::new(format!("{sizes}: {said}"), "ratio", Measured::once(figure))
                .goal(Goal::OursAtMost(bound))
        };
        if self.peer.is_empty() {
            return Vec::new();
        }
        vec![
            row("mean beside the peer", mean(&self.peer), mean_peer),
            row(
                "worst beside the peer",
                worst(&self.peer),
                WORST_BESIDE_PEER,
            ),
            row("mean beside an exact LRU", mean(&self.lru), mean_lru),
            row("worst beside an exact LRU", worst(&self.lru), worst_lru),
            Row::new(
                format!("{sizes}: keys and values, most of all traces"),
                "% of memory",
                Measured::once(worst(&self.held.ours)),
            )
            .against(Measured::once(worst(&self.held.peer)))
            .goal(Goal::OursAtLeast(held)),
        ]
    }
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn worst(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}

fn replay(
    args: &Args,
    what: &str,
    trace: &Prepared,
    progress: &Progress,
    report: &mut Report,
    ratios: &mut Ratios,
) -> Result<(), BenchError> {
    let start = Start {
        memory: args.memory,
        threads: 1,
        item_max: Bytes::mib(1),
    };
    let pair = Pair::start(&args.against, &start)?;
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
    let mut misses = Both::default();
    let mut refused = Vec::new();
    for (subject, missed, held) in [
        (pair.ours(), &mut misses.ours, &mut ratios.held.ours),
        (pair.peer(), &mut misses.peer, &mut ratios.held.peer),
    ] {
        progress.say(format!("{what}: {}", subject.name()));
        let replayed = drive(subject, trace)?;
        progress.step();
        missed.push(percent(replayed.misses, trace.requests.len() as u64));
        held.push(percent(replayed.bytes_held, args.memory.0));
        refused.push(format!("{} by {}", replayed.refused, subject.name()));
    }
    let ours = Measured::of(&misses.ours);
    let lru = lru_misses(args.memory.0, &trace.requests, |key| trace.bytes_of(key));
    let beside_lru = Row::new(
        format!("{what}: misses beside an exact LRU's"),
        "% of gets",
        ours,
    )
    .against(Measured::once(percent(lru, trace.requests.len() as u64)));
    let beside_peer = misses
        .row(format!("{what}: misses"), "% of gets")
        .goal(Goal::RatioAtMost(WORST_BESIDE_PEER));
    ratios.peer.extend(beside_peer.ratio());
    ratios.lru.extend(beside_lru.ratio());
    report.rows.extend([beside_peer, beside_lru]);
    let held = |side: &[f64]| side.last().copied().unwrap_or_default();
    report.notes.push(format!(
        "{what}: {trace}; keys and values take {:.1} % of {} (the peer's {:.1} %); sets refused for want of memory: {}.",
        held(&ratios.held.ours),
        args.memory,
        held(&ratios.held.peer),
        refused.join(", ")
    ));
    Ok(())
}

/// What one server made of a trace.
struct Replayed {
    misses: u64,
    refused: u64,
    /// Keys and values that it holds at the end.
    bytes_held: u64,
}

fn drive(subject: &Subject, trace: &Prepared) -> Result<Replayed, BenchError> {
    let replay = Replay::new(KEY_BYTES, &trace.value_bytes);
    let failed = |cause| BenchError::while_driving(subject, cause);
    let replayed = replay
        .run(subject.address(), &trace.requests)
        .map_err(failed)?;
    let held = replay.held(subject.address()).map_err(failed)?;
    Ok(Replayed {
        misses: replayed.misses,
        refused: replayed.refused,
        bytes_held: held.iter().map(|key| trace.bytes_of(*key)).sum(),
    })
}
