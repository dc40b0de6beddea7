//! The guard of a lender: it takes latencies and says whether the lender is asked.

use std::time::Duration;

use super::average::MovingAverage;
use super::puma::{PingVerdict, PumaAverages};

/// How often a lender is pinged, if its pings count.
pub(super) const PING_INTERVAL: Duration = Duration::from_millis(100);

/// Weight of the newest latency in an average: one in 20.
const ONE_IN: u32 = 20;

/// The guard shuts if a far request takes longer than this percentage of a miss.
const SHUT_PERCENT: u32 = 80;

/// The guard opens if a ping takes less than this percentage of a miss.
const OPEN_PERCENT: u32 = 50;

/// A request may take this many times the average.
const TIME_LIMIT_FACTOR: u32 = 4;

/// The shortest time limit of a request. Shorter ones would hit requests that only waited for a thread to wake.
const TIME_LIMIT_MIN: Duration = Duration::from_micros(200);

/// A miss counts as this many times the average at the most.
const MISS_FACTOR_MAX: u32 = 8;

/// The time limit of a request under [`GuardPolicy::Puma`], which has none of its own. The connection to a silent
/// lender ends after as long.
const PUMA_TIME_LIMIT: Duration = Duration::from_secs(1);

/// A lender is much quicker than a backing if it takes one part in so many of its time.
pub const MUCH_QUICKER: u32 = 3;

/// Returns whether a far request takes a small part of a miss's time.
pub fn is_much_quicker(far: Duration, miss: Duration) -> bool {
    far.saturating_mul(MUCH_QUICKER) <= miss
}

/// What a miss costs a ring's client unless its settings say otherwise.
pub const RING_MISS: Duration = Duration::from_millis(10);

/// The setting `borrow.guard`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardPolicy {
    /// `relative`: a lender is asked while it answers sooner than the backing would.
    #[default]
    Relative,
    /// `puma`: a lender is asked while its pings are below PUMA's constants.
    Puma,
}

/// Whether a lender is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardState {
    /// It is.
    Open,
    /// It is not. Pages that it holds are read from their backing.
    Shut,
}

/// A change of the state, with the averages that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardChange {
    /// The lender is no longer asked.
    Shut {
        /// What a far request takes.
        far: Duration,
        /// What a miss costs.
        backing: Duration,
    },
    /// The lender is asked again.
    Opened {
        /// What a ping takes.
        far: Duration,
        /// What a miss costs.
        backing: Duration,
    },
}

/// The guard between one lender and the pools of one backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LenderGuard {
    rule: GuardRule,
    state: GuardState,
    far: MovingAverage,
    backing: MovingAverage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "guards are few, and a box would allocate"
)]
enum GuardRule {
    Relative,
    Puma(PumaAverages),
}

impl LenderGuard {
    /// Makes the guard of a lender that has just been connected. `ping` is the first round trip. `backing` is what a
    /// miss is expected to cost: the average of a disk's reads, or [`RING_MISS`]. The guard starts open unless the
    /// first ping would shut it.
    pub fn new(policy: GuardPolicy, ping: Duration, backing: Duration) -> LenderGuard {
        let rule = match policy {
            GuardPolicy::Relative => GuardRule::Relative,
            GuardPolicy::Puma => GuardRule::Puma(PumaAverages::new(ping)),
        };
        let mut guard = LenderGuard {
            rule,
            state: GuardState::Open,
            far: MovingAverage::new(ping),
            backing: MovingAverage::new(backing),
        };
        if guard.decide().is_some() {
            guard.far = MovingAverage::new(guard.bounded(ping));
        }
        guard
    }

    /// Returns whether the lender is asked now.
    pub fn state(&self) -> GuardState {
        self.state
    }

    /// Returns what a far request takes on average. While the guard is shut, a ping counts as a miss at most.
    pub fn far(&self) -> Duration {
        self.far.get()
    }

    /// Returns whether the lender takes a small part of a miss's time, so that what it saves is worth much: one part in
    /// [`MUCH_QUICKER`] at most.
    pub fn is_much_quicker(&self) -> bool {
        is_much_quicker(self.far(), self.backing())
    }

    /// Returns what a miss costs on average.
    pub fn backing(&self) -> Duration {
        self.backing.get()
    }

    /// Returns how long a request or a ping may take. Then the reader gives it up and reads the backing.
    pub fn time_limit(&self) -> Duration {
        match self.rule {
            GuardRule::Relative => (self.far() * TIME_LIMIT_FACTOR).max(TIME_LIMIT_MIN),
            GuardRule::Puma(_) => PUMA_TIME_LIMIT,
        }
    }

    /// Returns how long a request may take that counts as a ping. While a relative guard is shut, that is the time that
    /// would open it, half a miss, so that the ping costs little.
    pub fn probe_limit(&self) -> Duration {
        match self.rule {
            GuardRule::Relative => self.time_limit().min(self.backing() * OPEN_PERCENT / 100),
            GuardRule::Puma(_) => self.time_limit(),
        }
    }

