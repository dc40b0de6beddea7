//! A program takes memory as fast as it can, with and without Sublet.

use std::thread;
use std::time::Duration;

use sublet_types::Bytes;

use super::super::chart::{Chart, Curve};
use super::super::progress::Progress;
use super::super::report::{Goal, Measured, Report, Row};
use super::daemon::{Daemon, resident};
use super::eater::{Eater, Pages, Taken};
use super::error::PressureError;
use super::scale::Scale;
use super::vitals::{Harm, Look, figures, least_available, watch};

/// The most that taking memory may cost beside Sublet.
const SLOWER_MAX: f64 = 1.25;
/// Within this the arena is back.
const REGROWN_SECS: f64 = 60.0;
/// Back is this share of what it was.
const REGROWN_SHARE: f64 = 0.95;
/// A figure for "never": longer than anybody waits.
const GIVEN_UP: Duration = Duration::from_secs(180);
/// Left alone when all memory is touched beforehand: what the kernel keeps, and room for what runs.
const UNTOUCHED: Bytes = Bytes::mib(256);
/// For the host to come to rest.
const SETTLING: Duration = Duration::from_secs(1);
/// How long the watch goes on after the memory was taken.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// In a virtual machine, the first touch of memory is ten times as slow as all later ones: so each pair of
/// runs begins with memory that was touched just now.
pub(super) fn touch_before(scale: &Scale) -> Result<(), PressureError> {
    let available = figures()?.available - UNTOUCHED;
    let amount = match scale.arena {
        Some(arena) => available.min(arena + scale.take * 2),
        None => available,
    };
    Eater::start(amount, Pages::Huge)?.take()?;
    thread::sleep(SETTLING);
    Ok(())
}

/// Pairs of runs with small and with huge pages, and how soon the arena is back.
pub(super) fn run(
    scale: &Scale,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), PressureError> {
    progress.expect(2 * scale.pairs);
    for pages in [Pages::Small, Pages::Huge] {
        let name = format!("a program takes {} in {}", scale.take, pages.name());
        let mut pairs = Pairs::default();
        for pair in 0..scale.pairs {
            progress.say(format!("{name}, pair {} of {}", pair + 1, scale.pairs));
            touch_before(scale)?;
            pairs.with(scale, pages)?;
            pairs.without(scale, pages)?;
            progress.step();
        }
        pairs.report(&name, report);
    }
    Ok(())
}

/// The runs of one kind.
#[derive(Default)]
pub(super) struct Pairs {
    with: Vec<f64>,
    without: Vec<f64>,
    killed: u64,
    harm: Harm,
    harm_without: Harm,
    regrown: Vec<f64>,
    looks: Vec<Look>,
}

impl Pairs {
    /// One run beside a full arena; the first also waits for the arena to come back.
    fn with(&mut self, scale: &Scale, pages: Pages) -> Result<(), PressureError> {
        let daemon = Daemon::start(&scale.sublet, scale.arena)?;
        let full = daemon.fill()?;
        thread::sleep(SETTLING);
        let process = daemon.id();
        let mut eater = Eater::start(scale.take, pages)?;
        let before = figures()?;
        let (taken, looks) = watch(
            || resident(process),
            || {
                let taken = eater.take();
                thread::sleep(AFTERWARDS);
                taken
            },
        );
        self.harm.add(Harm::between(&before, &figures()?));
        self.count(taken?, true);
        drop(eater);
        if self.regrown.is_empty() {
            self.looks = looks;
            let back = Bytes((full.0 as f64 * REGROWN_SHARE) as u64);
            let regrown = daemon.fill_to(back, GIVEN_UP)?.unwrap_or(GIVEN_UP);
            self.regrown.push(regrown.as_secs_f64());
        }
        Ok(())
    }

    fn without(&mut self, scale: &Scale, pages: Pages) -> Result<(), PressureError> {
        thread::sleep(SETTLING);
        let mut eater = Eater::start(scale.take, pages)?;
        let before = figures()?;
        // Watched as closely as the other run: that, too, takes time.
        let (taken, _) = watch(
            || resident(std::process::id()),
            || {
                let taken = eater.take();
                thread::sleep(AFTERWARDS);
                taken
            },
        );
        self.harm_without.add(Harm::between(&before, &figures()?));
        self.count(taken?, false);
        Ok(())
    }

    /// Notes how taking memory ended.
    pub(super) fn count(&mut self, taken: Taken, beside_sublet: bool) {
        match taken {
            Taken::In(time) if beside_sublet => self.with.push(time.as_secs_f64() * 1e3),
            Taken::In(time) => self.without.push(time.as_secs_f64() * 1e3),
            Taken::Killed => self.killed += u64::from(beside_sublet),
        }
    }

