//! The polling rule: it takes times and returns decisions. It reads no clock.

use std::time::Duration;

/// What a loop does while it has no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollDecision {
    /// Look again at once.
    Poll,
    /// Sleep until work comes.
    Sleep,
}

/// The longest that one wait polls. On the machines that were measured, a wake-up costs 4 to 14 µs. It costs up to 30
/// µs in a virtual machine whose cores have gone to sleep. Polling for longer than about twice that can never pay.
const POLL_MAX: Duration = Duration::from_micros(60);

/// What a wake-up may have added to a wait that slept. A wait that ended within the sum might have ended while a loop
/// still polled. Only polling tells.
const WAKE_MAX: Duration = Duration::from_micros(60);

/// Polling may pay if at least this many of 256 recent waits were short: three in four. It has paid if it caught the
/// end of as many of the waits that polled.
const PAID_MIN: u32 = 192;

/// The value of `caught` when polling is tried again. After two waits in vain it stops.
const TRIAL: u32 = 224;

/// Weight of the newest wait in the memory of recent waits: 1/8.
const MEMORY_SHIFT: u32 = 3;

/// Waits that sleep after polling has not paid. The number doubles each time, and each wait whose end was caught halves
/// it.
const PAUSE_MIN: u32 = 8;

/// The most waits that sleep before polling is tried again. Polling in vain costs next to nothing then.
const PAUSE_MAX: u32 = 1024;

/// A yield that lasts longer than this gave the core to another thread.
const AWAY_MIN: Duration = Duration::from_micros(30);

/// The core is wanted if other threads had more than this fraction of the time since they last had it. Occasional
/// maintenance does not count as a crowd.
const AWAY_ONE_IN: u32 = 8;

/// How long polling stops after another thread took the core. It doubles while that goes on.
const CROWDED_MIN: Duration = Duration::from_millis(1);

/// The longest that polling stops for one such reason.
const CROWDED_MAX: Duration = Duration::from_millis(256);

/// Decides whether a loop without work polls or sleeps.
#[derive(Clone, Debug)]
pub struct PollRule {
    /// The longest that one wait polls.
    poll_max: Duration,
    /// Recent waits that were short enough for polling to be tried.
    short: RecentFraction,
    /// Recent waits that polled and caught the work.
    caught: RecentFraction,
    /// Waits that will still sleep, because polling did not pay.
    pause: u32,
    /// The length of the last pause, reduced by what was caught since.
    paused: u32,
    /// Whether this wait has polled.
    polls: bool,
    wait_began: Duration,
    /// When another thread last had the core.
    left_at: Duration,
    crowded_until: Duration,
    crowded_for: Duration,
}

impl Default for PollRule {
    fn default() -> PollRule {
        PollRule::at_most(POLL_MAX)
    }
}

impl PollRule {
    /// A rule by which one wait polls for at most `poll_max`.
    pub fn at_most(poll_max: Duration) -> PollRule {
        PollRule {
            poll_max,
            short: RecentFraction(0),
            caught: RecentFraction(TRIAL),
            pause: 0,
            paused: 0,
            polls: false,
            wait_began: Duration::ZERO,
            left_at: Duration::ZERO,
            crowded_until: Duration::ZERO,
            crowded_for: CROWDED_MIN,
        }
    }

    /// Records that the loop ran out of work.
    pub fn begin_wait(&mut self, now: Duration) {
        self.wait_began = now;
        self.polls = false;
        self.pause = self.pause.saturating_sub(1);
    }

    /// Decides whether the loop looks once more or sleeps.
    pub fn decide(&mut self, now: Duration) -> PollDecision {
        let waited = now.saturating_sub(self.wait_began);
        let may = self.short.0 >= PAID_MIN && self.pause == 0;
        if may && waited < self.poll_max && now >= self.crowded_until {
            self.polls = true;
            PollDecision::Poll
        } else {
            PollDecision::Sleep
        }
    }

    /// Records that work came, whether the loop polled or slept.
    pub fn work_came(&mut self, now: Duration) {
        let waited = now.saturating_sub(self.wait_began);
        self.learn(WaitLength::of(waited, self.poll_max));
    }

    /// Records that the loop's own time was up and no work had come.
    pub(crate) fn nothing_came(&mut self) {
        self.learn(WaitLength::Long);
    }

