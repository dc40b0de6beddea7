//! How many blocks a node wants from others.
//!
//! A node is short if its tenants evict pages for lack of memory while its arena cannot grow. It wants as much as they
//! evicted in the last 10 s. Borrowed blocks that hold nothing serve for that first. If there are more than twice as
//! many, the node wants fewer blocks than it has. In between it wants what it has, so that it does not give back and
//! ask again in turns.

use std::collections::VecDeque;
use std::time::Duration;

use sublet_types::{BLOCK_BYTES, PAGE_BYTES};

/// Evictions count for this long.
pub const EVICTED_WITHIN: Duration = Duration::from_secs(10);

/// Evictions are summed over this time. So the window is exact to a fortieth.
const STRETCH: Duration = Duration::from_millis(250);

/// The most stretches that are kept.
const STRETCHES_MAX: usize = 41;

/// Of what was evicted of late, at most so many times as much stays borrowed without holding anything.
const IDLE_TIMES_MAX: u32 = 2;

const PAGES_PER_BLOCK: u64 = BLOCK_BYTES / PAGE_BYTES;

/// Whether the arena may take more of the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaGrowth {
    /// It may. Evictions at such a time are no want.
    Possible,
    /// It is as large as it may be.
    Exhausted,
}

/// What a node has of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorrowedBlocks {
    /// All that it has.
    pub all: u32,
    /// Those of them that hold nothing and can go back.
    pub idle: u32,
}

impl BorrowedBlocks {
    /// Those that hold pages, or are kept ready for some.
    fn in_use(self) -> u32 {
        self.all.saturating_sub(self.idle)
    }
}

/// Measures what a node wants, from the number of pages that its tenants with `borrow` evicted.
#[derive(Clone, Debug, Default)]
pub struct WantedMeter {
    /// The count at the last record.
    evicted: Option<u64>,
    /// The beginning of each stretch with the pages evicted in it, oldest first.
    stretches: VecDeque<(Duration, u64)>,
}

impl WantedMeter {
    /// Records how many pages have been evicted for lack of memory since the start. The first record counts none. A
    /// count below the one before it begins anew.
    pub fn record(&mut self, now: Duration, evicted: u64, growth: ArenaGrowth) {
        let before = self.evicted.replace(evicted).unwrap_or(evicted);
        let pages = evicted.saturating_sub(before);
        if growth == ArenaGrowth::Exhausted && pages > 0 {
            match self.stretches.back_mut() {
                Some((began, sum)) if now.saturating_sub(*began) < STRETCH => *sum += pages,
                _ => self.stretches.push_back((now, pages)),
            }
        }
        self.forget(now);
    }

    fn forget(&mut self, now: Duration) {
        let is_old = |began: Duration| now.saturating_sub(began) >= EVICTED_WITHIN;
        while self
            .stretches
            .front()
            .is_some_and(|(began, _)| is_old(*began))
            || self.stretches.len() > STRETCHES_MAX
        {
            self.stretches.pop_front();
        }
    }

