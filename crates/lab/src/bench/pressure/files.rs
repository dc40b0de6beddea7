//! A program reads the same files again and again: the page cache is the owner's.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags, fadvise};
use sublet_types::Bytes;

use super::super::progress::Progress;
use super::super::report::{Goal, Measured, Report, Row};
use super::daemon::Daemon;
use super::error::{FilesError, PressureError};
use super::scale::Scale;

/// The share of its speed that a reader keeps beside Sublet.
const SPEED_MIN: f64 = 0.95;
/// Where files of some size may lie.
const FOLDER: &str = "/var/tmp";
const FILE: Bytes = Bytes::mib(64);
const PIECE: usize = 1 << 20;
/// Passes after the first, which reads from the disk.
const PASSES: usize = 10;
const PAIRS_MAX: usize = 7;
const SETTLING: Duration = Duration::from_secs(1);

/// Reads with and without Sublet.
pub(super) fn run(
    scale: &Scale,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), PressureError> {
    let pairs = scale.pairs.min(PAIRS_MAX);
    progress.expect(pairs);
    progress.say(format!("making files of {}", scale.files));
    let files = Files::make(scale.files)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        progress.say(format!(
            "reading {} again and again, pair {} of {pairs}",
            scale.files,
            pair + 1
        ));
        files.forget()?;
        let daemon = Daemon::start(&scale.sublet, scale.arena)?;
        daemon.fill()?;
        thread::sleep(SETTLING);
        with.push(files.read_again_and_again()?);
        drop(daemon);
        files.forget()?;
        thread::sleep(SETTLING);
        without.push(files.read_again_and_again()?);
        progress.step();
    }
    let name = format!("a program reads {} of files", scale.files);
    let of = |speeds: &[Speeds], which: fn(&Speeds) -> f64| {
        Measured::of(&speeds.iter().map(which).collect::<Vec<_>>())
    };
    let row = |what: &str, which: fn(&Speeds) -> f64| {
        Row::new(format!("{name}: {what}"), "GiB/s", of(&with, which)).against(of(&without, which))
    };
    report
        .rows
        .push(row("the first time", |speeds| speeds.first));
    let again = row("again", |speeds| speeds.again);
    report.rows.push(again.goal(Goal::RatioAtLeast(SPEED_MIN)));
    Ok(())
}

/// Files without a name: they vanish with the bench, however it ends.
struct Files(Vec<File>);

/// Gibibytes a second.
#[derive(Clone, Copy, Debug)]
struct Speeds {
    first: f64,
    again: f64,
}

impl Files {
    fn make(amount: Bytes) -> Result<Files, FilesError> {
        let files = (0..amount.0.div_ceil(FILE.0)).map(|_| make_one());
        let files: io::Result<Vec<File>> = files.collect();
        Ok(Files(files.map_err(|error| {
            FilesError::Make(amount, FOLDER, error)
        })?))
    }

    /// Drops them from the page cache.
    fn forget(&self) -> Result<(), FilesError> {
        self.0.iter().try_for_each(|file| {
            let dropped = fadvise(file, 0, None, Advice::DontNeed);
            dropped.map_err(|error| FilesError::Read(error.into()))
        })
    }

    fn read_again_and_again(&self) -> Result<Speeds, FilesError> {
        let first = self.read_all()?;
        let mut again = 0.0;
        for _ in 0..PASSES {
            again += self.read_all()?;
        }
        let amount = self.0.len() as f64 * FILE.0 as f64 / f64::from(1 << 30);
        Ok(Speeds {
            first: amount / first,
            again: amount * PASSES as f64 / again,
        })
    }

    /// Seconds for one pass.
    fn read_all(&self) -> Result<f64, FilesError> {
        let begun = Instant::now();
        let mut piece = vec![0; PIECE];
        for file in &self.0 {
            for at in (0..FILE.0).step_by(PIECE) {
                file.read_exact_at(&mut piece, at)
                    .map_err(FilesError::Read)?;
            }
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}

fn make_one() -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::TMPFILE.bits() as i32)
        .open(FOLDER)?;
    let piece = vec![b'f'; PIECE];
    for _ in 0..FILE.0 / PIECE as u64 {
        file.write_all(&piece)?;
    }
    // Only what is on the disk can be dropped from the page cache.
    file.sync_all()?;
    Ok(file)
}
