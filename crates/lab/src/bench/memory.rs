//! `sublet-lab bench memory`: how many items fit into the same memory.

use sublet_types::Bytes;

use super::error::BenchError;
use super::keyspace::Keyspace;
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
    /// Give each server this much memory (`-m`).
    #[arg(long, default_value = "512MiB")]
    memory: Bytes,
    /// Use keys of this many bytes.
    #[arg(long, default_value_t = 30)]
    key: usize,
    /// Use values of this many bytes.
    #[arg(long, default_value_t = 100)]
    value: usize,
}

/// Sublet is to keep this many times the peer's items.
const MORE_ITEMS: f64 = 1.25;

/// Stores twice as much as fits, then counts.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BenchError> {
    let keyspace = Keyspace::new(args.key.clamp(12, 250), args.value);
    let keys = 2 * args.memory.0 / keyspace.item_bytes() as u64;
    progress.expect(1);
    progress.show_message(format!("storing {keys} items in each"));
    let start = StartOptions {
        memory: args.memory,
        threads: 1,
        item_max: Bytes::mib(1),
    };
    let pair = ServerPair::start(&args.against, &start)?;
    pair.fill(&keyspace, u32::try_from(keys).unwrap_or(u32::MAX))?;
    progress.step();
    let items = pair.query(|server| server.statistic("curr_items"))?;
    let resident =
        pair.query(|server: &TestedServer| Ok::<_, BenchError>(mib(server.resident()?)))?;
    let density = per(&items, &resident);
    let name = |what: &str| format!("{} B keys, {} B values: {what}", args.key, args.value);
    let goal = Goal::RatioAtLeast(MORE_ITEMS);
    Ok(BenchReport {
        rows: vec![
            items.row(name("items kept"), "items").goal(goal),
            resident.row(name("process memory"), "MiB"),
            density
                .row(name("items per MiB of process memory"), "items/MiB")
                .goal(goal),
        ],
        notes: pair.notes()?,
        ..BenchReport::default()
    })
}

fn mib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 20)
}

fn per(items: &PairedRounds, amount: &PairedRounds) -> PairedRounds {
    let each = |items: &[f64], amount: &[f64]| {
        let pairs = items.iter().zip(amount);
        pairs.map(|(items, amount)| items / amount).collect()
    };
    PairedRounds {
        ours: each(&items.ours, &amount.ours),
        peer: each(&items.peer, &amount.peer),
    }
}
