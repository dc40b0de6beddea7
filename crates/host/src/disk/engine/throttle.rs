//! A backing that is made slower than it is, for experiments.

use std::time::{Duration, Instant};

use sublet_types::SlowBacking;

/// Says when operations may begin.
pub(super) struct Throttle {
    slow: SlowBacking,
    /// When the bytes before are through.
    busy_until: Option<Instant>,
}

impl Throttle {
    pub(super) fn new(slow: SlowBacking) -> Throttle {
        Throttle {
            slow,
            busy_until: None,
        }
    }

    /// When an operation of this many bytes may begin: after those before it at the bandwidth, plus the latency.
    pub(super) fn admit_at(&mut self, bytes: usize, now: Instant) -> Instant {
        let begin = self.busy_until.map_or(now, |busy| busy.max(now));
        let through = match self.slow.bandwidth {
            Some(bandwidth) => {
                let nanos = bytes as u128 * 1_000_000_000 / u128::from(bandwidth.0.max(1));
                begin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            None => begin,
        };
        self.busy_until = Some(through);
        through + self.slow.latency
    }
}

#[cfg(test)]
mod tests {
    use sublet_types::Bytes;

    use super::*;

    #[test]
    fn bytes_queue_and_latency_does_not() {
        let mut brake = Throttle::new(SlowBacking {
            latency: Duration::from_millis(4),
            bandwidth: Some(Bytes(1_000_000)),
        });
        let now = Instant::now();
        let millis = |at: Instant| (at - now).as_millis();
        assert_eq!(millis(brake.admit_at(1000, now)), 5);
        assert_eq!(millis(brake.admit_at(1000, now)), 6);
        let later = now + Duration::from_millis(10);
        assert_eq!(millis(brake.admit_at(1000, later)), 15);
    }
}
