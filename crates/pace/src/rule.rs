//! The rule itself: times in, steps out. It reads no clock.

use std::time::Duration;

/// What to do while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again at once.
    Poll,
    /// Sleep until something comes.
    Sleep,
}

/// The longest that one wait polls. A wake-up costs 4 to 14 µs on the machines this was measured on, and up to 30
/// in a virtual machine whose cores have gone to sleep; polling for longer than about twice that can never pay.
const POLL_MAX: Duration = Duration::from_micros(60);

/// What being woken may have added to a wait that slept: such a wait might have ended within [`POLL_MAX`] if it ended
/// within the sum. Only polling tells.
const WAKE_MAX: Duration = Duration::from_micros(60);

/// Polling may pay when at least this many of 256 recent waits were short: three in four. It has paid when it caught
/// the end of as many of those that polled.
const PAID_MIN: u32 = 192;

/// What is believed of polling when it is tried again: two waits in vain, and it stops.
const TRIAL: u32 = 224;

/// Weight of the newest wait in the memory of recent waits: 1/8.
const MEMORY_SHIFT: u32 = 3;

/// Waits that sleep after polling has not paid; doubled each time, halved by each wait whose end was caught.
const PAUSE_MIN: u32 = 8;

/// The most waits that sleep before polling is tried again: what is polled in vain is next to nothing then.
const PAUSE_MAX: u32 = 1024;

/// Whoever is away from the core for longer than this gave it to somebody else.
const AWAY_MIN: Duration = Duration::from_micros(30);

/// A core is wanted when others had more than one part in so many of the time since they last had it. What keeps house
/// now and then is no crowd.
const AWAY_ONE_IN: u32 = 8;

/// How long polling stops after somebody else took the core; doubled while that goes on.
const CROWDED_MIN: Duration = Duration::from_millis(1);

/// The longest that polling stops for one such reason.
const CROWDED_MAX: Duration = Duration::from_millis(256);

/// Decides whether a loop that has nothing to do polls or sleeps.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Recent waits that were short enough for polling to be tried.
    short: Memory,
    /// Recent waits that polled, and caught what came.
    caught: Memory,
    /// Waits that will still sleep because polling did not pay.
    pause: u32,
    /// How long the last pause was, less what was caught since.
    paused: u32,
    /// Whether this wait has polled.
    polls: bool,
    wait_began: Duration,
    /// When somebody else last had the core.
    left_at: Duration,
    crowded_until: Duration,
    crowded_for: Duration,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            short: Memory(0),
            caught: Memory(TRIAL),
            pause: 0,
            paused: 0,
            polls: false,
            wait_began: Duration::ZERO,
            left_at: Duration::ZERO,
            crowded_until: Duration::ZERO,
            crowded_for: CROWDED_MIN,
        }
    }
}

impl Rule {
    /// The loop ran out of work.
    pub fn begin(&mut self, now: Duration) {
        self.wait_began = now;
        self.polls = false;
        self.pause = self.pause.saturating_sub(1);
    }

    /// Whether to look once more or to sleep.
    pub fn step(&mut self, now: Duration) -> Step {
        let waited = now.saturating_sub(self.wait_began);
        let may = self.short.0 >= PAID_MIN && self.pause == 0;
        if may && waited < POLL_MAX && now >= self.crowded_until {
            self.polls = true;
            Step::Poll
        } else {
            Step::Sleep
        }
    }

    /// Work came, however the loop waited for it.
    pub fn came(&mut self, now: Duration) {
        let waited = now.saturating_sub(self.wait_began);
        self.learn(waited < POLL_MAX + WAKE_MAX, waited < POLL_MAX);
    }

    /// The loop's own time was up and no work had come.
    pub(crate) fn nothing_came(&mut self) {
        self.learn(false, false);
    }

    fn learn(&mut self, was_short: bool, was_caught: bool) {
        self.short.add(was_short);
        if !self.polls {
            return;
        }
        self.caught.add(was_caught);
        if was_caught {
            self.paused /= 2;
        }
        if self.caught.0 < PAID_MIN {
            self.paused = (2 * self.paused).clamp(PAUSE_MIN, PAUSE_MAX);
            self.pause = self.paused;
            self.caught = Memory(TRIAL);
        }
    }

