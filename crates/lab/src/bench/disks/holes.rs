//! Finds the holes of a disk over NBD, as `qemu-img` does. Sublet and qemu-nbd serve the same file and take turns. No
//! process is pinned to a core: on one core, qemu-nbd's threads would get in each other's way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use sublet_types::Bytes;

use super::super::folder::ScratchFolder;
use super::args::Args;
use super::disk_server::DiskServer;
use super::error::BlockError;
use super::program::output_of;
use crate::bench::paired_rounds::{PairedRounds, Side};
use crate::bench::progress::BenchProgress;
use crate::bench::report::{BenchRow, Goal};

/// Pages with bytes in the file that is mapped, and in the one that is copied.
const MAPPED: u64 = 10_000;
const COPIED: u64 = 20_000;

/// The most that `qemu-img` may take with Sublet, relative to qemu-nbd.
const GOAL: f64 = 1.5;

const PAGE: usize = 4096;

/// One page in this many has bytes.
const ONE_IN: u64 = 4;

/// The number of measurements.
pub(super) const STEPS: usize = 2;

/// Runs both measurements.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<Vec<BenchRow>, BlockError> {
    let map = measure("map", MAPPED, args, progress, |uri, _| {
        let map = output_of(Command::new("qemu-img").args(["map", "--output=json", uri]))?;
        // An extent for each page that has bytes, and one for each hole between.
        match map.lines().count() as u64 >= MAPPED {
            true => Ok(()),
            false => Err(io::Error::other("qemu-img map found too few extents")),
        }
    })?;
    let copy = measure("convert", COPIED, args, progress, |uri, to| {
        let to = to.as_os_str();
        output_of(
            Command::new("qemu-img")
                .args(["convert", "-f", "raw", "-O", "raw", uri])
                .arg(to),
        )?;
        std::fs::remove_file(to)
    })?;
    Ok(vec![map, copy])
}

fn measure(
    verb: &str,
    pages: u64,
    args: &Args,
    progress: &BenchProgress,
    work: impl Fn(&str, &Path) -> io::Result<()>,
) -> Result<BenchRow, BlockError> {
    progress.show_message(format!("NBD, qemu-img {verb}"));
    let folder = ScratchFolder::new()?;
    let image = folder.join("scattered.img");
    scatter(&image, pages)?;
    let size = Bytes(64 << 20);
    let ours = DiskServer::ours(&args.ours.program()?, &folder, &image, None, size)?;
    let peer = DiskServer::qemu_nbd(&folder, &image)?;
    let copy = folder.join("copy.img");
    let mut both = PairedRounds::default();
    for _ in 0..args.rounds.max(1) {
        for (served, side) in [(&ours, Side::Ours), (&peer, Side::Peer)] {
            let began = Instant::now();
            work(&served.uri(), &copy)?;
            both.push(side, began.elapsed().as_secs_f64() * 1e3);
        }
    }
    progress.step();
    let name = format!("NBD, qemu-img {verb} of {pages} scattered pages: time");
    Ok(both.row(name, "ms").goal(Goal::RatioAtMost(GOAL)))
}

/// Makes a file of holes with `pages` pages of bytes in it, none of them neighbours.
fn scatter(path: &Path, pages: u64) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(pages * ONE_IN * PAGE as u64)?;
    for page in 0..pages {
        file.write_all_at(&[7; PAGE], page * ONE_IN * PAGE as u64)?;
    }
    Ok(())
}
