//! What serving borrowers may cost this host: processor time, and bytes of pages.

use std::time::Duration;

use super::rate_bucket::RateBucket;

/// Nanoseconds of a second that one percent of a core is.
const NANOS_PER_PERCENT: u64 = 10_000_000;

/// Processor time that all threads may use for borrowers (`lend.cpu`), averaged over a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuShare {
    /// As much as the threads get.
    Unbounded,
    /// This percentage of one core.
    Percent(u32),
}

/// Bytes of pages a second that go to and come from all borrowers together (`lend.rate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingRate {
    /// As many as the network carries.
    Unbounded,
    /// This many.
    BytesPerSecond(u64),
}

/// What serving has cost a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServingCost {
    pub(super) cpu: Duration,
    pub(super) page_bytes: u64,
}

/// The bounds of all threads together.
#[derive(Debug)]
pub(super) struct ServingBudget {
    cpu: Option<RateBucket>,
    rate: Option<RateBucket>,
}

impl ServingBudget {
    /// A budget of which nothing is spent.
    pub(super) fn new(cpu: CpuShare, rate: ServingRate, now: Duration) -> ServingBudget {
        ServingBudget {
            cpu: match cpu {
                CpuShare::Unbounded => None,
                CpuShare::Percent(percent) => {
                    let nanos = u64::from(percent) * NANOS_PER_PERCENT;
                    Some(RateBucket::new(nanos, now))
                }
            },
            rate: match rate {
                ServingRate::Unbounded => None,
                ServingRate::BytesPerSecond(bytes) => Some(RateBucket::new(bytes, now)),
            },
        }
    }

    /// Counts what serving has cost.
    pub(super) fn spend(&mut self, cost: ServingCost) {
        if let Some(cpu) = &mut self.cpu {
            cpu.spend(u64::try_from(cost.cpu.as_nanos()).unwrap_or(u64::MAX));
        }
        if let Some(rate) = &mut self.rate {
            rate.spend(cost.page_bytes);
        }
    }

    /// How long borrowers must wait now.
    pub(super) fn delay(&mut self, now: Duration) -> Duration {
        let buckets = self.cpu.iter_mut().chain(&mut self.rate);
        let waits = buckets.map(|bucket| bucket.delay(now));
        waits.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_bound_makes_borrowers_wait() {
        let cost = ServingCost {
            cpu: Duration::from_millis(300),
            page_bytes: 2000,
        };
        let waits = |cpu, rate| {
            let mut budget = ServingBudget::new(cpu, rate, Duration::ZERO);
            budget.spend(cost);
            budget.delay(Duration::ZERO)
        };
        let (cpu, rate) = (CpuShare::Percent(25), ServingRate::BytesPerSecond(1000));
        assert_eq!(
            waits(CpuShare::Unbounded, ServingRate::Unbounded),
            Duration::ZERO
        );
        assert_eq!(
            waits(CpuShare::Percent(31), ServingRate::Unbounded),
            Duration::ZERO
        );
        let by_cpu = waits(cpu, ServingRate::Unbounded);
        assert!(by_cpu > Duration::from_millis(199) && by_cpu < Duration::from_millis(201));
        assert!(waits(CpuShare::Unbounded, rate) > Duration::from_millis(999));
        assert!(waits(cpu, rate) > Duration::from_millis(999));
    }
}
