//! How long a node may believe that its lease lives, by its own monotonic clock.
//!
//! ```text
//!  sent                  2/3 of ttl             ttl
//!   ├───────────────────────┼────────────────────┼──────► the node's clock
//!   │ the node may lead     │ it leads no more   │
//!         ├──────────────────────────────────────────┤     the store counts from when the request came
//! ```
//!
//! The store counts from a later moment, so the node stops first. Both clocks may be wrong: 2/3 is 0.8 ÷ 1.2. So the
//! node stops first even if its clock is 20 % slow and the store's 20 % quick.

use std::time::Duration;

/// A lease's time as a node counts it. All moments are those of one monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseClock {
    sent: Duration,
    ttl: Duration,
}

impl LeaseClock {
    /// Begins when the request left that granted or renewed the lease. The store counts from a later moment.
    pub fn new(sent: Duration, ttl: Duration) -> LeaseClock {
        LeaseClock { sent, ttl }
    }

    /// Returns until when the node may lead.
    pub fn leads_until(self) -> Duration {
        self.sent + self.ttl / 3 * 2
    }

    /// Returns when the lease is to be renewed next. The rest of [`LeaseClock::leads_until`] is for one try that fails
    /// and one that does not.
    pub fn renew_at(self) -> Duration {
        self.sent + self.ttl / 4
    }

    /// Returns whether the node may lead at that moment.
    pub fn may_lead(self, now: Duration) -> bool {
        now < self.leads_until()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The store's lease begins when the request arrives. Whatever the delay and the two clocks' errors up to 20 %, the
    /// node stops before the lease ends.
    #[test]
    fn the_node_stops_before_the_store_lets_another_win() {
        for ttl_ms in [2_000, 5_000, 8_000_u32] {
            for delay_ms in [0, 1, 500_u32] {
                for (node_rate, store_rate) in [(0.8, 1.2), (1.0, 1.0), (1.2, 0.8), (0.8, 0.8)] {
                    let ttl = Duration::from_millis(ttl_ms.into());
                    let clock = LeaseClock::new(Duration::from_secs(1), ttl);
                    let believed = (clock.leads_until() - Duration::from_secs(1)).as_secs_f64();
                    let real_stop = believed / node_rate;
                    let real_end = f64::from(delay_ms) / 1e3 + f64::from(ttl_ms) / 1e3 / store_rate;
                    assert!(
                        real_stop <= real_end + 1e-9,
                        "{ttl:?} {node_rate} {store_rate}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_try_of_a_second_may_fail_before_the_node_stops() {
        let clock = LeaseClock::new(Duration::ZERO, Duration::from_secs(5));
        assert!(clock.renew_at() + Duration::from_secs(2) < clock.leads_until());
        assert!(clock.may_lead(clock.leads_until() - Duration::from_nanos(1)));
        assert!(!clock.may_lead(clock.leads_until()));
    }
}
