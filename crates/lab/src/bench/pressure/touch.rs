//! A program takes memory as fast as it can, with and without Sublet.

use std::thread;
use std::time::Duration;

use sublet_types::Bytes;

use super::super::chart::{Chart, ChartCurve};
use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::daemon::{FilledDaemon, resident};
use super::error::PressureError;
use super::memory_hog::{MemoryHog, PageSize, TakeOutcome};
use super::scale::TestScale;
use super::vitals::{PressureHarm, VitalsSample, figures, least_available, watch};

/// The most that taking memory may cost beside Sublet, relative to without.
const SLOWER_MAX: f64 = 1.25;
/// The arena must be back within this time.
const REGROWN_SECS: f64 = 60.0;
/// The arena counts as back at this share of what it was.
const REGROWN_SHARE: f64 = 0.95;
/// Stands for "never": longer than anybody waits.
const GIVEN_UP: Duration = Duration::from_secs(180);
/// Memory that is not touched beforehand: what the kernel keeps, and room for what runs.
const UNTOUCHED: Bytes = Bytes::mib(256);
/// The time for the host to come to rest.
const SETTLING: Duration = Duration::from_secs(1);
/// How long the watch goes on after the memory was taken.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// Touches memory before a pair of runs. In a virtual machine, the first touch of memory is ten times as slow as all
/// later ones. So each pair of runs begins with memory that was touched just now.
pub(super) fn touch_before(scale: &TestScale) -> Result<(), PressureError> {
    let available = figures()?.available - UNTOUCHED;
    let amount = match scale.arena {
        Some(arena) => available.min(arena + scale.take * 2),
        None => available,
    };
    MemoryHog::start(amount, PageSize::Huge)?.take_memory()?;
    thread::sleep(SETTLING);
    Ok(())
}

/// Runs pairs with small and with huge pages, and measures how soon the arena is back.
pub(super) fn run(
    scale: &TestScale,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), PressureError> {
    progress.expect(2 * scale.pairs);
    for pages in [PageSize::Small, PageSize::Huge] {
        let name = format!("a program takes {} in {}", scale.take, pages.name());
        let mut pairs = PairedRuns::default();
        for pair in 0..scale.pairs {
            progress.show_message(format!("{name}, pair {} of {}", pair + 1, scale.pairs));
            touch_before(scale)?;
            pairs.with(scale, pages)?;
            pairs.without(scale, pages)?;
            progress.step();
        }
        pairs.report(&name, report);
    }
    Ok(())
}

/// Whether a Sublet with a full arena runs beside the program that takes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubletPresence {
    /// One runs.
    Present,
    /// None runs.
    Absent,
}

/// The runs of one kind.
#[derive(Default)]
pub(super) struct PairedRuns {
    with: Vec<f64>,
    without: Vec<f64>,
    killed: u64,
    harm: PressureHarm,
    harm_without: PressureHarm,
    regrown: Vec<f64>,
    samples: Vec<VitalsSample>,
}

impl PairedRuns {
    /// Makes one run beside a full arena. The first run also waits for the arena to come back.
    fn with(&mut self, scale: &TestScale, pages: PageSize) -> Result<(), PressureError> {
        let daemon = FilledDaemon::start(&scale.sublet, scale.arena, scale.content)?;
        let full = daemon.fill()?;
        thread::sleep(SETTLING);
        let process = daemon.id();
        let mut hog = MemoryHog::start(scale.take, pages)?;
        let (taken, watched) = watch(
            || resident(process),
            || {
                let taken = hog.take_memory();
                thread::sleep(AFTERWARDS);
                taken
            },
        )?;
        self.harm.add(watched.harm);
        self.count(taken?, SubletPresence::Present);
        drop(hog);
        if self.regrown.is_empty() {
            self.samples = watched.samples;
            let back = Bytes((full.0 as f64 * REGROWN_SHARE) as u64);
            let regrown = daemon.fill_to(back, GIVEN_UP)?.unwrap_or(GIVEN_UP);
            self.regrown.push(regrown.as_secs_f64());
        }
        Ok(())
    }

