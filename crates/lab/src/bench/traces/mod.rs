//! `sublet-lab bench traces`: misses on public and synthetic traces, at equal memory.

mod prepared;
pub(super) mod source;

use std::path::PathBuf;

use sublet_types::Bytes;

use super::baseline::lru_misses;
use super::error::BenchError;
use super::pair::{PeerOptions, ServerPair};
use super::paired_rounds::PairedRounds;
use super::progress::BenchProgress;
use super::replay::TraceReplay;
use super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::tested_server::{StartOptions, TestedServer};
use prepared::{KEY_BYTES, PreparedTrace, ReplayBudget};
use source::{TraceSource, TraceSourceError, ValueSizes};

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: PeerOptions,
    /// Read traces from this folder: any format of `sublet-lab sim`, and cachelib/*.sizes.json and *.pop.json.
    #[arg(long, value_name = "DIR")]
    traces: PathBuf,
    /// Replay these traces, with commas between: files' names up to the first dot, or synthetic ones.
    #[arg(long, value_delimiter = ',', default_values = NAMES)]
    names: Vec<String>,
    /// Use one size for all values, or sizes as CacheLib recorded them; each is tried.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["one", "real"])]
    sizes: Vec<ValueSizes>,
    /// Give the servers this share of the footprint, in per cent.
    #[arg(long, default_value_t = 10.0)]
    percent: f64,
    /// Give each server this much memory; copies of the trace and the sizes of its values are made to suit.
    #[arg(long, default_value = "64MiB")]
    memory: Bytes,
    /// Make at most this many requests per replay, unless a single copy has more.
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

/// The most misses on any trace, relative to memcached.
const WORST_BESIDE_PEER: f64 = 1.05;

/// Replays every trace with every kind of sizes against both servers.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BenchError> {
    progress.expect(2 * args.names.len() * args.sizes.len());
    let mut report = BenchReport::default();
    for sizes in &args.sizes {
        let mut ratios = MissRatios::default();
        for name in &args.names {
            match TraceSource::find(&args.traces, name)? {
                Some(source) => {
                    let trace = prepare(args, &source, *sizes)?;
                    let what = format!("{name}, {sizes}");
                    replay(args, &what, &trace, progress, &mut report, &mut ratios)?;
                }
                None => report.notes.push(format!(
                    "{name} was skipped: it is no synthetic trace, and there is none in {}.",
                    args.traces.display()
                )),
            }
        }
        report.rows.extend(ratios.rows(*sizes, args.memory));
    }
    Ok(report)
}

fn prepare(
    args: &Args,
    source: &TraceSource,
    sizes: ValueSizes,
) -> Result<PreparedTrace, TraceSourceError> {
    let room = ReplayBudget {
        memory: args.memory,
        share: (args.percent / 100.0).clamp(0.001, 1.0),
        requests_max: args.requests,
    };
    let size_of = source.size_of(sizes)?;
    Ok(PreparedTrace::of(&source.ids()?, size_of, room))
}

/// The results of the traces with one kind of sizes.
#[derive(Default)]
struct MissRatios {
    peer: Vec<f64>,
    lru: Vec<f64>,
    /// Bytes of keys and values at the end, in per cent of the memory.
    held: PairedRounds,
}

impl MissRatios {
    /// Rows of the mean and the worst of all traces, with their goals.
    fn rows(&self, sizes: ValueSizes, memory: Bytes) -> Vec<BenchRow> {
        let [mean_peer, mean_lru, worst_lru] = match sizes {
            ValueSizes::One => [1.0, 1.03, 1.13],
            ValueSizes::Real => [0.95, 0.96, 1.08],
        };
        let held = if memory < Bytes::mib(512) { 88.0 } else { 92.0 };
        let row = |figure_name: &str, figure: f64, bound: f64| {
            BenchRow::new(
                format!("{sizes}: {figure_name}"),
                "ratio",
                RoundsSummary::once(figure),
            )
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
            BenchRow::new(
                format!("{sizes}: keys and values, most of all traces"),
                "% of memory",
                RoundsSummary::once(worst(&self.held.ours)),
            )
            .against(RoundsSummary::once(worst(&self.held.peer)))
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
    trace: &PreparedTrace,
    progress: &BenchProgress,
    report: &mut BenchReport,
    ratios: &mut MissRatios,
) -> Result<(), BenchError> {
    let start = StartOptions {
        memory: args.memory,
        threads: 1,
        item_max: Bytes::mib(1),
    };
    let pair = ServerPair::start(&args.against, &start)?;
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
    let mut misses = PairedRounds::default();
    let mut refused = Vec::new();
    for (server, missed, held) in [
        (pair.ours(), &mut misses.ours, &mut ratios.held.ours),
        (pair.peer(), &mut misses.peer, &mut ratios.held.peer),
    ] {
        progress.show_message(format!("{what}: {}", server.name()));
        let replayed = drive(server, trace)?;
        progress.step();
        missed.push(percent(replayed.misses, trace.requests.len() as u64));
        held.push(percent(replayed.bytes_held, args.memory.0));
        refused.push(format!("{} by {}", replayed.refused, server.name()));
    }
    let ours = RoundsSummary::of(&misses.ours);
    let lru = lru_misses(args.memory.0, &trace.requests, |key| trace.bytes_of(key));
    let beside_lru = BenchRow::new(
        format!("{what}: misses beside an exact LRU's"),
        "% of gets",
        ours,
    )
    .against(RoundsSummary::once(percent(
        lru,
        trace.requests.len() as u64,
    )));
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

/// The result of a trace on one server.
struct ServerReplay {
    misses: u64,
    refused: u64,
    /// Bytes of keys and values that it holds at the end.
    bytes_held: u64,
}

fn drive(server: &TestedServer, trace: &PreparedTrace) -> Result<ServerReplay, BenchError> {
    let replay = TraceReplay::new(KEY_BYTES, &trace.value_bytes);
    let failed = |cause| BenchError::while_driving(server, cause);
    let replayed = replay
        .run(server.address(), &trace.requests)
        .map_err(failed)?;
    let held = replay.resident_keys(server.address()).map_err(failed)?;
    Ok(ServerReplay {
        misses: replayed.misses,
        refused: replayed.refused,
        bytes_held: held.iter().map(|key| trace.bytes_of(*key)).sum(),
    })
}
