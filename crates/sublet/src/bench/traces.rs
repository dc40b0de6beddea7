//! `sublet bench traces`: misses on public traces, at equal memory.
//!
//! A trace's ids are replayed as get, then set on a miss. Each id has one value, its size drawn from
//! CacheLib's distribution. The servers get a share of the footprint, which must be memory enough for
//! both of them: so a small trace is replayed as several copies side by side, request by request, each with
//! keys of its own; and where that makes too many requests, values are larger by a factor.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use sublet_types::Bytes;

use super::BenchError;
use super::baseline::{Eviction, misses};
use super::pair::{Against, Pair};
use super::progress::Progress;
use super::replay::Replay;
use super::report::{Goal, Measured, Report, Row};
use super::sizes::Sizes;
use super::subject::Start;

/// What is replayed.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: Against,
    /// Folder with NAME.trace.xz (32-bit big-endian ids) and cachelib/*.sizes.json.
    #[arg(long, value_name = "DIR")]
    traces: PathBuf,
    /// Which traces, with commas between.
    #[arg(long, value_delimiter = ',', default_values = ["web07", "web12", "orm-busy"])]
    names: Vec<String>,
    /// Which of CacheLib's distributions of value sizes.
    #[arg(long, default_value = "kvcache_reg")]
    sizes: String,
    /// The servers' memory as a share of the footprint, in per cent.
    #[arg(long, default_value_t = 10.0)]
    percent: f64,
    /// The memory that each server gets; the trace is copied, and its values are enlarged, to suit.
    #[arg(long, default_value = "64MiB")]
    memory: Bytes,
    /// Most requests of a replay, unless a single copy has more.
    #[arg(long, default_value_t = 12_000_000)]
    requests: usize,
}

/// Why a trace was not replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// The distribution of sizes is not there or not what it should be.
    #[error("cannot read value sizes from {path}: {cause}")]
    Sizes {
        /// The file.
        path: String,
        /// Why not.
        cause: io::Error,
    },
    /// The trace is there but cannot be read.
    #[error("cannot read the trace {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        cause: io::Error,
    },
}

/// Replays every trace against both servers.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    progress.expect(2 * args.names.len());
    let sizes = read_sizes(args)?;
    let mut report = Report::default();
    for name in &args.names {
        let path = args.traces.join(format!("{name}.trace.xz"));
        if path.is_file() {
            let trace = Trace::of(args, &read_ids(&path)?, &sizes);
            replay(args, name, &trace, progress, &mut report)?;
        } else {
            let why = format!("{name} was skipped: there is no {}.", path.display());
            report.notes.push(why);
        }
    }
    Ok(report)
}

fn read_sizes(args: &Args) -> Result<Sizes, TraceError> {
    let name = format!("cachelib/{}.sizes.json", args.sizes);
    let path = args.traces.join(name);
    let parsed = fs::read(&path).and_then(|json| Sizes::parse(&json));
    parsed.map_err(|cause| TraceError::Sizes {
        path: path.display().to_string(),
        cause,
    })
}

fn read_ids(path: &Path) -> Result<Vec<u32>, TraceError> {
    let unreadable = |cause| TraceError::Unreadable {
        path: path.display().to_string(),
        cause,
    };
    let mut packed = BufReader::new(fs::File::open(path).map_err(unreadable)?);
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut packed, &mut bytes)
        .map_err(|cause| unreadable(io::Error::other(cause)))?;
    let (ids, _) = bytes.as_chunks::<4>();
    Ok(ids.iter().map(|id| u32::from_be_bytes(*id)).collect())
}

/// A trace made ready: copies side by side, every key with its value's size.
struct Trace {
    /// Key numbers in the order of the requests.
    requests: Vec<u32>,
    /// Value bytes of each key number.
    value_bytes: Vec<u32>,
    memory: Bytes,
    copies: usize,
    /// How many times larger the values are than CacheLib's.
    factor: f64,
}

/// Bytes of a key in a replay.
const KEY_BYTES: usize = 30;

/// No value is larger: half of what either server takes.
const VALUE_MAX: u32 = 512 << 10;

