//! `sublet-lab bench follow`: the arena follows the idle memory of a recorded host.
//!
//! A trace's free memory is scaled to a simulated host, whose arena is real. A sample stands for five minutes and
//! passes in one second of the loop's time. Within that second free memory moves evenly to the next sample.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::read::GzDecoder;
use sublet_frontends::tenancy::Clock;
use sublet_host::headroom::{ArenaFollower, HeadroomFigures, HostReadError, ReadHost};
use sublet_policy::headroom::HeadroomSettings;
use sublet_store::Store;
use sublet_types::{Bytes, HostFigures};

use super::bench_store::{BenchStore, BenchStoreError};
use super::chart::{Chart, ChartCurve};
use super::progress::BenchProgress;
use super::report::{BenchReport, BenchRow, Goal, RoundsSummary};

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Read the free memory of hosts from this gzipped table: one column per host, their capacities in the second line.
    #[arg(long, value_name = "FILE.csv.gz")]
    trace: PathBuf,
    /// Follow this host [default: the one whose free memory moves most].
    #[arg(long, value_name = "COLUMN")]
    host: Option<String>,
    /// Give the simulated host this much memory.
    #[arg(long, default_value = "1GiB")]
    memory: Bytes,
    /// Follow this many days of the trace.
    #[arg(long, default_value_t = 7)]
    days: usize,
}

/// Why a trace could not be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// It could not be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        cause: io::Error,
    },
    /// It is not a table of free memory.
    #[error("{path}, line {line}: expected a time and a number for each host")]
    Malformed {
        /// The file.
        path: String,
        /// The line.
        line: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Rig(#[from] BenchStoreError),
    /// It has no such host.
    #[error("{path} has no host {host}; its hosts are {first} to {last}")]
    NoHost {
        /// The file.
        path: String,
        /// The host that was asked for.
        host: String,
        /// The first host in the file.
        first: String,
        /// The last host.
        last: String,
    },
}

const SAMPLES_A_DAY: usize = 288;
/// A sample of five minutes passes in this time.
const SAMPLE: Duration = Duration::from_secs(1);
const VALUE_BYTES: usize = 16_000;
/// The most items that clients store in one turn.
const ITEMS_A_TURN: u32 = 2000;
/// A store is full when it has less than this left.
const FULL: Bytes = Bytes::mib(6);

/// The host always has at least this share of its reserve left, in per cent.
const LEFT_MIN: f64 = 50.0;
/// The arena has at least this share of what it could have, in per cent.
const USED_MIN: f64 = 95.0;

/// Replays the trace.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, FollowError> {
    let trace = HostTrace::read(args)?;
    progress.expect(trace.idle.len());
    progress.show_message(format!("following {}", trace.host));
    let mut play = FollowRun::new(args.memory)?;
    let mut seen = Vec::new();
    for pair in trace.idle.windows(2) {
        seen.push(play.sample(pair[0], pair[1])?);
        progress.step();
    }
    Ok(report(args, &trace, &play, &seen))
}

/// One host of the trace.
struct HostTrace {
    host: String,
    capacity: Bytes,
    /// Free memory at each sample, as a share of the capacity.
    idle: Vec<f64>,
}

impl HostTrace {
    fn read(args: &Args) -> Result<HostTrace, FollowError> {
        let path = args.trace.display().to_string();
        let rows = rows(&args.trace, args.days * SAMPLES_A_DAY)?;
        let malformed = |line| FollowError::Malformed {
            path: path.clone(),
            line,
        };
        let [names, capacities, samples @ ..] = rows.as_slice() else {
            return Err(malformed(rows.len() + 1));
        };
        let capacities = numbers(capacities).ok_or_else(|| malformed(2))?;
        let samples: Vec<Vec<f64>> = samples
            .iter()
            .enumerate()
            .map(|(place, row)| {
                let row = numbers(row).filter(|row| row.len() == capacities.len());
                row.ok_or_else(|| malformed(place + 3))
            })
            .collect::<Result<_, _>>()?;
        let share = |host: usize| -> Vec<f64> {
            let shares = samples.iter().map(|row| row[host] / capacities[host]);
            shares.map(|share| share.clamp(0.0, 1.0)).collect()
        };
        let host = match &args.host {
            Some(host) => names[1..].iter().position(|name| name == host),
            None => {
                (0..capacities.len()).max_by(|a, b| swing(&share(*a)).total_cmp(&swing(&share(*b))))
            }
        };
        let host = host.ok_or_else(|| FollowError::NoHost {
            path: path.clone(),
            host: args.host.clone().unwrap_or_default(),
            first: names.get(1).cloned().unwrap_or_default(),
            last: names.last().cloned().unwrap_or_default(),
        })?;
        Ok(HostTrace {
            host: names.get(host + 1).cloned().unwrap_or_default(),
            capacity: Bytes::mib(capacities[host] as u64),
            idle: share(host),
        })
    }
}

