//! How long the courier lets pages gather in the outbox before it looks for them again.

use std::time::Duration;

use super::write_message::BATCH_PAGES_MAX;

/// How long pages may wait for others, so that a message has many.
const GATHER_TIME: Duration = Duration::from_micros(200);

/// How long they may wait at most while they come one by one. A message costs either host some 10 µs beside its pages,
/// and a page in the outbox is read from there. At 250,000 pages a second 500 come meanwhile, half of the outbox.
const GATHER_TIME_MAX: Duration = Duration::from_millis(2);

/// A message is worth its cost if it has as many pages.
const WORTH_PAGES: usize = BATCH_PAGES_MAX / 2;

/// How long the courier sleeps at most when no page came lately. It doubles its pauses up to there.
const IDLE_PAUSE_MAX: Duration = Duration::from_millis(5);

/// What a look at a lender's leases came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CarryOutcome {
    /// Nothing waits, or nothing can be sent.
    Nothing,
    /// Pages that are hardly worth a message.
    Few,
    /// Fewer pages than a message has.
    Some,
    /// A whole message. More may wait.
    Full,
}

impl CarryOutcome {
    /// What a look came to that found as many pages of a lease.
    pub(super) fn of_pages(pages: usize) -> CarryOutcome {
        match pages {
            0 => CarryOutcome::Nothing,
            1..WORTH_PAGES => CarryOutcome::Few,
            WORTH_PAGES..BATCH_PAGES_MAX => CarryOutcome::Some,
            _ => CarryOutcome::Full,
        }
    }
}

/// The pause between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GatherPace(Duration);

impl Default for GatherPace {
    fn default() -> GatherPace {
        GatherPace(GATHER_TIME)
    }
}

impl GatherPace {
    /// Returns how long to wait after a look.
    pub(super) fn after(&mut self, outcome: CarryOutcome) -> Duration {
        let longer = |most| (self.0 * 2).clamp(GATHER_TIME, most);
        self.0 = match outcome {
            CarryOutcome::Full => Duration::ZERO,
            CarryOutcome::Some => self.0.clamp(GATHER_TIME, GATHER_TIME_MAX),
            CarryOutcome::Few => longer(GATHER_TIME_MAX),
            CarryOutcome::Nothing => longer(IDLE_PAUSE_MAX),
        };
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks of a second, and the longest pause, where pages come at a rate.
    fn second(pages_per_second: u64) -> (usize, Duration) {
        let mut pace = GatherPace::default();
        let (mut now, mut looks, mut longest) = (Duration::ZERO, 0, Duration::ZERO);
        let mut waiting = 0.0;
        while now < Duration::from_secs(1) {
            let took = (waiting as usize).min(BATCH_PAGES_MAX);
            waiting -= took as f64;
            let pause = pace.after(CarryOutcome::of_pages(took));
            longest = longest.max(pause);
            // A look takes some time itself.
            let passed = pause + Duration::from_micros(5);
            waiting += pages_per_second as f64 * passed.as_secs_f64();
            now += passed;
            looks += 1;
        }
        assert!(waiting < 1024.0, "{waiting} pages wait");
        (looks, longest)
    }

    #[test]
    fn pages_that_come_one_by_one_make_few_messages() {
        let (looks, longest) = second(4000);
        assert!(looks < 600, "{looks}");
        assert!(longest <= GATHER_TIME_MAX);
    }

    #[test]
    fn pages_that_come_fast_do_not_wait() {
        for rate in [80_000, 200_000, 500_000] {
            let (_, longest) = second(rate);
            assert!(longest <= Duration::from_micros(400), "{rate}: {longest:?}");
        }
    }

    #[test]
    fn pauses_without_a_page_double_up_to_five_milliseconds() {
        let mut pace = GatherPace::default();
        let pauses = [(); 6].map(|()| pace.after(CarryOutcome::Nothing).as_micros());
        assert_eq!(pauses, [400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pace.after(CarryOutcome::Few), GATHER_TIME_MAX);
        assert_eq!(pace.after(CarryOutcome::Full), Duration::ZERO);
        assert_eq!(pace.after(CarryOutcome::Some), GATHER_TIME);
    }

    #[test]
    fn a_look_is_judged_by_its_pages() {
        let judged = [0, 1, 15, 16, 31, 32].map(CarryOutcome::of_pages);
        use CarryOutcome::{Few, Full, Nothing, Some};
        assert_eq!(judged, [Nothing, Few, Few, Some, Some, Full]);
    }
}
