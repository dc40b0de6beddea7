//! `sublet-lab bench latency`: one client, one request at a time, as in Mortar's figure 7.

use std::time::Duration;

use sublet_types::Bytes;

use super::both::Both;
use super::chart::{Chart, Curve};
use super::error::BenchError;
use super::keyspace::Keyspace;
use super::load::{Load, Until, Waiting};
use super::pair::{Against, Pair, drive, keys_that_fit};
use super::progress::Progress;
use super::report::{Goal, Measured, NO_WORSE, Report};
use super::stream::{Mix, Stream};
use super::subject::Start;

/// What is asked.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: Against,
    /// Bytes of a key.
    #[arg(long, default_value_t = 100)]
    key: usize,
    /// Bytes of a value, with commas between; the first is judged.
    #[arg(long, value_delimiter = ',', default_values_t = [5120, 1024, 10_240, 51_200, 102_400, 512_000, 1_000_000])]
    values: Vec<usize>,
    /// Seconds of a round.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Rounds of each side.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// Memory of each server.
const MEMORY: Bytes = Bytes::mib(512);

/// The paper's client: one connection, which sleeps until the reply is there.
const CLIENT: Load = Load {
    pipeline: 1,
    connections: 1,
    waiting: Waiting::Sleeping,
};

/// Measures every size of value.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    progress.expect(args.values.len());
    let start = Start {
        memory: MEMORY,
        threads: 1,
        item_max: Bytes::mib(2),
    };
    let mut report = Report::default();
    let mut medians = Vec::new();
    for (place, &value_bytes) in args.values.iter().enumerate() {
        progress.say(format!("values of {value_bytes} B"));
        let pair = Pair::start(&args.against, &start)?;
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

fn measure(args: &Args, pair: &Pair, value_bytes: usize) -> Result<[Both; 2], BenchError> {
    let keyspace = Keyspace::new(args.key.clamp(12, 250), value_bytes);
    let keys = keys_that_fit(MEMORY, &keyspace);
    pair.fill(&keyspace, keys)?;
    let stream = Stream::mixed(&keyspace, keys, Mix::GET, 0.0, 1);
    let seconds = Duration::from_secs_f64(args.seconds.clamp(0.01, 3600.0));
    pair.measure(args.rounds, |subject| {
        let outcome = drive(subject, &CLIENT, &stream, Until::Elapsed(seconds))?;
        let quantile = |q| outcome.round_trips.value_at_quantile(q) as f64 / 1000.0;
        Ok([quantile(0.5), quantile(0.99)])
    })
}

fn chart(mut medians: Vec<(f64, Both)>) -> Chart {
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let curve = |name: &str, of: fn(&Both) -> &Vec<f64>| Curve {
        name: name.into(),
        points: medians
            .iter()
            .map(|(kib, both)| (*kib, Measured::of(of(both)).median))
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
