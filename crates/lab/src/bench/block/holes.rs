//! Finding the holes of a disk over NBD, as `qemu-img` does: ours and qemu-nbd, of the same file, in turns. Nobody is
//! pinned to a core: on one, qemu-nbd's threads would stand in each other's way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use sublet_types::Bytes;

use super::super::folder::Folder;
use super::args::Args;
use super::error::BlockError;
use super::program::told;
use super::served::Served;
use crate::bench::both::Both;
use crate::bench::progress::Progress;
use crate::bench::report::{Goal, Row};

/// Pages with bytes in the file that is mapped, and in the one that is copied.
const MAPPED: u64 = 10_000;
const COPIED: u64 = 20_000;

/// What `qemu-img` may take with us, of what it takes with qemu-nbd.
const GOAL: f64 = 1.5;

const PAGE: usize = 4096;

/// One such page in so many.
const ONE_IN: u64 = 4;

/// What is measured.
pub(super) const STEPS: usize = 2;

/// Both measurements.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Vec<Row>, BlockError> {
    let map = measure("map", MAPPED, args, progress, |uri, _| {
        let map = told(Command::new("qemu-img").args(["map", "--output=json", uri]))?;
        // An extent for each page that has bytes and one for each hole between.
        match map.lines().count() as u64 >= MAPPED {
            true => Ok(()),
            false => Err(io::Error::other("qemu-img map found too few extents")),
        }
    })?;
    let copy = measure("convert", COPIED, args, progress, |uri, to| {
        let to = to.as_os_str();
        told(
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
    progress: &Progress,
    work: impl Fn(&str, &Path) -> io::Result<()>,
) -> Result<Row, BlockError> {
    progress.say(format!("NBD, qemu-img {verb}"));
    let folder = Folder::new()?;
    let image = folder.join("scattered.img");
    scatter(&image, pages)?;
    let size = Bytes(64 << 20);
    let ours = Served::ours(&args.ours.program()?, &folder, &image, None, size)?;
    let peer = Served::qemu_nbd(&folder, &image)?;
    let copy = folder.join("copy.img");
    let mut both = Both::default();
    for _ in 0..args.rounds.max(1) {
        for (served, is_ours) in [(&ours, true), (&peer, false)] {
            let began = Instant::now();
            work(&served.uri(), &copy)?;
            both.push(is_ours, began.elapsed().as_secs_f64() * 1e3);
        }
    }
    progress.step();
    let name = format!("NBD, qemu-img {verb} of {pages} scattered pages: time");
    Ok(both.row(name, "ms").goal(Goal::RatioAtMost(GOAL)))
}

/// A file of holes with so many pages of bytes in it, none beside another.
fn scatter(path: &Path, pages: u64) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(pages * ONE_IN * PAGE as u64)?;
    for page in 0..pages {
        file.write_all_at(&[7; PAGE], page * ONE_IN * PAGE as u64)?;
    }
    Ok(())
}
