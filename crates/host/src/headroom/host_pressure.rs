//! Signs that memory is short, as the kernel counts them for the whole host, without those of cgroups at limits of
//! their own, and without pages that go to swap while the host lacks nothing.

use std::time::Duration;

use sublet_types::{HostFigures, PressureTotals};

use super::limited_cgroups::CgroupRefaults;

/// What the host's count has not shown of the cgroups' misses by then, while they miss nothing more, it never shows.
const OWED_FOR: Duration = Duration::from_secs(1);

/// What the kernel counts of such signs for the whole host, and how much of it is no sign of the host's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostPressure {
    counted: PressureCounters,
    missed: CgroupRefaults,
    /// File pages of these cgroups that the host's count has yet to show, because the two are not read in one instant.
    owed: u64,
    /// When these cgroups last missed pages.
    owed_at: Duration,
    /// What is subtracted.
    others: PressureCounters,
}

/// Counters of `vmstat` and of the pressure files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PressureCounters {
    pub(super) refaults: u64,
    pub(super) swapped_out: u64,
    pub(super) stalls: u64,
    pub(super) oom_kills: u64,
    /// Pages that the host's own reclaim looked at. Cgroups and DAMON reclaim by themselves.
    pub(super) scanned: u64,
    pub(super) pressure: Option<PressureTotals>,
}

impl HostPressure {
    /// The last counters.
    pub(super) fn counted(&self) -> PressureCounters {
        self.counted
    }

    /// The last known misses of cgroups at their limits.
    pub(super) fn cgroup_refaults(&self) -> CgroupRefaults {
        self.missed
    }

    /// Adds what was counted since then, up to `at`. Of that, the cgroups at their limits missed this much.
    pub(super) fn record(&mut self, at: Duration, now: PressureCounters, missed: CgroupRefaults) {
        let before = std::mem::replace(&mut self.counted, now);
        let was_missed = std::mem::replace(&mut self.missed, missed);
        let files = missed.files - was_missed.files;
        if files > 0 {
            self.owed_at = at;
        } else if at.saturating_sub(self.owed_at) > OWED_FOR {
            self.owed = 0;
        }
        let since = now.refaults.saturating_sub(before.refaults);
        self.owed += files;
        let is_theirs = self.owed > 0 || missed.is_swapping;
        let theirs = self.owed.min(since);
        self.owed -= theirs;
        self.others.refaults += theirs;
        let is_hosts = now.stalls > before.stalls || now.scanned > before.scanned;
        if !is_hosts {
            // The host lacks nothing. A cgroup at its limit swaps, or something pages out what is idle: DAMON, for
            // example, or a write to `memory.reclaim`.
            self.others.swapped_out += now.swapped_out.saturating_sub(before.swapped_out);
        }
        if is_theirs && !is_hosts {
            // Only these cgroups reclaim memory. So the tasks that wait for memory are theirs.
            let waited = |of: Option<PressureTotals>| of.unwrap_or_default();
            let (from, to) = (waited(before.pressure), waited(now.pressure));
            let others = self.others.pressure.get_or_insert_default();
            others.some += to.some.saturating_sub(from.some);
            others.full += to.full.saturating_sub(from.full);
        }
    }