    fn learn(&mut self, wait: WaitLength) {
        match wait {
            WaitLength::Caught | WaitLength::Short => self.short.add_yes(),
            WaitLength::Long => self.short.add_no(),
        }
        if !self.polls {
            return;
        }
        match wait {
            WaitLength::Caught => {
                self.caught.add_yes();
                self.paused /= 2;
            }
            WaitLength::Short | WaitLength::Long => self.caught.add_no(),
        }
        if self.caught.0 < PAID_MIN {
            self.paused = (2 * self.paused).clamp(PAUSE_MIN, PAUSE_MAX);
            self.pause = self.paused;
            self.caught = RecentFraction(TRIAL);
        }
    }

    /// Records that the loop yielded its core and was `away` until `now`.
    pub fn yielded_core(&mut self, away: Duration, now: Duration) {
        if away < AWAY_MIN {
            return;
        }
        let offered = now.saturating_sub(self.left_at.max(self.crowded_until));
        self.left_at = now;
        if away * AWAY_ONE_IN < offered {
            return;
        }
        let again_soon = now < self.crowded_until + self.crowded_for * 2;
        self.crowded_for = if again_soon {
            (self.crowded_for * 2).min(CROWDED_MAX)
        } else {
            CROWDED_MIN
        };
        self.crowded_until = now + self.crowded_for;
    }
}

/// How long a wait for work was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitLength {
    /// Polling catches its end, or would have caught it.
    Caught,
    /// It was too long to be caught only because the sleeping loop had to be woken.
    Short,
    /// It lasts longer than a loop polls.
    Long,
}

impl WaitLength {
    fn of(waited: Duration, poll_max: Duration) -> WaitLength {
        if waited < poll_max {
            WaitLength::Caught
        } else if waited < poll_max + WAKE_MAX {
            WaitLength::Short
        } else {
            WaitLength::Long
        }
    }
}

/// Of 256 recent waits, how many were of a kind.
#[derive(Clone, Copy, Debug)]
struct RecentFraction(u32);

impl RecentFraction {
    /// Counts a wait that was of the kind.
    fn add_yes(&mut self) {
        self.add_no();
        self.0 += 256 >> MEMORY_SHIFT;
    }

