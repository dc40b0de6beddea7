//! Loads on a disk that answers after 4 ms: with memory for a part of it, and with next to none.
//!
//! fio reads the disk itself over NBD. PostgreSQL and the walk over a source tree have a file system on it, mounted
//! by this host's kernel ([`Mounted`]), in a cgroup with an eighth of the disk for their page cache. What passes that reaches the disk, whose own counts
//! show it.

mod load;
mod needs;
mod postgres;
mod sweep;
mod tree;

use std::fs;
use std::path::Path;
use std::process::Command;

use sublet_types::Bytes;

use super::super::group::{Group, GroupError};
use super::super::progress::Progress;
use super::super::report::Report;
use super::mounted::Mounted;
use super::program::told;
use super::served::{Folder, Served};
use super::{Args, BlockError};
use load::Load;
use sweep::Sweep;
pub(crate) use tree::TreeError;

/// How slow the disk is.
const SLOW: &str = "4ms, 100MB/s";

/// What memory the peer's daemon has for the disk: the least that it takes, with what it needs beside.
const BARE: Bytes = Bytes::mib(2);

/// What the page cache of a guest may hold of the disk: one part of so many.
const GUEST_PART: u64 = 8;

/// What is loaded, and how much memory is tried.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Loads on the slow disk, with commas between.
    #[arg(long = "load", value_name = "LOAD", value_enum, value_delimiter = ',', default_values_t = Load::ALL)]
    loads: Vec<Load>,
    /// Parts of the slow disk that memory may hold, in per cent, with commas between.
    #[arg(long = "memory", value_name = "PERCENT", value_delimiter = ',', default_values_t = [5, 10, 25, 50], value_parser = clap::value_parser!(u64).range(1..=100))]
    shares: Vec<u64>,
}

impl Options {
    /// Steps of the progress bar.
    pub(super) fn steps(&self) -> usize {
        self.loads.len() * self.shares.len()
    }
}

/// Tries every load with every amount of memory.
pub(super) fn run(args: &Args, progress: &Progress, report: &mut Report) -> Result<(), BlockError> {
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
                args,
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

/// What a comparison has to know.
struct Bench<'a> {
    args: &'a Args,
    /// What is on the disk.
    image: &'a Path,
    share: u64,
}

impl Bench<'_> {
    /// Serves the same disk twice: with memory for its share, and with next to none.
    fn sides(&self) -> Result<[Side; 2], BlockError> {
        let memory = Bytes(self.args.size.0 * self.share / 100);
        Ok([self.side(memory)?, self.side(BARE)?])
    }

    fn side(&self, memory: Bytes) -> Result<Side, BlockError> {
        let folder = Folder::new()?;
        let image = folder.join("ours.img");
        fs::copy(self.image, &image)?;
        Ok(Side {
            served: Served::ours(&folder, &image, Some(SLOW), memory)?,
            folder,
        })
    }
}

/// One of two disks that hold the same.
struct Side {
    // In the order in which they end.
    served: Served,
    folder: Folder,
}

/// A disk's file system, and the cgroup of those who use it.
struct Guest {
    mounted: Mounted,
    group: Group,
}

impl Guest {
    /// Mounts a side's disk.
    fn on(side: &Side, name: &str, memory: Bytes) -> Result<Guest, BlockError> {
        Ok(Guest {
            mounted: Mounted::on(&side.served, &side.folder)?,
            group: Group::make(name, memory)?,
        })
    }

    /// What `work` reads and starts belongs to the cgroup.
    fn within<R>(&self, work: impl FnOnce() -> R) -> Result<R, GroupError> {
        self.group.within(work)
    }
}

/// What is there for the page cache of whoever uses the disk's file system.
fn page_cache(size: Bytes) -> Bytes {
    Bytes(size.0 / GUEST_PART)
}

/// A file system of `size` in the file `image`, with what lies in `top`.
fn file_system(image: &Path, size: Bytes, top: &Path) -> Result<(), BlockError> {
    let mut command = Command::new("mkfs.ext4");
    // All of it at once, so that the kernel has nothing to make later.
    command.args([
        "-q",
        "-F",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0",
        "-d",
    ]);
    command
        .arg(top)
        .arg(image)
        .arg(format!("{}k", size.0 >> 10));
    told(&mut command)?;
    Ok(())
}
