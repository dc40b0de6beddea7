//! `sublet-lab bench idle`: what a daemon costs that nobody asks anything.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sublet_types::Bytes;

use super::both::Both;
use super::error::BenchError;
use super::pair::{Against, Pair};
use super::progress::Progress;
use super::report::{Goal, Report};
use super::subject::{Start, Subject};

/// What idles.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: Against,
    /// Connections that say nothing.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Server threads.
    #[arg(long, default_value_t = 4)]
    threads: usize,
}

/// The most that an idle daemon may use of a core, in per cent.
const IDLE_PERCENT: f64 = 0.5;

/// Time for a server to come to rest after the connections were made.
const SETTLING: Duration = Duration::from_secs(2);

/// Opens the connections, waits, and reads the CPU time.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    progress.expect(1);
    raise_descriptor_limit();
    progress.say(format!("{} idle connections", args.connections));
    let start = Start {
        memory: Bytes::mib(64),
        threads: args.threads,
        item_max: Bytes::mib(1),
    };
    let pair = Pair::start(&args.against, &start)?;
    let _connections = pair_of_crowds(&pair, args.connections)?;
    std::thread::sleep(SETTLING);
    let before = pair.ask(cpu_secs)?;
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(args.seconds.clamp(0.1, 3600.0)));
    let elapsed = begun.elapsed().as_secs_f64();
    let after = pair.ask(cpu_secs)?;
    let used = used_percent(&before, &after, elapsed);
    progress.step();
    let name = format!("{} idle connections: CPU", args.connections);
    let goal = Goal::OursAtMost(IDLE_PERCENT);
    Ok(Report {
        rows: vec![used.row(name, "% of a core").goal(goal)],
        notes: pair.notes()?.into_iter().take(1).collect(),
        ..Report::default()
    })
}

/// As far as the kernel lets us; where that is too little, opening the connections says so.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

fn cpu_secs(subject: &Subject) -> Result<f64, BenchError> {
    Ok(subject.cpu()?.as_secs_f64())
}

fn pair_of_crowds(pair: &Pair, connections: usize) -> Result<Vec<TcpStream>, BenchError> {
    let mut crowd = Vec::new();
    for address in pair.addresses() {
        for _ in 0..connections {
            let connected: io::Result<TcpStream> = TcpStream::connect(address);
            crowd.push(connected.map_err(BenchError::Crowd)?);
        }
    }
    Ok(crowd)
}

fn used_percent(before: &Both, after: &Both, elapsed: f64) -> Both {
    let each = |before: &[f64], after: &[f64]| vec![100.0 * (after[0] - before[0]) / elapsed];
    Both {
        ours: each(&before.ours, &after.ours),
        peer: each(&before.peer, &after.peer),
    }
}