    fn without(&mut self, scale: &TestScale, pages: PageSize) -> Result<(), PressureError> {
        thread::sleep(SETTLING);
        let mut hog = MemoryHog::start(scale.take, pages)?;
        // This run is watched as closely as the other one, because watching takes time too.
        let (taken, watched) = watch(
            || resident(std::process::id()),
            || {
                let taken = hog.take_memory();
                thread::sleep(AFTERWARDS);
                taken
            },
        )?;
        self.harm_without.add(watched.harm);
        self.count(taken?, SubletPresence::Absent);
        Ok(())
    }

    /// Counts how taking memory ended.
    pub(super) fn count(&mut self, taken: TakeOutcome, sublet: SubletPresence) {
        match (taken, sublet) {
            (TakeOutcome::In(time), SubletPresence::Present) => {
                self.with.push(time.as_secs_f64() * 1e3)
            }
            (TakeOutcome::In(time), SubletPresence::Absent) => {
                self.without.push(time.as_secs_f64() * 1e3)
            }
            (TakeOutcome::Killed, SubletPresence::Present) => self.killed += 1,
            (TakeOutcome::Killed, SubletPresence::Absent) => {}
        }
    }

    /// Adds rows and a chart.
    fn report(&self, name: &str, report: &mut BenchReport) {
        report.rows.push(self.time_row(name));
        report.rows.push(self.killed_row(name));
        let counted = |what: &str, ours: u64, peer: u64| {
            BenchRow::new(format!("{name}: {what}"), "", once(ours))
                .against(once(peer))
                .goal(Goal::OursAtMost(0.0))
        };
        report.rows.push(counted(
            "allocstall",
            self.harm.stalls,
            self.harm_without.stalls,
        ));
        report.rows.push(counted(
            "pswpout",
            self.harm.swapped_out,
            self.harm_without.swapped_out,
        ));
        let regrown = BenchRow::new(
            format!("{name}: arena back after"),
            "s",
            RoundsSummary::of(&self.regrown),
        );
        report
            .rows
            .push(regrown.goal(Goal::OursAtMost(REGROWN_SECS)));
        let least = least_available(&self.samples);
        let row = BenchRow::new(format!("{name}: least MemAvailable"), "MiB", mib(least));
        report.rows.push(row);
        report.charts.push(chart(name, &self.samples));
    }

    /// The row of how long it took, with and without Sublet.
    pub(super) fn time_row(&self, name: &str) -> BenchRow {
        BenchRow::new(format!("{name}: time"), "ms", RoundsSummary::of(&self.with))
            .against(RoundsSummary::of(&self.without))
            .goal(Goal::RatioAtMost(SLOWER_MAX))
    }

    /// The row of how often the program did not survive beside Sublet.
    pub(super) fn killed_row(&self, name: &str) -> BenchRow {
        BenchRow::new(format!("{name}: killed"), "", once(self.killed)).goal(Goal::OursAtMost(0.0))
    }
}

