//! `sublet-lab bench idle`: the costs of a daemon that gets no requests.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sublet_types::Bytes;

use super::error::BenchError;
use super::pair::{PeerOptions, ServerPair};
use super::paired_rounds::PairedRounds;
use super::progress::BenchProgress;
use super::report::{BenchReport, Goal};
use super::tested_server::{StartOptions, TestedServer};

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: PeerOptions,
    /// Open this many silent connections.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Wait for this many seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Start this many server threads.
    #[arg(long, default_value_t = 4)]
    threads: usize,
}

/// The most that an idle daemon may use of a core, in per cent.
const IDLE_PERCENT: f64 = 0.5;

/// The time for a server to come to rest after the connections were made.
const SETTLING: Duration = Duration::from_secs(2);

/// Opens the connections, waits, and reads the CPU time.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BenchError> {
    progress.expect(1);
    raise_descriptor_limit();
    progress.show_message(format!("{} idle connections", args.connections));
    let start = StartOptions {
        memory: Bytes::mib(64),
        threads: args.threads,
        item_max: Bytes::mib(1),
    };
    let pair = ServerPair::start(&args.against, &start)?;
    let _connections = pair_of_crowds(&pair, args.connections)?;
    std::thread::sleep(SETTLING);
    let before = pair.query(cpu_secs)?;
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(args.seconds.clamp(0.1, 3600.0)));
    let elapsed = begun.elapsed().as_secs_f64();
    let after = pair.query(cpu_secs)?;
    let used = used_percent(&before, &after, elapsed);
    progress.step();
    let name = format!("{} idle connections: CPU", args.connections);
    let goal = Goal::OursAtMost(IDLE_PERCENT);
    Ok(BenchReport {
        rows: vec![used.row(name, "% of a core").goal(goal)],
        notes: pair.notes()?.into_iter().take(1).collect(),
        ..BenchReport::default()
    })
}

/// Raises the limit of open files as far as the kernel allows. If that is too little, opening the connections reports
/// it.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

fn cpu_secs(server: &TestedServer) -> Result<f64, BenchError> {
    Ok(server.cpu()?.as_secs_f64())
}

fn pair_of_crowds(pair: &ServerPair, connections: usize) -> Result<Vec<TcpStream>, BenchError> {
    let mut crowd = Vec::new();
    for address in pair.addresses() {
        for _ in 0..connections {
            let connected: io::Result<TcpStream> = TcpStream::connect(address);
            crowd.push(connected.map_err(BenchError::Crowd)?);
        }
    }
    Ok(crowd)
}

fn used_percent(before: &PairedRounds, after: &PairedRounds, elapsed: f64) -> PairedRounds {
    let each = |before: &[f64], after: &[f64]| vec![100.0 * (after[0] - before[0]) / elapsed];
    PairedRounds {
        ours: each(&before.ours, &after.ours),
        peer: each(&before.peer, &after.peer),
    }
}
