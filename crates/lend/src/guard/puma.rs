//! PUMA's rule: a short and a long average of pings, each with constant thresholds.

use std::time::Duration;

use super::average::MovingAverage;
use super::lender_guard::PING_INTERVAL;

/// The short average covers the last 15 seconds.
const SHORT_PINGS: usize = (15_000 / PING_INTERVAL.as_millis()) as usize;

/// The paper gives no length for the long average. Ten minutes are ours. With less than 400 s the long average would
/// meet its threshold before a peak meets the short one's, and the short one would do nothing.
const LONG_PINGS: u32 = (600_000 / PING_INTERVAL.as_millis()) as u32;

/// The short average opens the guard below the first and shuts it from the second on.
const SHORT_RANGE: [Duration; 2] = [Duration::from_micros(1500), Duration::from_millis(40)];

/// The same for the long average.
const LONG_RANGE: [Duration; 2] = [Duration::from_millis(1), Duration::from_micros(1500)];

/// What two averages of a lender's pings ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PingVerdict {
    /// One of them is too high.
    Shut,
    /// Both are low.
    Open,
    /// They are in between.
    Keep,
}

/// The two averages of a lender's pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PumaAverages {
    /// The last pings, in microseconds, the oldest at `next`.
    recent: [u32; SHORT_PINGS],
    next: usize,
    long: MovingAverage,
    /// Pings so far, at most [`LONG_PINGS`].
    pings: u32,
}

impl PumaAverages {
    /// Starts both averages with a first ping.
    pub(super) fn new(ping: Duration) -> PumaAverages {
        PumaAverages {
            recent: [micros(ping); SHORT_PINGS],
            next: 0,
            long: MovingAverage::new(ping),
            pings: 1,
        }
    }

    /// Adds a ping.
    pub(super) fn add(&mut self, ping: Duration) {
        self.recent[self.next] = micros(ping);
        self.next = (self.next + 1) % SHORT_PINGS;
        self.pings = (self.pings + 1).min(LONG_PINGS);
        self.long.add(ping, self.pings);
    }

    /// Returns what the averages ask for.
    pub(super) fn verdict(&self) -> PingVerdict {
        let (short, long) = (self.short(), self.long.get());
        if short >= SHORT_RANGE[1] || long >= LONG_RANGE[1] {
            PingVerdict::Shut
        } else if short < SHORT_RANGE[0] && long < LONG_RANGE[0] {
            PingVerdict::Open
        } else {
            PingVerdict::Keep
        }
    }

    fn short(&self) -> Duration {
        let sum: u64 = self.recent.iter().copied().map(u64::from).sum();
        Duration::from_micros(sum / SHORT_PINGS as u64)
    }
}

fn micros(latency: Duration) -> u32 {
    u32::try_from(latency.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// The averages of a lender that answered in 25 µs for ten minutes.
    fn calm() -> PumaAverages {
        let mut averages = PumaAverages::new(us(25));
        (0..LONG_PINGS).for_each(|_| averages.add(us(25)));
        averages
    }

    /// Adds pings of `ping` until the verdict is `wanted`. Returns how many that took.
    fn pings_until(averages: &mut PumaAverages, wanted: PingVerdict, ping: Duration) -> u32 {
        (1..=2 * LONG_PINGS)
            .find(|_| {
                averages.add(ping);
                averages.verdict() == wanted
            })
            .expect("the averages come to it")
    }

    #[test]
    fn the_first_ping_is_the_average() {
        assert_eq!(PumaAverages::new(us(999)).verdict(), PingVerdict::Open);
        assert_eq!(PumaAverages::new(us(1000)).verdict(), PingVerdict::Keep);
        assert_eq!(PumaAverages::new(us(1499)).verdict(), PingVerdict::Keep);
        assert_eq!(PumaAverages::new(us(1500)).verdict(), PingVerdict::Shut);
    }

    #[test]
    fn a_peak_shuts_by_the_short_average() {
        let mut averages = calm();
        let pings = pings_until(&mut averages, PingVerdict::Shut, us(500_000));
        assert_eq!(pings, 12, "12 of 150 pings of 500 ms are 40 ms");
        assert!(averages.long.get() < LONG_RANGE[1]);
    }

    #[test]
    fn a_lasting_latency_shuts_by_the_long_average() {
        let mut averages = calm();
        let pings = pings_until(&mut averages, PingVerdict::Shut, us(2025));
        assert!(averages.short() < SHORT_RANGE[1]);
        assert!((8000..9000).contains(&pings), "{pings}: 1.35 × ten minutes");
    }

    #[test]
    fn the_short_average_forgets_after_15_seconds() {
        let mut averages = calm();
        averages.add(us(6_100_000));
        assert_eq!(averages.verdict(), PingVerdict::Shut);
        let pings = pings_until(&mut averages, PingVerdict::Keep, us(25));
        assert_eq!(pings, 150);
    }

    #[test]
    fn no_ping_is_too_long() {
        let mut averages = PumaAverages::new(Duration::MAX);
        averages.add(Duration::MAX);
        assert_eq!(averages.verdict(), PingVerdict::Shut);
    }
}
