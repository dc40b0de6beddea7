//! A container thrashes at a memory limit of its own beside an arena that grows: the host has memory to spare, and the arena
//! grows as fast as without it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use sublet_types::Bytes;
use tempfile::NamedTempFile;

use super::super::group::Group;
use super::super::progress::Progress;
use super::super::report::{Goal, Measured, Report, Row};
use super::daemon::Daemon;
use super::{PressureError, Scale};

/// What the container may hold, and the file that it reads again and again.
const LIMIT: Bytes = Bytes::mib(96);
const FILE: Bytes = Bytes::mib(300);

/// What the arena grows back to.
const ARENA: Bytes = Bytes::gib(4);

/// An arena that is not back by then is held up.
const BACK_MAX: Duration = Duration::from_secs(60);

/// How much longer it may take.
const TIME_MAX: f64 = 1.25;

const PAIRS_MAX: usize = 5;

/// What runs meanwhile.
#[derive(Clone, Copy)]
enum Beside {
    Container,
    Nothing,
}

/// Pairs of runs; nothing but a note where no cgroup can be made.
pub(super) fn run(
    scale: &Scale,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), PressureError> {
    let pairs = scale.pairs.min(PAIRS_MAX);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    progress.expect(2 * pairs);
    for pair in 0..pairs {
        progress.say(format!(
            "an arena grows beside a container, pair {} of {pairs}",
            pair + 1
        ));
        for (beside, times) in [
            (Beside::Container, &mut with),
            (Beside::Nothing, &mut without),
        ] {
            let Some(time) = grow(beside)? else {
                report
                    .notes
                    .push("skipped: no cgroup with a limit can be made".into());
                return Ok(());
            };
            times.push(time);
            progress.step();
        }
    }
    let name = format!("an arena grows back to {ARENA} beside a container that thrashes: time");
    let row = Row::new(name, "ms", Measured::of(&with)).against(Measured::of(&without));
    report.rows.push(row.goal(Goal::RatioAtMost(TIME_MAX)));
    Ok(())
}

/// Milliseconds until an arena that has given all away is as large as before; nothing where no container can be.
fn grow(beside: Beside) -> Result<Option<f64>, PressureError> {
    let daemon = Daemon::start(None)?;
    daemon.fill_to(ARENA, BACK_MAX)?;
    let container = match beside {
        Beside::Nothing => None,
        Beside::Container => match Container::start() {
            Ok(container) => Some(container),
            Err(_) => return Ok(None),
        },
    };
    daemon.release_all()?;
    let time = daemon.fill_to(ARENA, BACK_MAX)?;
    drop(container);
    Ok(Some(time.unwrap_or(BACK_MAX).as_secs_f64() * 1000.0))
}

/// It ends with this.
struct Container {
    program: Child,
    _file: NamedTempFile,
    _group: Group,
}

impl Container {
    fn start() -> io::Result<Container> {
        let group = Group::make("container", LIMIT)?;
        let file = NamedTempFile::new_in("/var/tmp")?;
        fs::write(file.path(), vec![b'f'; FILE.0 as usize])?;
        // What stays in memory would be the bench's own, and the container would not miss it.
        file.as_file().sync_all()?;
        fadvise(file.as_file(), 0, None, Advice::DontNeed)?;
        let program = group.within(|| read_for_ever(file.path()));
        Ok(Container {
            program: program.map_err(io::Error::other)??,
            _file: file,
            _group: group,
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn read_for_ever(file: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", "while cat \"$1\" >/dev/null; do :; done", "sh"])
        .arg(file)
        .stderr(Stdio::null())
        .spawn()
}