    /// How many blocks the node wants in all: those in use, and idle ones for what its tenants evicted of late. It
    /// never wants more than `borrow_max`. Blocks are rounded up. The idle ones that it has beyond that go back.
    pub fn wanted(&mut self, now: Duration, borrowed: BorrowedBlocks, borrow_max: u32) -> u32 {
        self.forget(now);
        let pages: u64 = self.stretches.iter().map(|(_, pages)| pages).sum();
        let evicted = u32::try_from(pages.div_ceil(PAGES_PER_BLOCK)).unwrap_or(u32::MAX);
        let idle_max = evicted.saturating_mul(IDLE_TIMES_MAX);
        let idle = borrowed.idle.clamp(evicted, idle_max);
        borrowed.in_use().saturating_add(idle).min(borrow_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn in_use(all: u32) -> BorrowedBlocks {
        BorrowedBlocks { all, idle: 0 }
    }

    #[test]
    fn evictions_of_ten_seconds_count_if_the_arena_could_not_grow() {
        let mut meter = WantedMeter::default();
        meter.record(millis(0), 7_000_000, ArenaGrowth::Exhausted);
        assert_eq!(meter.wanted(millis(0), in_use(0), 100), 0);
        meter.record(millis(1000), 7_000_001, ArenaGrowth::Exhausted);
        assert_eq!(meter.wanted(millis(1000), in_use(0), 100), 1);
        meter.record(millis(2000), 7_000_512, ArenaGrowth::Exhausted);
        assert_eq!(meter.wanted(millis(2000), in_use(0), 100), 1);
        meter.record(millis(3000), 7_000_513, ArenaGrowth::Exhausted);
        assert_eq!(meter.wanted(millis(3000), in_use(0), 100), 2);
        meter.record(millis(4000), 8_000_000, ArenaGrowth::Possible);
        assert_eq!(meter.wanted(millis(4000), in_use(5), 100), 7);
        assert_eq!(meter.wanted(millis(4000), in_use(5), 6), 6);
        assert_eq!(meter.wanted(millis(4000), in_use(9), 6), 6);
        assert_eq!(meter.wanted(millis(10_999), in_use(0), 100), 2);
        assert_eq!(meter.wanted(millis(11_000), in_use(0), 100), 1);
        assert_eq!(meter.wanted(millis(13_000), in_use(5), 100), 5);
    }

    #[test]
    fn it_keeps_few_stretches_and_a_count_that_falls_is_no_want() {
        let mut meter = WantedMeter::default();
        for n in 0..100_000u64 {
            meter.record(millis(n), n * 512, ArenaGrowth::Exhausted);
            assert!(meter.stretches.len() <= STRETCHES_MAX);
        }
        let wanted = meter.wanted(millis(100_000), in_use(0), u32::MAX);
        assert!((9_750..=10_000).contains(&wanted), "{wanted}");
        meter.record(millis(200_000), 5, ArenaGrowth::Exhausted);
        assert_eq!(meter.wanted(millis(200_000), in_use(0), 100), 0);
    }

    #[test]
    fn idle_blocks_serve_first_and_what_is_more_than_twice_as_much_is_not_wanted() {
        let mut meter = WantedMeter::default();
        meter.record(millis(0), 0, ArenaGrowth::Exhausted);
        meter.record(millis(1000), 4 * 512, ArenaGrowth::Exhausted);
        let mut wanted = |millis_now, idle| {
            let borrowed = BorrowedBlocks { all: 20, idle };
            meter.wanted(millis(millis_now), borrowed, 100)
        };
        let of_idle: Vec<u32> = [0, 1, 3, 4, 5, 8, 9, 12, 20]
            .into_iter()
            .map(|idle| wanted(1000, idle))
            .collect();
        assert_eq!(of_idle, [24, 23, 21, 20, 20, 20, 19, 16, 8]);
        assert_eq!(wanted(11_000, 0), 20, "nothing was evicted of late");
        assert_eq!(wanted(11_000, 7), 13);
        assert_eq!(
            wanted(11_000, 30),
            0,
            "some have gone since they were counted"
        );
    }

    /// What varies by less than half does not make a node give back and ask again.
    #[test]
    fn evictions_that_vary_a_little_change_nothing() {
        let mut meter = WantedMeter::default();
        let (mut evicted, mut borrowed) = (0, BorrowedBlocks::default());
        for second in 0..200u64 {
            evicted += 512 * (6 + second % 3);
            meter.record(millis(1000 * second), evicted, ArenaGrowth::Exhausted);
            let wanted = meter.wanted(millis(1000 * second), borrowed, 1000);
            assert!(wanted >= borrowed.all, "second {second}: {wanted}");
            // None of them is filled.
            borrowed = BorrowedBlocks {
                all: wanted,
                idle: wanted,
            };
        }
        assert!((70..=80).contains(&borrowed.all), "{borrowed:?}");
    }
}
