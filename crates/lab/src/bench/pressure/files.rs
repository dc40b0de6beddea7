//! A program reads the same files again and again: the page cache belongs to the owner.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags, fadvise};
use sublet_types::Bytes;

use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::daemon::FilledDaemon;
use super::error::{FilesError, PressureError};
use super::scale::TestScale;

/// The share of its speed that a reader keeps beside Sublet.
const SPEED_MIN: f64 = 0.95;
/// Files of some size lie here.
const FOLDER: &str = "/var/tmp";
const FILE: Bytes = Bytes::mib(64);
const PIECE: usize = 1 << 20;
/// Passes after the first one, which reads from the disk.
const PASSES: usize = 10;
const PAIRS_MAX: usize = 7;
const SETTLING: Duration = Duration::from_secs(1);

/// Reads with and without Sublet.
pub(super) fn run(
    scale: &TestScale,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), PressureError> {
    let pairs = scale.pairs.min(PAIRS_MAX);
    progress.expect(pairs);
    progress.show_message(format!("making files of {}", scale.files));
    let files = UnnamedFiles::make(scale.files)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        progress.show_message(format!(
            "reading {} again and again, pair {} of {pairs}",
            scale.files,
            pair + 1
        ));
        files.forget()?;
        let daemon = FilledDaemon::start(&scale.sublet, scale.arena, scale.content)?;
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
    let of = |speeds: &[ReadSpeeds], which: fn(&ReadSpeeds) -> f64| {
        RoundsSummary::of(&speeds.iter().map(which).collect::<Vec<_>>())
    };
    let row = |what: &str, which: fn(&ReadSpeeds) -> f64| {
        BenchRow::new(format!("{name}: {what}"), "GiB/s", of(&with, which))
            .against(of(&without, which))
    };
    report
        .rows
        .push(row("the first time", |speeds| speeds.first));
    let again = row("again", |speeds| speeds.again);
    report.rows.push(again.goal(Goal::RatioAtLeast(SPEED_MIN)));
    Ok(())
}

/// Files without a name. They vanish with the bench, however it ends.
struct UnnamedFiles(Vec<File>);

/// Reading speeds in gibibytes per second.
#[derive(Clone, Copy, Debug)]
struct ReadSpeeds {
    first: f64,
    again: f64,
}

impl UnnamedFiles {
    fn make(amount: Bytes) -> Result<UnnamedFiles, FilesError> {
        let files = (0..amount.0.div_ceil(FILE.0)).map(|_| make_one());
        let files: io::Result<Vec<File>> = files.collect();
        Ok(UnnamedFiles(files.map_err(|error| {
            FilesError::Make(amount, FOLDER, error)
        })?))
    }

    /// Drops the files from the page cache.
    fn forget(&self) -> Result<(), FilesError> {
        self.0.iter().try_for_each(|file| {
            let dropped = fadvise(file, 0, None, Advice::DontNeed);
            dropped.map_err(|error| FilesError::Read(error.into()))
        })
    }

    fn read_again_and_again(&self) -> Result<ReadSpeeds, FilesError> {
        let first = self.read_all()?;
        let mut again = 0.0;
        for _ in 0..PASSES {
            again += self.read_all()?;
        }
        let amount = self.0.len() as f64 * FILE.0 as f64 / f64::from(1 << 30);
        Ok(ReadSpeeds {
            first: amount / first,
            again: amount * PASSES as f64 / again,
        })
    }

    /// Reads all once. Returns the seconds.
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
    // The page cache can drop only what is on the disk.
    file.sync_all()?;
    Ok(file)
}