    /// Counts a wait that was not of the kind.
    fn add_no(&mut self) {
        self.0 -= self.0 >> MEMORY_SHIFT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Waits that end after `gap` each, one after the other, from `start` on. Returns when the last ended.
    fn waits(rule: &mut PollRule, start: Duration, gap: Duration, count: u32) -> Duration {
        polled(rule, start, gap, count).0
    }

    /// The same. Also returns how long the rule polled.
    fn polled(
        rule: &mut PollRule,
        start: Duration,
        gap: Duration,
        count: u32,
    ) -> (Duration, Duration) {
        let (mut now, mut polled) = (start, Duration::ZERO);
        for _ in 0..count {
            rule.begin_wait(now);
            let (came, mut look) = (now + gap, now);
            while look < came && rule.decide(look) == PollDecision::Poll {
                look += us(1);
            }
            polled += look - now;
            // A loop that sleeps is woken a little late.
            now = if look < came { came + us(30) } else { came };
            rule.work_came(now);
        }
        (now, polled)
    }

    #[test]
    fn a_new_loop_sleeps() {
        let mut rule = PollRule::default();
        rule.begin_wait(us(5));
        assert_eq!(rule.decide(us(5)), PollDecision::Sleep);
    }

    #[test]
    fn requests_that_keep_coming_are_polled_for_but_not_for_long() {
        let mut rule = PollRule::default();
        let now = waits(&mut rule, us(0), us(5), 40);
        rule.begin_wait(now);
        assert_eq!(rule.decide(now), PollDecision::Poll);
        assert_eq!(rule.decide(now + us(59)), PollDecision::Poll);
        assert_eq!(rule.decide(now + us(60)), PollDecision::Sleep);
    }

    #[test]
    fn a_loop_polls_no_longer_than_it_may() {
        let mut rule = PollRule::at_most(us(20));
        let now = waits(&mut rule, us(0), us(5), 40);
        rule.begin_wait(now);
        assert_eq!(rule.decide(now + us(19)), PollDecision::Poll);
        assert_eq!(rule.decide(now + us(20)), PollDecision::Sleep);
    }

    #[test]
    fn polling_ends_when_it_no_longer_pays() {
        let mut rule = PollRule::default();
        let busy = waits(&mut rule, us(0), us(5), 1000);
        let calm = waits(&mut rule, busy, us(200), 3);
        rule.begin_wait(calm);
        assert_eq!(rule.decide(calm), PollDecision::Sleep);
    }

    #[test]
    fn a_sleep_that_being_woken_made_long_does_not_hide_that_polling_would_pay() {
        let mut rule = PollRule::default();
        let now = waits(&mut rule, us(0), us(50), 30);
        let (_, polled) = polled(&mut rule, now, us(50), 1000);
        assert!(polled > us(900 * 50), "{polled:?}");
    }

    #[test]
    fn what_comes_just_too_late_is_hardly_polled_for() {
        let mut rule = PollRule::default();
        let (_, polled) = polled(&mut rule, us(0), us(80), 100_000);
        assert!(polled < us(100_000 * 80) / 200, "{polled:?}");
    }

    #[test]
    fn one_late_request_in_six_is_no_reason_to_sleep() {
        let mut rule = PollRule::default();
        let mut now = waits(&mut rule, us(0), us(10), 100);
        let mut all = Duration::ZERO;
        for _ in 0..1000 {
            let (late, _) = polled(&mut rule, now, us(300), 1);
            let (then, some) = polled(&mut rule, late, us(10), 5);
            (now, all) = (then, all + some);
        }
        assert!(all > us(1000 * 5 * 10) / 3, "{all:?}");
    }

    #[test]
    fn a_loop_that_sleeps_learns_that_polling_would_pay() {
        let mut rule = PollRule::default();
        let calm = waits(&mut rule, us(0), us(1000), 100);
        let busy = waits(&mut rule, calm, us(8), 30);
        rule.begin_wait(busy);
        assert_eq!(rule.decide(busy), PollDecision::Poll);
    }

    #[test]
    fn ticks_of_an_idle_loop_never_lead_to_polling() {
        let mut rule = PollRule::default();
        for second in 0..1000 {
            rule.begin_wait(Duration::from_secs(second));
            rule.nothing_came();
            assert_eq!(
                rule.decide(Duration::from_secs(second)),
                PollDecision::Sleep
            );
        }
    }

    #[test]
    fn a_wanted_core_is_left_for_longer_each_time() {
        let mut rule = PollRule::default();
        let mut now = waits(&mut rule, us(0), us(5), 100);
        let mut breaks = Vec::new();
        for _ in 0..12 {
            rule.begin_wait(now);
            assert_eq!(rule.decide(now), PollDecision::Poll);
            rule.yielded_core(us(500), now);
            let break_began = now;
            while rule.decide(now) == PollDecision::Sleep {
                now += us(100);
                rule.begin_wait(now);
            }
            breaks.push(now - break_began);
        }
        assert!(breaks[1] > breaks[0]);
        assert!(breaks.iter().all(|pause| *pause <= CROWDED_MAX + us(100)));
        assert_eq!(breaks[11], CROWDED_MAX);

        now += Duration::from_secs(2);
        rule.begin_wait(now);
        rule.yielded_core(us(500), now);
        now += CROWDED_MIN;
        rule.begin_wait(now);
        assert_eq!(
            rule.decide(now),
            PollDecision::Poll,
            "long quiet forgets the crowd"
        );
    }

    #[test]
    fn who_keeps_house_a_hundredth_of_the_time_is_no_crowd() {
        let mut rule = PollRule::default();
        let mut now = waits(&mut rule, us(0), us(5), 100);
        for _ in 0..1000 {
            now = waits(&mut rule, now, us(10), 1000);
            rule.begin_wait(now);
            assert_eq!(rule.decide(now), PollDecision::Poll);
            now += us(100);
            rule.yielded_core(us(100), now);
            assert_eq!(rule.decide(now - us(50)), PollDecision::Poll);
        }
    }

    #[test]
    fn an_idle_core_given_away_comes_back_at_once_and_changes_nothing() {
        let mut rule = PollRule::default();
        let now = waits(&mut rule, us(0), us(5), 100);
        rule.begin_wait(now);
        rule.yielded_core(us(1), now);
        assert_eq!(rule.decide(now), PollDecision::Poll);
    }
}