    /// The loop offered its core to others and was `away` until `now`.
    pub fn left(&mut self, away: Duration, now: Duration) {
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

/// Of 256 recent waits, how many were of a kind.
#[derive(Clone, Copy, Debug)]
struct Memory(u32);

impl Memory {
    fn add(&mut self, one: bool) {
        self.0 -= self.0 >> MEMORY_SHIFT;
        if one {
            self.0 += 256 >> MEMORY_SHIFT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Waits that end after `gap`, one after the other, from `start` on; says when the last ended.
    fn waits(rule: &mut Rule, start: Duration, gap: Duration, count: u32) -> Duration {
        polled(rule, start, gap, count).0
    }

    /// The same; says besides how long was polled.
    fn polled(rule: &mut Rule, start: Duration, gap: Duration, count: u32) -> (Duration, Duration) {
        let (mut now, mut polled) = (start, Duration::ZERO);
        for _ in 0..count {
            rule.begin(now);
            let (came, mut look) = (now + gap, now);
            while look < came && rule.step(look) == Step::Poll {
                look += us(1);
            }
            polled += look - now;
            // Who sleeps is woken a little late.
            now = if look < came { came + us(30) } else { came };
            rule.came(now);
        }
        (now, polled)
    }

    #[test]
    fn a_new_loop_sleeps() {
        let mut rule = Rule::default();
        rule.begin(us(5));
        assert_eq!(rule.step(us(5)), Step::Sleep);
    }

    #[test]
    fn requests_that_keep_coming_are_polled_for_but_not_for_long() {
        let mut rule = Rule::default();
        let now = waits(&mut rule, us(0), us(5), 40);
        rule.begin(now);
        assert_eq!(rule.step(now), Step::Poll);
        assert_eq!(rule.step(now + us(59)), Step::Poll);
        assert_eq!(rule.step(now + us(60)), Step::Sleep);
    }

    #[test]
    fn polling_ends_when_it_no_longer_pays() {
        let mut rule = Rule::default();
        let busy = waits(&mut rule, us(0), us(5), 1000);
        let calm = waits(&mut rule, busy, us(200), 3);
        rule.begin(calm);
        assert_eq!(rule.step(calm), Step::Sleep);
    }

    #[test]
    fn a_sleep_that_being_woken_made_long_does_not_hide_that_polling_would_pay() {
        let mut rule = Rule::default();
        let now = waits(&mut rule, us(0), us(50), 30);
        let (_, polled) = polled(&mut rule, now, us(50), 1000);
        assert!(polled > us(900 * 50), "{polled:?}");
    }

    #[test]
    fn what_comes_just_too_late_is_hardly_polled_for() {
        let mut rule = Rule::default();
        let (_, polled) = polled(&mut rule, us(0), us(80), 100_000);
        assert!(polled < us(100_000 * 80) / 200, "{polled:?}");
    }

    #[test]
    fn one_late_request_in_six_is_no_reason_to_sleep() {
        let mut rule = Rule::default();
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
        let mut rule = Rule::default();
        let calm = waits(&mut rule, us(0), us(1000), 100);
        let busy = waits(&mut rule, calm, us(8), 30);
        rule.begin(busy);
        assert_eq!(rule.step(busy), Step::Poll);
    }

    #[test]
    fn ticks_of_an_idle_loop_never_lead_to_polling() {
        let mut rule = Rule::default();
        for second in 0..1000 {
            rule.begin(Duration::from_secs(second));
            rule.nothing_came();
            assert_eq!(rule.step(Duration::from_secs(second)), Step::Sleep);
        }
    }

    #[test]
    fn a_wanted_core_is_left_for_longer_each_time() {
        let mut rule = Rule::default();
        let mut now = waits(&mut rule, us(0), us(5), 100);
        let mut breaks = Vec::new();
        for _ in 0..12 {
            rule.begin(now);
            assert_eq!(rule.step(now), Step::Poll);
            rule.left(us(500), now);
            let break_began = now;
            while rule.step(now) == Step::Sleep {
                now += us(100);
                rule.begin(now);
            }
            breaks.push(now - break_began);
        }
        assert!(breaks[1] > breaks[0]);
        assert!(breaks.iter().all(|pause| *pause <= CROWDED_MAX + us(100)));
        assert_eq!(breaks[11], CROWDED_MAX);

        now += Duration::from_secs(2);
        rule.begin(now);
        rule.left(us(500), now);
        now += CROWDED_MIN;
        rule.begin(now);
        assert_eq!(rule.step(now), Step::Poll, "long quiet forgets the crowd");
    }

    #[test]
    fn who_keeps_house_a_hundredth_of_the_time_is_no_crowd() {
        let mut rule = Rule::default();
        let mut now = waits(&mut rule, us(0), us(5), 100);
        for _ in 0..1000 {
            now = waits(&mut rule, now, us(10), 1000);
            rule.begin(now);
            assert_eq!(rule.step(now), Step::Poll);
            now += us(100);
            rule.left(us(100), now);
            assert_eq!(rule.step(now - us(50)), Step::Poll);
        }
    }

    #[test]
    fn an_idle_core_given_away_comes_back_at_once_and_changes_nothing() {
        let mut rule = Rule::default();
        let now = waits(&mut rule, us(0), us(5), 100);
        rule.begin(now);
        rule.left(us(1), now);
        assert_eq!(rule.step(now), Step::Poll);
    }
}