/// The head, the capacities, and at most `samples` samples.
fn rows(path: &Path, samples: usize) -> Result<Vec<Vec<String>>, FollowError> {
    let read = |cause| FollowError::Read {
        path: path.display().to_string(),
        cause,
    };
    let file = BufReader::new(GzDecoder::new(File::open(path).map_err(read)?));
    file.lines()
        .take(samples.saturating_add(2))
        .map(|line| Ok(line.map_err(read)?.split(',').map(str::to_owned).collect()))
        .collect()
}

/// A row's numbers, without its first column.
fn numbers(row: &[String]) -> Option<Vec<f64>> {
    let cells = row.get(1..)?;
    cells.iter().map(|cell| cell.trim().parse().ok()).collect()
}

fn swing(shares: &[f64]) -> f64 {
    let most = shares.iter().copied().fold(0.0, f64::max);
    most - shares.iter().copied().fold(1.0, f64::min)
}

/// The result of one sample.
struct SampleOutcome {
    idle: Bytes,
    arena: Bytes,
    /// The least that the host had left, in per cent of the reserve, or of what its programs left of that.
    least_left: f64,
}

/// A host whose idle memory follows the trace, with a real arena.
struct FollowRun {
    follower: ArenaFollower<ReplayedHost>,
    bench_store: BenchStore,
    idle: Arc<AtomicU64>,
    memory: Bytes,
    now: Duration,
    next_turn: Duration,
    next_key: u32,
}

impl FollowRun {
    fn new(memory: Bytes) -> Result<FollowRun, BenchStoreError> {
        let bench_store = BenchStore::new(memory, VALUE_BYTES)?;
        bench_store.pause_populating();
        let idle = Arc::new(AtomicU64::new(0));
        let host = ReplayedHost {
            store: Arc::clone(bench_store.store()),
            idle: Arc::clone(&idle),
            memory,
        };
        let worker = bench_store.store().worker()?;
        Ok(FollowRun {
            follower: ArenaFollower::new(host, worker, Clock::start(), HeadroomSettings::default()),
            bench_store,
            idle,
            memory,
            now: Duration::ZERO,
            next_turn: Duration::ZERO,
            next_key: 0,
        })
    }

    /// Lets idle memory go from one share to the next, while the loop follows and clients store.
    fn sample(&mut self, from: f64, to: f64) -> Result<SampleOutcome, BenchStoreError> {
        let begun = self.now;
        let mut least_left = f64::INFINITY;
        while self.next_turn < begun + SAMPLE {
            self.now = self.next_turn;
            let passed = (self.now - begun).as_secs_f64() / SAMPLE.as_secs_f64();
            let idle = self.memory.0 as f64 * (from + (to - from) * passed);
            self.idle.store(idle as u64, Ordering::Relaxed);
            let left = idle - self.bench_store.held().0 as f64;
            let again_in = self.follower.iterate(self.now).again_in;
            self.next_turn += again_in.max(Duration::from_micros(100));
            let decision = self.figures().decision;
            let due = decision.map_or(idle, |decision| idle.min(decision.reserve.0 as f64));
            least_left = least_left.min(100.0 * left.max(0.0) / due.max(1.0));
            self.fill()?;
        }
        self.now = begun + SAMPLE;
        Ok(SampleOutcome {
            idle: Bytes(self.idle.load(Ordering::Relaxed)),
            arena: self.bench_store.held(),
            least_left,
        })
    }

    fn fill(&mut self) -> Result<(), BenchStoreError> {
        let limit = self.bench_store.store().figures().limit;
        for _ in 0..ITEMS_A_TURN {
            if self.bench_store.held() + FULL >= limit {
                break;
            }
            self.bench_store.set(self.next_key)?;
            self.next_key = self.next_key.wrapping_add(1);
        }
        Ok(())
    }

    fn figures(&self) -> HeadroomFigures {
        *self.follower.figures().lock()
    }
}

struct ReplayedHost {
    store: Arc<Store>,
    idle: Arc<AtomicU64>,
    memory: Bytes,
}

impl ReadHost for ReplayedHost {
    fn read(&mut self, at: Duration) -> Result<HostFigures, HostReadError> {
        let idle = Bytes(self.idle.load(Ordering::Relaxed));
        let free = idle - self.store.figures().held;
        Ok(HostFigures {
            at,
            memory: self.memory,
            free,
            available: free,
            ..HostFigures::default()
        })
    }
}