    /// Returns how often the lender is to be pinged now, or `None` if pings do not count.
    pub fn ping_interval(&self) -> Option<Duration> {
        match (&self.rule, self.state) {
            (GuardRule::Relative, GuardState::Open) => None,
            (GuardRule::Relative, GuardState::Shut) | (GuardRule::Puma(_), _) => {
                Some(PING_INTERVAL)
            }
        }
    }

    /// Records that the lender answered a request after `took`.
    pub fn answered(&mut self, took: Duration) -> Option<GuardChange> {
        self.add_far(took)
    }

    /// Records that a request was given up after `limit`. It counts as an answer of that length. To count the miss that
    /// follows as well would shut the guard to lenders that lose one request in ten and yet spare much.
    pub fn timed_out(&mut self, limit: Duration) -> Option<GuardChange> {
        self.add_far(limit)
    }

    /// Records that a ping was given up after `limit`. How long it would have taken is not known, so it counts as a miss.
    /// If it counted as `limit`, a lender that never answers would seem quicker than a miss.
    pub fn ping_timed_out(&mut self, limit: Duration) -> Option<GuardChange> {
        match self.rule {
            GuardRule::Relative => self.pinged(limit.max(self.backing())),
            GuardRule::Puma(_) => self.pinged(limit),
        }
    }

    /// Records that the lender answered a ping after `took`.
    pub fn pinged(&mut self, took: Duration) -> Option<GuardChange> {
        if let GuardRule::Puma(averages) = &mut self.rule {
            averages.add(took);
        }
        self.add_far(took)
    }

    /// Records that a read of the backing took `took`. A read that took very long counts as several of the average, for
    /// one seek among quick reads says little of the next miss, and while the lender is asked few misses are measured.
    pub fn missed(&mut self, took: Duration) -> Option<GuardChange> {
        let longest = (self.backing() * MISS_FACTOR_MAX).max(TIME_LIMIT_MIN);
        self.backing.add(took.min(longest), ONE_IN);
        self.decide()
    }

    fn add_far(&mut self, took: Duration) -> Option<GuardChange> {
        self.far.add(self.bounded(took), ONE_IN);
        self.decide()
    }

    /// Returns what a latency counts. How much slower than the backing a lender is does not matter while it is not
    /// asked. Otherwise the guard would stay shut for long after a short stall of a lender beside a quick backing.
    fn bounded(&self, took: Duration) -> Duration {
        match (&self.rule, self.state) {
            (GuardRule::Relative, GuardState::Shut) => took.min(self.backing()),
            _ => took,
        }
    }

    /// Sets the state that the averages ask for. Returns the change.
    fn decide(&mut self) -> Option<GuardChange> {
        let (far, backing) = (self.far(), self.backing());
        let next = match &self.rule {
            GuardRule::Relative => relative(self.state, far, backing),
            GuardRule::Puma(averages) => puma(self.state, averages),
        };
        if next == self.state {
            return None;
        }
        self.state = next;
        Some(match next {
            GuardState::Shut => GuardChange::Shut { far, backing },
            GuardState::Open => GuardChange::Opened { far, backing },
        })
    }
}

fn relative(state: GuardState, far: Duration, backing: Duration) -> GuardState {
    match state {
        GuardState::Open if far * 100 > backing * SHUT_PERCENT => GuardState::Shut,
        GuardState::Shut if far * 100 < backing * OPEN_PERCENT => GuardState::Open,
        _ => state,
    }
}

