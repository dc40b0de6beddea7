//! The same test inside a cgroup with a limit that the daemon and the program share.

use std::thread;
use std::time::Duration;

use sublet_types::Bytes;

use super::super::cgroup::BenchCgroup;
use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::daemon::FilledDaemon;
use super::error::PressureError;
use super::memory_hog::{MemoryHog, PageSize};
use super::scale::TestScale;
use super::touch::{PairedRuns, SubletPresence, touch_before};

const SETTLING: Duration = Duration::from_secs(1);

/// Runs pairs within a limit. Only a note results if no cgroup can be made.
pub(super) fn run(
    scale: &TestScale,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), PressureError> {
    let group = match BenchCgroup::make("pressure", scale.limit) {
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
    for pages in [PageSize::Small, PageSize::Huge] {
        let name = format!(
            "in a cgroup of {}, a program takes {take} in {}",
            scale.limit,
            pages.name()
        );
        let mut pairs = PairedRuns::default();
        let at_limit = group.times_at_limit();
        for pair in 0..scale.pairs {
            progress.show_message(format!("{name}, pair {} of {}", pair + 1, scale.pairs));
            touch_before(scale)?;
            let daemon =
                group.within(|| FilledDaemon::start(&scale.sublet, None, scale.content))??;
            daemon.fill()?;
            thread::sleep(SETTLING);
            let mut hog = group.within(|| MemoryHog::start(take, pages))??;
            pairs.count(hog.take_memory()?, SubletPresence::Present);
            drop((hog, daemon));
            thread::sleep(SETTLING);
            let mut hog = group.within(|| MemoryHog::start(take, pages))??;
            pairs.count(hog.take_memory()?, SubletPresence::Absent);
            progress.step();
        }
        report.rows.push(pairs.time_row(&name));
        report.rows.push(pairs.killed_row(&name));
        let reached = RoundsSummary::once(group.times_at_limit().saturating_sub(at_limit) as f64);
        let row = BenchRow::new(format!("{name}: at the limit"), "times", reached);
        report.rows.push(row.goal(Goal::OursAtMost(0.0)));
    }
    Ok(())
}