fn report(args: &Args, trace: &HostTrace, play: &FollowRun, seen: &[SampleOutcome]) -> BenchReport {
    let figures = play.figures();
    let reserve = figures
        .decision
        .map_or(Bytes::ZERO, |decision| decision.reserve);
    let could: u64 = seen.iter().map(|seen| (seen.idle - reserve).0).sum();
    let had: u64 = seen.iter().map(|seen| seen.arena.0).sum();
    let used = 100.0 * had as f64 / could.max(1) as f64;
    let least = seen
        .iter()
        .map(|seen| seen.least_left)
        .fold(100.0, f64::min);
    let once = |name: &str, unit, figure| {
        BenchRow::new(
            format!("{}: {name}", trace.host),
            unit,
            RoundsSummary::once(figure),
        )
    };
    let releases = figures.releases;
    BenchReport {
        rows: vec![
            once("arena, of what it could have", "%", used).goal(Goal::OursAtLeast(USED_MIN)),
            once("least left, of the reserve", "%", least).goal(Goal::OursAtLeast(LEFT_MIN)),
            once("releases in order", "", releases.ordered as f64),
            once("fast releases", "", releases.fast as f64),
            once(
                "given back",
                "MiB",
                releases.sum.bytes.0 as f64 / f64::from(1 << 20),
            ),
        ],
        charts: vec![chart(trace, seen, reserve)],
        notes: vec![format!(
            "{} of the trace's {} stand for {}; a sample of 5 minutes passed in {} s",
            args.memory,
            trace.host,
            trace.capacity,
            SAMPLE.as_secs()
        )],
        ..BenchReport::default()
    }
}

fn chart(trace: &HostTrace, seen: &[SampleOutcome], reserve: Bytes) -> Chart {
    let curve = |name: &str, amount: &dyn Fn(&SampleOutcome) -> Bytes| ChartCurve {
        name: name.into(),
        points: seen
            .iter()
            .enumerate()
            .map(|(place, seen)| {
                (
                    place as f64 / SAMPLES_A_DAY as f64,
                    amount(seen).0 as f64 / f64::from(1 << 20),
                )
            })
            .collect(),
    };
    Chart {
        title: format!("The arena follows the idle memory of {}", trace.host),
        x: "days".into(),
        y: "MiB".into(),
        curves: vec![
            curve("idle", &|seen| seen.idle),
            curve("idle − reserve", &|seen| seen.idle - reserve),
            curve("arena", &|seen| seen.arena),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn args(table: &str, host: Option<&str>) -> (tempfile::TempDir, Args) {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("t.csv.gz");
        let mut file = GzEncoder::new(File::create(&trace).expect("a file"), Compression::fast());
        file.write_all(table.as_bytes()).expect("written");
        file.finish().expect("finished");
        let args = Args {
            trace,
            host: host.map(str::to_owned),
            memory: Bytes::mib(128),
            days: 1,
        };
        (folder, args)
    }

    const TABLE: &str = "t_s,h0,h1\ncap_MiB,100,200\n0,90,180\n300,80,20\n600,85,190\n";

    #[test]
    fn the_host_that_moves_most_is_taken_unless_one_is_named() {
        let (_folder, found) = args(TABLE, None);
        let trace = HostTrace::read(&found).expect("read");
        assert_eq!(
            (trace.host.as_str(), trace.capacity),
            ("h1", Bytes::mib(200))
        );
        assert_eq!(trace.idle, [0.9, 0.1, 0.95]);
        let (_folder, named) = args(TABLE, Some("h0"));
        assert_eq!(
            HostTrace::read(&named).expect("read").idle,
            [0.9, 0.8, 0.85]
        );
    }

    #[test]
    fn a_wrong_table_is_named_with_its_line() {
        for (table, host, message) in [
            ("t_s,h0\ncap_MiB,100\n0,x\n", None, "line 3"),
            ("t_s,h0\ncap_MiB,100\n0,1,2\n", None, "line 3"),
            ("t_s,h0\n", None, "line 2"),
            (TABLE, Some("h9"), "its hosts are h0 to h1"),
        ] {
            let (_folder, args) = args(table, host);
            let error = HostTrace::read(&args).err().expect("refused").to_string();
            assert!(error.contains(message), "{error}");
        }
        let (_folder, mut args) = args(TABLE, None);
        args.trace = PathBuf::from("/nowhere/t.csv.gz");
        let error = HostTrace::read(&args).err().expect("refused").to_string();
        assert!(error.contains("/nowhere/t.csv.gz"), "{error}");
    }
}