    /// Writes what is left, which is the host's.
    pub(super) fn write_to(&self, figures: &mut HostFigures) {
        let HostPressure {
            counted, others, ..
        } = self;
        figures.refaults = counted.refaults - others.refaults;
        figures.swapped_out = counted.swapped_out - others.swapped_out;
        (figures.stalls, figures.oom_kills) = (counted.stalls, counted.oom_kills);
        let theirs = others.pressure.unwrap_or_default();
        figures.pressure = counted.pressure.map(|all| PressureTotals {
            some: all.some.saturating_sub(theirs.some),
            full: all.full.saturating_sub(theirs.full),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(7);

    fn counted(refaults: u64, millis: u64) -> PressureCounters {
        let some = Duration::from_millis(millis);
        let full = Duration::ZERO;
        PressureCounters {
            refaults,
            pressure: Some(PressureTotals { some, full }),
            ..PressureCounters::default()
        }
    }

    fn files(files: u64) -> CgroupRefaults {
        CgroupRefaults {
            files,
            ..CgroupRefaults::default()
        }
    }

    /// Refaults and milliseconds of waiting.
    fn told(wants: &HostPressure) -> (u64, u64) {
        let figures = figures(wants);
        let waited = figures.pressure.expect("there is one").some;
        (figures.refaults, waited.as_millis() as u64)
    }

    fn figures(wants: &HostPressure) -> HostFigures {
        let mut figures = HostFigures::default();
        wants.write_to(&mut figures);
        figures
    }

    #[test]
    fn what_is_theirs_is_taken_off_and_what_is_the_hosts_stays() {
        let mut wants = HostPressure::default();
        wants.record(AT, counted(1000, 10), files(0));
        assert_eq!(told(&wants), (1000, 10));
        wants.record(AT, counted(1500, 30), files(400));
        assert_eq!(told(&wants), (1100, 10), "100 are somebody else's");
        wants.record(AT, counted(1600, 40), files(400));
        assert_eq!(told(&wants), (1200, 20), "nobody is at a limit");
        let scanned = PressureCounters {
            scanned: 32,
            ..counted(1700, 50)
        };
        wants.record(AT, scanned, files(450));
        assert_eq!(told(&wants), (1250, 30), "the host reclaims as well");
    }

    #[test]
    fn while_one_of_them_swaps_waiting_is_theirs() {
        let mut wants = HostPressure::default();
        let swapping = |is_swapping| CgroupRefaults {
            swapped: 7,
            is_swapping,
            ..CgroupRefaults::default()
        };
        wants.record(AT, counted(1000, 10), swapping(true));
        let before = told(&wants);
        wants.record(AT, counted(1100, 40), swapping(true));
        assert_eq!(told(&wants), (before.0 + 100, before.1));
        wants.record(AT, counted(1200, 50), swapping(false));
        assert_eq!(told(&wants), (before.0 + 200, before.1 + 10));
    }

    #[test]
    fn pages_that_go_to_swap_are_a_sign_only_while_the_host_reclaims() {
        let swapped = |swapped_out, scanned, stalls| PressureCounters {
            swapped_out,
            scanned,
            stalls,
            ..PressureCounters::default()
        };
        let mut wants = HostPressure::default();
        wants.record(AT, swapped(100, 900, 0), files(0));
        assert_eq!(figures(&wants).swapped_out, 100);
        wants.record(AT, swapped(150, 900, 0), files(0));
        assert_eq!(
            figures(&wants).swapped_out,
            100,
            "something pages out what is idle"
        );
        wants.record(AT, swapped(150, 900, 0), files(30));
        wants.record(AT, swapped(170, 900, 0), files(60));
        assert_eq!(figures(&wants).swapped_out, 100, "a cgroup is at its limit");
        wants.record(AT, swapped(180, 901, 0), files(60));
        assert_eq!(figures(&wants).swapped_out, 110, "kswapd looks for pages");
        wants.record(AT, swapped(185, 901, 1), files(60));
        assert_eq!(figures(&wants).swapped_out, 115, "an allocation waits");
    }

    #[test]
    fn what_their_count_shows_first_is_taken_off_when_the_hosts_shows_it() {
        let mut wants = HostPressure::default();
        wants.record(AT, counted(1000, 0), files(0));
        wants.record(AT, counted(1100, 0), files(130));
        wants.record(AT, counted(1150, 0), files(150));
        assert_eq!(told(&wants).0, 1000);
        wants.record(AT, counted(1250, 0), files(150));
        assert_eq!(told(&wants).0, 1100);
    }

    #[test]
    fn what_the_hosts_count_never_shows_is_owed_for_a_second() {
        let at = |millis| AT + Duration::from_millis(millis);
        let mut wants = HostPressure::default();
        wants.record(at(0), counted(1000, 0), files(0));
        wants.record(at(20), counted(1000, 0), files(5000));
        wants.record(at(900), counted(1100, 0), files(5000));
        assert_eq!(told(&wants).0, 1000, "it is late");
        wants.record(at(1100), counted(6100, 0), files(5000));
        assert_eq!(told(&wants).0, 6000, "it never comes");
        wants.record(at(1120), counted(6200, 0), files(5100));
        assert_eq!(told(&wants).0, 6000, "and new ones are theirs");
    }
}
