//! `sublet-lab bench memory`: how many items fit into the same memory.

use sublet_types::Bytes;

use super::both::Both;
use super::error::BenchError;
use super::keyspace::Keyspace;
use super::pair::{Against, Pair};
use super::progress::Progress;
use super::report::{Goal, Report};
use super::subject::{Start, Subject};

/// What is stored.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: Against,
    /// Memory of each server (`-m`).
    #[arg(long, default_value = "512MiB")]
    memory: Bytes,
    /// Bytes of a key.
    #[arg(long, default_value_t = 30)]
    key: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value: usize,
}

/// How many times the peer's items we are to keep.
const MORE_ITEMS: f64 = 1.25;

/// Stores twice as much as fits, then counts.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    let keyspace = Keyspace::new(args.key.clamp(12, 250), args.value);
    let keys = 2 * args.memory.0 / keyspace.item_bytes() as u64;
    progress.expect(1);
    progress.say(format!("storing {keys} items in each"));
    let start = Start {
        memory: args.memory,
        threads: 1,
        item_max: Bytes::mib(1),
    };
    let pair = Pair::start(&args.against, &start)?;
    pair.fill(&keyspace, u32::try_from(keys).unwrap_or(u32::MAX))?;
    progress.step();
    let items = pair.ask(|subject| subject.statistic("curr_items"))?;
    let resident = pair.ask(|subject: &Subject| Ok::<_, BenchError>(mib(subject.resident()?)))?;
    let density = per(&items, &resident);
    let name = |what: &str| format!("{} B keys, {} B values: {what}", args.key, args.value);
    let goal = Goal::RatioAtLeast(MORE_ITEMS);
    Ok(Report {
        rows: vec![
            items.row(name("items kept"), "items").goal(goal),
            resident.row(name("process memory"), "MiB"),
            density
                .row(name("items per MiB of process memory"), "items/MiB")
                .goal(goal),
        ],
        notes: pair.notes()?,
        ..Report::default()
    })
}

fn mib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 20)
}

fn per(items: &Both, amount: &Both) -> Both {
    let each = |items: &[f64], amount: &[f64]| {
        let pairs = items.iter().zip(amount);
        pairs.map(|(items, amount)| items / amount).collect()
    };
    Both {
        ours: each(&items.ours, &amount.ours),
        peer: each(&items.peer, &amount.peer),
    }
}
