//! `sublet-lab bench latency`: one client, one request at a time, as in Mortar's figure 7.

use std::time::Duration;

use sublet_types::Bytes;

use super::chart::{Chart, ChartCurve};
use super::error::BenchError;
use super::keyspace::Keyspace;
use super::load_generator::{LoadProfile, ReplyWait, RunEnd};
use super::pair::{PeerOptions, ServerPair, drive, keys_that_fit};
use super::paired_rounds::PairedRounds;
use super::progress::BenchProgress;
use super::report::{BenchReport, Goal, NO_WORSE, RoundsSummary};
use super::request_stream::{RequestMix, RequestStream};
use super::tested_server::StartOptions;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: PeerOptions,
    /// Use keys of this many bytes.
    #[arg(long, default_value_t = 100)]
    key: usize,
    /// Use values of these many bytes, with commas between; the first size is judged.
    #[arg(long, value_delimiter = ',', default_values_t = [5120, 1024, 10_240, 51_200, 102_400, 512_000, 1_000_000])]
    values: Vec<usize>,
    /// Measure for this many seconds per round.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Measure this many rounds of each side.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// Memory of each server.
const MEMORY: Bytes = Bytes::mib(512);

/// The paper's client: one connection that sleeps until the reply is there.
const CLIENT: LoadProfile = LoadProfile {
    pipeline: 1,
    connections: 1,
    waiting: ReplyWait::Sleeping,
};

/// Measures every size of value.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BenchError> {
    progress.expect(args.values.len());
    let start = StartOptions {
        memory: MEMORY,
        threads: 1,
        item_max: Bytes::mib(2),
    };
    let mut report = BenchReport::default();
    let mut medians = Vec::new();
    for (place, &value_bytes) in args.values.iter().enumerate() {
        progress.show_message(format!("values of {value_bytes} B"));
        let pair = ServerPair::start(&args.against, &start)?;
        report.notes = pair.notes()?;
        let [p50, p99] = measure(args, &pair, value_bytes)?;
        let named = |what: &str| format!("get of {value_bytes} B, one client: {what}");
        let row = p50.row(named("p50"), "µs");
        report.rows.push(match place {
            0 => row.goal(Goal::RatioAtMost(NO_WORSE)),
            _ => row,
        });
        report.rows.push(p99.row(named("p99"), "µs"));
        medians.push((value_bytes as f64 / 1024.0, p50));
        progress.step();
    }
    report.charts.push(chart(medians));
    Ok(report)
}

fn measure(
    args: &Args,
    pair: &ServerPair,
    value_bytes: usize,
) -> Result<[PairedRounds; 2], BenchError> {
    let keyspace = Keyspace::new(args.key.clamp(12, 250), value_bytes);
    let keys = keys_that_fit(MEMORY, &keyspace);
    pair.fill(&keyspace, keys)?;
    let stream = RequestStream::mixed(&keyspace, keys, RequestMix::GET, 0.0, 1);
    let seconds = Duration::from_secs_f64(args.seconds.clamp(0.01, 3600.0));
    pair.measure(args.rounds, |server| {
        let outcome = drive(server, &CLIENT, &stream, RunEnd::Elapsed(seconds))?;
        let quantile = |q| outcome.round_trips.value_at_quantile(q) as f64 / 1000.0;
        Ok([quantile(0.5), quantile(0.99)])
    })
}

fn chart(mut medians: Vec<(f64, PairedRounds)>) -> Chart {
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let curve = |name: &str, of: fn(&PairedRounds) -> &Vec<f64>| ChartCurve {
        name: name.into(),
        points: medians
            .iter()
            .map(|(kib, both)| (*kib, RoundsSummary::of(of(both)).median))
            .collect(),
    };
    Chart {
        title: "Round trip of a get by the value's size (Mortar's figure 7b)".into(),
        x: "value, KiB".into(),
        y: "p50, µs".into(),
        curves: vec![
            curve("ours", |both| &both.ours),
            curve("memcached", |both| &both.peer),
        ],
    }
}