    /// Rows and a curve.
    fn report(&self, name: &str, report: &mut Report) {
        report.rows.push(self.time_row(name));
        report.rows.push(self.killed_row(name));
        let counted = |what: &str, ours: u64, peer: u64| {
            Row::new(format!("{name}: {what}"), "", once(ours))
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
        let regrown = Row::new(
            format!("{name}: arena back after"),
            "s",
            Measured::of(&self.regrown),
        );
        report
            .rows
            .push(regrown.goal(Goal::OursAtMost(REGROWN_SECS)));
        let least = least_available(&self.looks);
        let row = Row::new(format!("{name}: least MemAvailable"), "MiB", mib(least));
        report.rows.push(row);
        report.charts.push(chart(name, &self.looks));
    }

    /// How long it took, with and without.
    pub(super) fn time_row(&self, name: &str) -> Row {
        Row::new(format!("{name}: time"), "ms", Measured::of(&self.with))
            .against(Measured::of(&self.without))
            .goal(Goal::RatioAtMost(SLOWER_MAX))
    }

    /// How often the program did not survive beside Sublet.
    pub(super) fn killed_row(&self, name: &str) -> Row {
        Row::new(format!("{name}: killed"), "", once(self.killed)).goal(Goal::OursAtMost(0.0))
    }
}

/// Takes memory once, beside whatever runs, keeps it, and says what that did to the host.
pub(super) fn take(
    amount: Bytes,
    pages: Pages,
    keep: Duration,
    progress: &Progress,
) -> Result<Report, PressureError> {
    progress.say(format!(
        "taking {amount}, keeping it for {} s",
        keep.as_secs_f64()
    ));
    let mut eater = Eater::start(amount, pages)?;
    let before = figures()?;
    let (taken, looks) = watch(|| Bytes::ZERO, || eater.take());
    let taken = taken?;
    if matches!(taken, Taken::In(_)) {
        thread::sleep(keep);
    }
    drop(eater);
    let harm = Harm::between(&before, &figures()?);
    let least = least_available(&looks);
    let mut pairs = Pairs::default();
    pairs.count(taken, true);
    let name = format!("take {amount} in {}", pages.name());
    let none = Goal::OursAtMost(0.0);
    Ok(Report {
        rows: vec![
            Row::new(format!("{name}: time"), "ms", Measured::of(&pairs.with)),
            pairs.killed_row(&name),
            Row::new("allocstall", "", once(harm.stalls)).goal(none),
            Row::new("pswpout", "", once(harm.swapped_out)).goal(none),
            Row::new("least MemAvailable", "MiB", mib(least)),
        ],
        notes: vec![sentence(amount, taken, &harm, least)],
        ..Report::default()
    })
}

fn sentence(amount: Bytes, taken: Taken, harm: &Harm, least: Bytes) -> String {
    let Taken::In(time) = taken else {
        return format!("could not take {amount}: the kernel killed or refused the program");
    };
    let speed = Bytes((amount.0 as f64 / time.as_secs_f64().max(1e-6)) as u64);
    let unharmed = *harm == Harm::default();
    let said = if unharmed {
        "the host is unharmed"
    } else {
        "the host was short of memory"
    };
    format!(
        "took {amount} in {:.0} ms ({speed} a second); {said}: {} allocation stalls, {} pages swapped out, \
         {} programs killed, never less than {least} available",
        time.as_secs_f64() * 1e3,
        harm.stalls,
        harm.swapped_out,
        harm.kills,
    )
}

fn once(count: u64) -> Measured {
    Measured::once(count as f64)
}

fn mib(amount: Bytes) -> Measured {
    Measured::once(amount.0 as f64 / f64::from(1 << 20))
}

fn chart(name: &str, looks: &[Look]) -> Chart {
    let curve = |name: &str, amount: fn(&Look) -> Bytes| Curve {
        name: name.into(),
        points: looks
            .iter()
            .map(|look| {
                (
                    look.at.as_secs_f64() * 1e3,
                    amount(look).0 as f64 / f64::from(1 << 30),
                )
            })
            .collect(),
    };
    Chart {
        title: format!("{name} beside a full arena"),
        x: "ms".into(),
        y: "GiB".into(),
        curves: vec![
            curve("MemAvailable", |look| look.available),
            curve("sublet", |look| look.resident),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_program_is_no_time_and_misses_the_goal() {
        let mut pairs = Pairs::default();
        pairs.count(Taken::In(Duration::from_millis(100)), true);
        pairs.count(Taken::In(Duration::from_millis(90)), false);
        assert_eq!(pairs.time_row("t").holds(), Some(true));
        assert_eq!(pairs.killed_row("t").holds(), Some(true));
        pairs.count(Taken::Killed, true);
        assert_eq!(pairs.killed_row("t").holds(), Some(false));
    }

    #[test]
    fn the_sentence_says_whether_the_host_was_harmed() {
        let taken = Taken::In(Duration::from_secs(1));
        let unharmed = sentence(Bytes::gib(4), taken, &Harm::default(), Bytes::gib(1));
        assert!(unharmed.contains("unharmed"), "{unharmed}");
        let harm = Harm {
            stalls: 3,
            ..Harm::default()
        };
        let harmed = sentence(Bytes::gib(4), taken, &harm, Bytes::gib(1));
        assert!(
            harmed.contains("short of memory") && harmed.contains("3 allocation stalls"),
            "{harmed}"
        );
    }
}
