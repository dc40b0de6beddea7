//! Loads on a disk that answers after 4 ms: with memory for a part of it, and with next to none.
//!
//! fio reads the disk itself over NBD. PostgreSQL and the walk over a source tree use a file system on the disk, which
//! this host's kernel mounts (`mounted`). They run in a cgroup that has an eighth of the disk for their page cache.
//! What passes the page cache reaches the disk, and the disk's own counts show it.

pub(in crate::bench) mod load;
mod needs;
pub(super) mod options;
mod page_reads;
mod postgres;
pub(in crate::bench) mod sides;
pub(in crate::bench) mod sweep;
pub(super) mod tree;

use super::super::folder::ScratchFolder;
use super::super::progress::BenchProgress;
use super::super::report::BenchReport;
use super::args::Args;
use super::error::BlockError;
use sides::{ComparisonParameters, FioDraws, PartlyCachedDisk, page_cache};
use sweep::SweepResults;

/// Tries every load with every amount of memory.
pub(super) fn run(
    args: &Args,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), BlockError> {
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
        report.notes.extend(load.remark(args.size));
        let folder = ScratchFolder::new()?;
        let image = load.image(&folder, args.size)?;
        let mut sweep = SweepResults::default();
        for share in &args.slow.shares {
            progress.show_message(format!("slow disk, {}, memory for {share} %", load.name()));
            let disk = PartlyCachedDisk {
                sublet: &sublet,
                image: &image,
                size: args.size,
                share: *share,
            };
            let bench = ComparisonParameters {
                size: args.size,
                seconds: args.seconds,
                rounds: args.rounds,
                draws: FioDraws::Once,
                sides: &|| disk.sides(),
            };
            sweep.add(*share, load.compare(&bench)?);
            progress.step();
        }
        report.rows.extend(sweep.rows());
        report.charts.extend(sweep.charts());
    }
    Ok(())
}