fn puma(state: GuardState, averages: &PumaAverages) -> GuardState {
    match averages.verdict() {
        PingVerdict::Shut => GuardState::Shut,
        PingVerdict::Open => GuardState::Open,
        PingVerdict::Keep => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn guard(ping: Duration, backing: Duration) -> LenderGuard {
        LenderGuard::new(GuardPolicy::Relative, ping, backing)
    }

    /// A guard that is shut, with `far` at the backing's latency.
    fn shut(backing: Duration) -> LenderGuard {
        let guard = guard(backing, backing);
        assert_eq!(guard.state(), GuardState::Shut);
        guard
    }

    #[test]
    fn a_guard_starts_open_up_to_80_percent_of_a_miss() {
        assert_eq!(guard(us(800), us(1000)).state(), GuardState::Open);
        assert_eq!(guard(us(801), us(1000)).state(), GuardState::Shut);
    }

    #[test]
    fn an_answer_weighs_one_in_twenty_and_the_change_names_both_averages() {
        let mut guard = guard(us(800), us(1000));
        assert_eq!(guard.answered(us(800)), None);
        let change = guard.answered(us(1000));
        let (far, backing) = (us(810), us(1000));
        assert_eq!(change, Some(GuardChange::Shut { far, backing }));
        assert_eq!(guard.state(), GuardState::Shut);
        assert_eq!(guard.answered(us(1000)), None, "it is shut already");
    }

    /// A lender that never answers, beside a backing with a seek among its quick reads.
    #[test]
    fn pings_that_are_given_up_never_open_a_guard() {
        let mut guard = shut(us(300));
        for n in 0..1000 {
            let limit = guard.probe_limit();
            assert_eq!(guard.ping_timed_out(limit), None, "{n}");
            let took = if n % 50 == 0 { us(15_000) } else { us(200) };
            assert_eq!(guard.missed(took), None, "{n}");
        }
    }

    #[test]
    fn one_slow_miss_counts_as_eight() {
        let mut guard = guard(us(100), us(1000));
        guard.missed(Duration::from_secs(50));
        assert_eq!(guard.backing(), us(1350));
    }

    #[test]
    fn a_guard_opens_below_50_percent_of_a_miss() {
        let mut guard = shut(us(1000));
        let change = (0..100).find_map(|_| guard.pinged(us(500)));
        assert_eq!(change, None, "it comes near and stays above");
        let change = (0..100).find_map(|_| guard.pinged(us(400)));
        let Some(GuardChange::Opened { far, backing }) = change else {
            panic!("{change:?}");
        };
        assert!(far < us(500) && far > us(490), "{far:?}");
        assert_eq!(backing, us(1000));
    }

    #[test]
    fn a_backing_that_became_quicker_shuts_the_guard() {
        let mut guard = guard(us(500), us(1000));
        let change = (0..100).find_map(|_| guard.missed(us(100)));
        assert!(
            matches!(change, Some(GuardChange::Shut { .. })),
            "{change:?}"
        );
    }

    #[test]
    fn requests_time_out_at_four_times_the_average_and_no_sooner_than_200_microseconds() {
        assert_eq!(guard(us(25), us(100)).time_limit(), us(200));
        assert_eq!(guard(us(50), us(100)).time_limit(), us(200));
        assert_eq!(guard(us(51), us(100)).time_limit(), us(204));
    }

    #[test]
    fn a_ping_is_given_up_after_half_a_miss_under_the_relative_rule_alone() {
        assert_eq!(shut(us(1000)).probe_limit(), us(500));
        assert_eq!(shut(us(100)).probe_limit(), us(50));
        let puma = LenderGuard::new(GuardPolicy::Puma, us(25), us(100));
        assert_eq!(puma.probe_limit(), PUMA_TIME_LIMIT);
    }

    #[test]
    fn pings_count_only_while_the_guard_is_shut() {
        assert_eq!(guard(us(25), us(100)).ping_interval(), None);
        assert_eq!(shut(us(100)).ping_interval(), Some(PING_INTERVAL));
        let puma = LenderGuard::new(GuardPolicy::Puma, us(25), us(100));
        assert_eq!(puma.ping_interval(), Some(PING_INTERVAL));
    }

    #[test]
    fn a_lender_that_hangs_is_soon_asked_no_more() {
        for (backing, waited_max) in [
            (us(100), us(2_000)),
            (us(1000), us(25_000)),
            (us(8000), us(200_000)),
        ] {
            let mut guard = guard(us(25), backing);
            let mut waited = Duration::ZERO;
            while guard.state() == GuardState::Open {
                let limit = guard.time_limit();
                waited += limit;
                guard.timed_out(limit);
                assert!(waited <= waited_max, "{backing:?}: {waited:?}");
            }
        }
    }

    #[test]
    fn a_lender_that_answers_again_is_asked_within_2300_milliseconds() {
        for backing in [us(100), us(1000), us(8000)] {
            let mut guard = shut(backing);
            (0..600).for_each(|_| assert_eq!(guard.pinged(Duration::MAX), None));
            let pings = 1
                + (0..100)
                    .take_while(|_| guard.pinged(us(25)).is_none())
                    .count();
            assert!(pings <= 23, "{backing:?}: {pings}");
        }
    }

    #[test]
    fn puma_heeds_pings_and_nothing_else() {
        let mut guard = LenderGuard::new(GuardPolicy::Puma, us(25), us(100));
        for _ in 0..10_000 {
            assert_eq!(guard.answered(us(900_000)), None);
            assert_eq!(guard.missed(us(1)), None);
        }
        let change = (0..1000).find_map(|_| guard.pinged(us(900_000)));
        assert!(
            matches!(change, Some(GuardChange::Shut { .. })),
            "{change:?}"
        );
    }

    #[test]
    fn no_latency_is_too_long() {
        for policy in [GuardPolicy::Relative, GuardPolicy::Puma] {
            let mut guard = LenderGuard::new(policy, Duration::MAX, Duration::MAX);
            guard.answered(Duration::MAX);
            guard.timed_out(Duration::MAX);
            guard.missed(Duration::MAX);
            guard.pinged(Duration::MAX);
            assert!(guard.time_limit() < Duration::from_secs(3600));
        }
    }
}
