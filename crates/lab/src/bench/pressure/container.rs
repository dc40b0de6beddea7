//! A container thrashes at its own memory limit beside an arena that grows. The host has memory to spare, and the arena
//! grows as fast as without the container.

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

use super::super::cgroup::BenchCgroup;
use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::daemon::{ArenaContent, FilledDaemon};
use super::error::PressureError;
use super::scale::TestScale;

/// The container's limit, and the size of the file that it reads again and again.
const LIMIT: Bytes = Bytes::mib(96);
const FILE: Bytes = Bytes::mib(300);

/// What the arena grows back to.
const ARENA: Bytes = Bytes::gib(4);

/// An arena that is not back after this time was held up.
const BACK_MAX: Duration = Duration::from_secs(60);

/// How many times longer the growth may take beside the container.
const TIME_MAX: f64 = 1.25;

const PAIRS_MAX: usize = 5;

/// What runs meanwhile.
#[derive(Clone, Copy)]
enum Neighbour {
    Container,
    Nothing,
}

/// Runs the pairs. Only a note results if no cgroup can be made.
pub(super) fn run(
    scale: &TestScale,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), PressureError> {
    let pairs = scale.pairs.min(PAIRS_MAX);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    progress.expect(2 * pairs);
    for pair in 0..pairs {
        progress.show_message(format!(
            "an arena grows beside a container, pair {} of {pairs}",
            pair + 1
        ));
        for (beside, times) in [
            (Neighbour::Container, &mut with),
            (Neighbour::Nothing, &mut without),
        ] {
            let Some(grown) = grow(&scale.sublet, scale.content, beside)? else {
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
enum Regrowth {
    Within(Duration),
    /// It was not back after [`BACK_MAX`].
    Not,
}

/// The rows. One row has the times. Runs that gave up have no time: two of them would look alike, and another row
/// counts them.
fn rows(with: &[Regrowth], without: &[Regrowth]) -> [BenchRow; 2] {
    let millis = |grown: &Regrowth| match grown {
        Regrowth::Within(time) => time.as_secs_f64() * 1000.0,
        Regrowth::Not => BACK_MAX.as_secs_f64() * 1000.0,
    };
    let measured =
        |all: &[Regrowth]| RoundsSummary::of(&all.iter().map(millis).collect::<Vec<_>>());
    let all = with.iter().chain(without);
    let gave_up = all.filter(|grown| matches!(grown, Regrowth::Not)).count();
    let name = format!("an arena grows back to {ARENA} beside a container that thrashes");
    let times = BenchRow::new(format!("{name}: time"), "ms", measured(with));
    let failed = RoundsSummary::of(&[gave_up as f64]);
    let failed = BenchRow::new(format!("{name}, or alone: not within 60 s"), "runs", failed);
    [
        times
            .against(measured(without))
            .goal(Goal::RatioAtMost(TIME_MAX)),
        failed.goal(Goal::OursAtMost(0.0)),
    ]
}

/// How an arena that has given all away grows as large as before. Nothing if no container can be made.
fn grow(
    sublet: &Path,
    content: ArenaContent,
    beside: Neighbour,
) -> Result<Option<Regrowth>, PressureError> {
    let daemon = FilledDaemon::start(sublet, None, content)?;
    daemon.fill_to(ARENA, BACK_MAX)?;
    let container = match beside {
        Neighbour::Nothing => None,
        Neighbour::Container => match Container::start() {
            Ok(container) => Some(container),
            Err(_) => return Ok(None),
        },
    };
    daemon.release_all()?;
    let time = daemon.fill_to(ARENA, BACK_MAX)?;
    drop(container);
    Ok(Some(time.map_or(Regrowth::Not, Regrowth::Within)))
}

/// A container. It ends when this is dropped.
struct Container {
    program: Child,
    _file: NamedTempFile,
    _group: BenchCgroup,
}

impl Container {
    fn start() -> io::Result<Container> {
        Container::start_in(BenchCgroup::make("container", LIMIT)?, FILE)
    }

    fn start_in(group: BenchCgroup, size: Bytes) -> io::Result<Container> {
        let file = NamedTempFile::new_in("/var/tmp")?;
        fs::write(file.path(), vec![b'f'; size.0 as usize])?;
        // What stays in memory would belong to the bench, and the container would not miss it.
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
        // Kills its children too: they are in the cgroup as well.
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
        let second = Regrowth::Within(Duration::from_secs(1));
        assert_eq!(hold(second, second), [true, true]);
        assert!(!hold(Regrowth::Not, Regrowth::Not)[1]);
        assert!(!hold(second, Regrowth::Not)[1]);
        assert_eq!(hold(Regrowth::Not, second), [false, false]);
    }

    #[test]
    fn a_container_takes_its_programs_and_its_cgroup_with_it() {
        let Ok(group) = BenchCgroup::make("tested", Bytes::mib(32)) else {
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
