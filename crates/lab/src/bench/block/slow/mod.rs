//! Loads on a disk that answers after 4 ms: with memory for a part of it, and with next to none.
//!
//! fio reads the disk itself over NBD. PostgreSQL and the walk over a source tree have a file system on it, mounted
//! by this host's kernel (`mounted`), in a cgroup with an eighth of the disk for their page cache. What passes that reaches the disk, whose own counts
//! show it.

mod load;
mod needs;
pub(super) mod options;
mod postgres;
mod sides;
mod sweep;
pub(super) mod tree;

use super::super::folder::Folder;
use super::super::progress::Progress;
use super::super::report::Report;
use super::args::Args;
use super::error::BlockError;
use sides::{Bench, page_cache};
use sweep::Sweep;

/// Tries every load with every amount of memory.
pub(super) fn run(args: &Args, progress: &Progress, report: &mut Report) -> Result<(), BlockError> {
    let sublet = args.ours.program()?;
    report.notes.push(format!(
        "The slow disk answers after 4 ms, at 100 MB/s; the peer is the same disk through the same daemon with the \
         least memory that it takes. pgbench and the tree walk run on this host, on ext4 over a loop device over \
         nbdfuse, in a cgroup with {} for their page cache.",
        page_cache(args.size)
    ));
    for load in &args.slow.loads {
        if let Some(missing) = load.missing() {
            let skipped = format!("skipped: {}: {missing}", load.name());
            report.notes.push(skipped);
            args.slow.shares.iter().for_each(|_| progress.step());
            continue;
        }
        report.notes.extend(load.note(args.size));
        let folder = Folder::new()?;
        let image = load.image(&folder, args.size)?;
        let mut sweep = Sweep::default();
        for share in &args.slow.shares {
            progress.say(format!("slow disk, {}, memory for {share} %", load.name()));
            let bench = Bench {
                sublet: &sublet,
                size: args.size,
                seconds: args.seconds,
                rounds: args.rounds,
                image: &image,
                share: *share,
            };
            sweep.add(*share, load.compare(&bench)?);
            progress.step();
        }
        report.rows.extend(sweep.rows());
        report.charts.extend(sweep.charts());
    }
    Ok(())
}
