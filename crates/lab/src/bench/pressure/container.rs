//! A container thrashes at a memory limit of its own beside an arena that grows: the host has memory to spare, and the arena
//! grows as fast as without it.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, kill_process_group};
use sublet_types::Bytes;
use tempfile::NamedTempFile;

use super::super::group::Group;
use super::super::progress::Progress;
use super::super::report::{Goal, Measured, Report, Row};
use super::daemon::Daemon;
use super::error::PressureError;
use super::scale::Scale;

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
            let Some(grown) = grow(&scale.sublet, beside)? else {
                report
                    .notes
                    .push("skipped: no cgroup with a limit can be made".into());
                return Ok(());
            };
            times.push(grown);
            progress.step();
        }
    }
    report.rows.extend(rows(&with, &without));
    Ok(())
}

/// How an arena grew back.
#[derive(Clone, Copy)]
enum Grown {
    Within(Duration),
    /// It was not back after [`BACK_MAX`].
    Not,
}

/// One row tells times. Runs that gave up have none: two of them would look alike, and another row counts them.
fn rows(with: &[Grown], without: &[Grown]) -> [Row; 2] {
    let millis = |grown: &Grown| match grown {
        Grown::Within(time) => time.as_secs_f64() * 1000.0,
        Grown::Not => BACK_MAX.as_secs_f64() * 1000.0,
    };
    let measured = |all: &[Grown]| Measured::of(&all.iter().map(millis).collect::<Vec<_>>());
    let all = with.iter().chain(without);
    let gave_up = all.filter(|grown| matches!(grown, Grown::Not)).count();
    let name = format!("an arena grows back to {ARENA} beside a container that thrashes");
    let times = Row::new(format!("{name}: time"), "ms", measured(with));
    let failed = Measured::of(&[gave_up as f64]);
    let failed = Row::new(format!("{name}, or alone: not within 60 s"), "runs", failed);
    [
        times
            .against(measured(without))
            .goal(Goal::RatioAtMost(TIME_MAX)),
        failed.goal(Goal::OursAtMost(0.0)),
    ]
}

/// How an arena that has given all away grows as large as before; nothing where no container can be.
fn grow(sublet: &Path, beside: Beside) -> Result<Option<Grown>, PressureError> {
    let daemon = Daemon::start(sublet, None)?;
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
    Ok(Some(time.map_or(Grown::Not, Grown::Within)))
}

/// It ends with this.
struct Container {
    program: Child,
    _file: NamedTempFile,
    _group: Group,
}

impl Container {
    fn start() -> io::Result<Container> {
        Container::start_in(Group::make("container", LIMIT)?, FILE)
    }

    fn start_in(group: Group, size: Bytes) -> io::Result<Container> {
        let file = NamedTempFile::new_in("/var/tmp")?;
        fs::write(file.path(), vec![b'f'; size.0 as usize])?;
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
        // With its children: they are in the cgroup as well.
        let all = Pid::from_child(&self.program);
        let _ = kill_process_group(all, Signal::KILL);
        let _ = self.program.wait();
    }
}

fn read_for_ever(file: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", "while cat \"$1\" >/dev/null; do :; done", "sh"])
        .arg(file)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_give_up_do_not_hold() {
        let hold = |with, without| rows(&[with], &[without]).map(|row| row.holds() == Some(true));
        let second = Grown::Within(Duration::from_secs(1));
        assert_eq!(hold(second, second), [true, true]);
        assert!(!hold(Grown::Not, Grown::Not)[1]);
        assert!(!hold(second, Grown::Not)[1]);
        assert_eq!(hold(Grown::Not, second), [false, false]);
    }

    #[test]
    fn a_container_takes_its_programs_and_its_cgroup_with_it() {
        let Ok(group) = Group::make("tested", Bytes::mib(32)) else {
            eprintln!("skipped: no cgroup with a limit can be made");
            return;
        };
        let folder = group.folder().to_owned();
        let container = Container::start_in(group, Bytes::mib(64)).expect("started");
        let members = || fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while members().lines().count() < 2 {
            assert!(
                std::time::Instant::now() < until,
                "its program has no child"
            );
        }
        drop(container);
        assert!(!folder.exists());
    }
}