impl Trace {
    fn of(args: &Args, ids: &[u32], sizes: &Sizes) -> Trace {
        let share = (args.percent / 100.0).clamp(0.001, 1.0);
        let wanted = args.memory.0 as f64 / share;
        let needed = (wanted / footprint(ids, sizes)).max(1.0);
        let affordable = (args.requests / ids.len().max(1)).max(1);
        let copies = (needed.ceil() as usize).min(affordable);
        let factor = (needed / copies as f64).max(1.0);
        let size_of = |id| ((f64::from(sizes.of(id)) * factor) as u32).min(VALUE_MAX);
        let (requests, value_bytes) = side_by_side(ids, copies, size_of);
        let keys = value_bytes.len() as u64 * KEY_BYTES as u64;
        let bytes = keys + value_bytes.iter().map(|size| u64::from(*size)).sum::<u64>();
        Trace {
            memory: Bytes((bytes as f64 * share) as u64 >> 20 << 20),
            requests,
            value_bytes,
            copies,
            factor,
        }
    }

    fn bytes_of(&self, key: u32) -> u64 {
        u64::from(self.value_bytes[key as usize]) + KEY_BYTES as u64
    }
}

/// Bytes of all keys and values of one copy.
fn footprint(ids: &[u32], sizes: &Sizes) -> f64 {
    let distinct: HashSet<u32> = ids.iter().copied().collect();
    let item = |id: &u32| f64::from(sizes.of(u64::from(*id))) + KEY_BYTES as f64;
    distinct.iter().map(item).sum::<f64>().max(1.0)
}

/// The requests of `copies` copies, one of each in turn, and the size of each key's value.
fn side_by_side(ids: &[u32], copies: usize, size_of: impl Fn(u64) -> u32) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: HashMap<(u32, usize), u32> = HashMap::new();
    let mut requests = Vec::with_capacity(ids.len() * copies);
    let mut value_bytes = Vec::new();
    for &id in ids {
        for copy in 0..copies {
            let number = *numbers.entry((id, copy)).or_insert_with(|| {
                value_bytes.push(size_of((copy as u64) << 32 | u64::from(id)));
                value_bytes.len() as u32 - 1
            });
            requests.push(number);
        }
    }
    (requests, value_bytes)
}

fn replay(
    args: &Args,
    name: &str,
    trace: &Trace,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let start = Start {
        memory: trace.memory,
        threads: 1,
        item_max: Bytes::mib(1),
    };
    let pair = Pair::start(&args.against, &start)?;
    let percent = |misses: u64| 100.0 * misses as f64 / trace.requests.len() as f64;
    let refused = RefCell::new(Vec::new());
    let both = pair.ask(|subject| {
        progress.say(format!("{name}: {}", subject.name()));
        let replay = Replay::new(KEY_BYTES, &trace.value_bytes);
        let replayed = replay
            .run(subject.address(), &trace.requests)
            .map_err(|cause| BenchError::while_driving(subject, cause))?;
        progress.step();
        let said = format!("{} by {}", replayed.refused, subject.name());
        refused.borrow_mut().push(said);
        Ok::<_, BenchError>(percent(replayed.misses))
    })?;
    let goal = Goal::RatioAtMost(1.0);
    let row = both.row(format!("{name}: misses"), "% of gets");
    report.rows.push(row.goal(goal));
    let ours = Measured::of(&both.ours);
    for (eviction, said) in [(Eviction::Lru, "LRU"), (Eviction::Fifo, "FIFO")] {
        let of = |key| trace.bytes_of(key);
        let bare = percent(misses(eviction, trace.memory.0, &trace.requests, of));
        let row = Row::new(
            format!("{name}: misses beside a bare {said}'s"),
            "% of gets",
            ours,
        );
        report.rows.push(row.against(Measured::once(bare)));
    }
    report.notes.push(format!(
        "{name}: {} copies side by side, values {:.1} times CacheLib's, {} gets, {} keys, {} each; \
         sets refused for want of memory: {}.",
        trace.copies,
        trace.factor,
        trace.requests.len(),
        trace.value_bytes.len(),
        trace.memory,
        refused.borrow().join(", ")
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_no_keys_and_keep_the_order() {
        let (requests, value_bytes) = side_by_side(&[7, 9, 7], 2, |id| id as u32);
        assert_eq!(requests, [0, 1, 2, 3, 0, 1]);
        assert_eq!(value_bytes, [7, 7, 9, 9]);
    }
}