/// Takes memory once beside whatever runs, keeps it, and reports what that did to the host.
pub(super) fn take_once(
    amount: Bytes,
    pages: PageSize,
    keep: Duration,
    progress: &BenchProgress,
) -> Result<BenchReport, PressureError> {
    progress.show_message(format!(
        "taking {amount}, keeping it for {} s",
        keep.as_secs_f64()
    ));
    let mut hog = MemoryHog::start(amount, pages)?;
    let (taken, watched) = watch(
        || Bytes::ZERO,
        || {
            let taken = hog.take_memory();
            if matches!(taken, Ok(TakeOutcome::In(_))) {
                thread::sleep(keep);
            }
            taken
        },
    )?;
    let taken = taken?;
    drop(hog);
    let harm = watched.harm;
    let least = least_available(&watched.samples);
    let mut pairs = PairedRuns::default();
    pairs.count(taken, SubletPresence::Present);
    let name = format!("take {amount} in {}", pages.name());
    let none = Goal::OursAtMost(0.0);
    Ok(BenchReport {
        rows: vec![
            BenchRow::new(
                format!("{name}: time"),
                "ms",
                RoundsSummary::of(&pairs.with),
            ),
            pairs.killed_row(&name),
            BenchRow::new("allocstall", "", once(harm.stalls)).goal(none),
            BenchRow::new("pswpout", "", once(harm.swapped_out)).goal(none),
            BenchRow::new("least MemAvailable", "MiB", mib(least)),
        ],
        notes: vec![sentence(amount, taken, &harm, least)],
        ..BenchReport::default()
    })
}

fn sentence(amount: Bytes, taken: TakeOutcome, harm: &PressureHarm, least: Bytes) -> String {
    let TakeOutcome::In(time) = taken else {
        return format!("could not take {amount}: the kernel killed or refused the program");
    };
    let speed = Bytes((amount.0 as f64 / time.as_secs_f64().max(1e-6)) as u64);
    let unharmed = *harm == PressureHarm::default();
    let verdict = if unharmed {
        "the host is unharmed"
    } else {
        "the host was short of memory"
    };
    format!(
        "took {amount} in {:.0} ms ({speed} a second); {verdict}: {} allocation stalls, {} pages swapped out, \
         {} programs killed, never less than {least} available",
        time.as_secs_f64() * 1e3,
        harm.stalls,
        harm.swapped_out,
        harm.kills,
    )
}

fn once(count: u64) -> RoundsSummary {
    RoundsSummary::once(count as f64)
}

fn mib(amount: Bytes) -> RoundsSummary {
    RoundsSummary::once(amount.0 as f64 / f64::from(1 << 20))
}

fn chart(name: &str, samples: &[VitalsSample]) -> Chart {
    let curve = |name: &str, amount: fn(&VitalsSample) -> Bytes| ChartCurve {
        name: name.into(),
        points: samples
            .iter()
            .map(|sample| {
                (
                    sample.at.as_secs_f64() * 1e3,
                    amount(sample).0 as f64 / f64::from(1 << 30),
                )
            })
            .collect(),
    };
    Chart {
        title: format!("{name} beside a full arena"),
        x: "ms".into(),
        y: "GiB".into(),
        curves: vec![
            curve("MemAvailable", |sample| sample.available),
            curve("sublet", |sample| sample.resident),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_program_is_no_time_and_misses_the_goal() {
        let mut pairs = PairedRuns::default();
        pairs.count(
            TakeOutcome::In(Duration::from_millis(100)),
            SubletPresence::Present,
        );
        pairs.count(
            TakeOutcome::In(Duration::from_millis(90)),
            SubletPresence::Absent,
        );
        assert_eq!(pairs.time_row("t").holds(), Some(true));
        assert_eq!(pairs.killed_row("t").holds(), Some(true));
        pairs.count(TakeOutcome::Killed, SubletPresence::Present);
        assert_eq!(pairs.killed_row("t").holds(), Some(false));
    }

    #[test]
    fn the_sentence_says_whether_the_host_was_harmed() {
        let taken = TakeOutcome::In(Duration::from_secs(1));
        let unharmed = sentence(
            Bytes::gib(4),
            taken,
            &PressureHarm::default(),
            Bytes::gib(1),
        );
        assert!(unharmed.contains("unharmed"), "{unharmed}");
        let harm = PressureHarm {
            stalls: 3,
            ..PressureHarm::default()
        };
        let harmed = sentence(Bytes::gib(4), taken, &harm, Bytes::gib(1));
        assert!(
            harmed.contains("short of memory") && harmed.contains("3 allocation stalls"),
            "{harmed}"
        );
    }
}
