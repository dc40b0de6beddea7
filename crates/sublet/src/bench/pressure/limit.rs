//! The same inside a cgroup with a limit, where the daemon and the program share it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use sublet_types::Bytes;

use super::super::progress::Progress;
use super::super::report::{Goal, Measured, Report, Row};
use super::daemon::Daemon;
use super::eater::{Eater, Pages};
use super::touch::{Pairs, touch_before};
use super::{PressureError, Scale};

const SETTLING: Duration = Duration::from_secs(1);

/// Pairs of runs within a limit; nothing but a note where no cgroup can be made.
pub(super) fn run(
    scale: &Scale,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), PressureError> {
    let group = match Group::make(scale.limit) {
        Ok(group) => group,
        Err(error) => {
            report.notes.push(format!(
                "skipped: no cgroup with a limit can be made: {error}"
            ));
            return Ok(());
        }
    };
    let take = Bytes(scale.limit.0 / 2);
    progress.expect(2 * scale.pairs);
    for pages in [Pages::Small, Pages::Huge] {
        let name = format!(
            "in a cgroup of {}, a program takes {take} in {}",
            scale.limit,
            pages.name()
        );
        let mut pairs = Pairs::default();
        let at_limit = group.times_at_limit();
        for pair in 0..scale.pairs {
            progress.say(format!("{name}, pair {} of {}", pair + 1, scale.pairs));
            touch_before(scale)?;
            let daemon = group.within(|| Daemon::start(None))??;
            daemon.fill()?;
            thread::sleep(SETTLING);
            let mut eater = group.within(|| Eater::start(take, pages))??;
            pairs.count(eater.take()?, true);
            drop((eater, daemon));
            thread::sleep(SETTLING);
            let mut eater = group.within(|| Eater::start(take, pages))??;
            pairs.count(eater.take()?, false);
            progress.step();
        }
        report.rows.push(pairs.time_row(&name));
        report.rows.push(pairs.killed_row(&name));
        let reached = Measured::once(group.times_at_limit().saturating_sub(at_limit) as f64);
        let row = Row::new(format!("{name}: at the limit"), "times", reached);
        report.rows.push(row.goal(Goal::OursAtMost(0.0)));
    }
    Ok(())
}

/// A cgroup of the bench's own; it goes with its owner.
struct Group {
    folder: PathBuf,
    /// Where this process belongs.
    home: PathBuf,
    /// The file that counts how often the limit was reached, and the word before the number.
    at_limit: (&'static str, &'static str),
}

/// A way to make one: where cgroups are, the file of the limit, and [`Group::at_limit`].
struct Kind {
    top: &'static str,
    limit: &'static str,
    at_limit: (&'static str, &'static str),
    /// In `/proc/self/cgroup`.
    controllers: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        top: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        at_limit: ("memory.failcnt", ""),
        controllers: "memory",
    },
    Kind {
        top: "/sys/fs/cgroup",
        limit: "memory.max",
        at_limit: ("memory.events", "max"),
        controllers: "",
    },
    Kind {
        top: "/sys/fs/cgroup/unified",
        limit: "memory.max",
        at_limit: ("memory.events", "max"),
        controllers: "",
    },
];

impl Group {
    fn make(limit: Bytes) -> io::Result<Group> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for kind in &KINDS {
            match Group::make_of(kind, limit) {
                Ok(group) => return Ok(group),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn make_of(kind: &Kind, limit: Bytes) -> io::Result<Group> {
        let memberships = fs::read_to_string("/proc/self/cgroup")?;
        let home = memberships
            .lines()
            .find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                (controllers == kind.controllers).then(|| path.trim_start_matches('/'))
            })
            .ok_or(io::ErrorKind::NotFound)?;
        let folder = Path::new(kind.top).join(format!("sublet-bench-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Group {
            folder,
            home: Path::new(kind.top).join(home),
            at_limit: kind.at_limit,
        };
        fs::write(group.folder.join(kind.limit), limit.0.to_string())?;
        Ok(group)
    }

    /// What `start` starts lives in the group; this process leaves it again.
    fn within<R>(&self, start: impl FnOnce() -> R) -> Result<R, GroupError> {
        enter(&self.folder)?;
        let started = start();
        enter(&self.home)?;
        Ok(started)
    }

    fn times_at_limit(&self) -> u64 {
        let (file, word) = self.at_limit;
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Why a process could not be put into a cgroup.
#[derive(Debug, thiserror::Error)]
#[error("cannot move into {}: {source}", folder.display())]
pub(crate) struct GroupError {
    folder: PathBuf,
    source: io::Error,
}

fn enter(folder: &Path) -> Result<(), GroupError> {
    let this = std::process::id().to_string();
    fs::write(folder.join("cgroup.procs"), this).map_err(|source| GroupError {
        folder: folder.to_owned(),
        source,
    })
}
