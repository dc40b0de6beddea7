//! The same inside a cgroup with a limit, where the daemon and the program share it.

use std::thread;
use std::time::Duration;

use sublet_types::Bytes;

use super::super::group::Group;
use super::super::progress::Progress;
use super::super::report::{Goal, Measured, Report, Row};
use super::daemon::Daemon;
use super::eater::{Eater, Pages};
use super::error::PressureError;
use super::scale::Scale;
use super::touch::{Pairs, touch_before};

const SETTLING: Duration = Duration::from_secs(1);

/// Pairs of runs within a limit; nothing but a note where no cgroup can be made.
pub(super) fn run(
    scale: &Scale,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), PressureError> {
    let group = match Group::make("pressure", scale.limit) {
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
            let daemon = group.within(|| Daemon::start(&scale.sublet, None))??;
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
