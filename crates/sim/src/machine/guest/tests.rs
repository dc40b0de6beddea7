use sublet_types::{Bytes, Pages, Shrinking};

use super::*;
use crate::chance::Chance;
use crate::judges::{CountedAfter, Court, Judged};
use crate::machine::disk::DiskSpeed;
use crate::machine::tier_map::{MapTier, NoTier};

const COSTS: Costs = Costs {
    touch: Nanos(1),
    fault: Nanos(10),
    put: Nanos(100),
    get: Nanos(1_000),
    refusal: Nanos(10_000),
};

fn guest(memory_pages: usize, read_ahead: u32) -> Guest {
    guest_of(memory_pages, read_ahead, SwapAhead::Fixed)
}

fn guest_of(memory_pages: usize, read_ahead: u32, swap_ahead: SwapAhead) -> Guest {
    Guest::of(GuestShape {
        tenant: TenantId(0),
        memory_pages,
        swap_pages: 4096,
        read_ahead,
        swap_ahead,
        after_swap_in: AfterSwapIn::Keep,
        costs: COSTS,
    })
}

/// A request takes 1 ms, a page 1 µs.
fn disk() -> Disk {
    Disk::of(DiskSpeed {
        latency_us: 1_000,
        bandwidth: Bytes(4096 * 1_000_000),
        channels: 1,
        backlog: Bytes::gib(1),
    })
}

fn map(pages: u64) -> MapTier {
    MapTier::of(Pages(pages), 1, Shrinking::Active)
}

struct Bench<T> {
    guest: Guest,
    tier: T,
    disk: Disk,
    now: Moment,
}

impl<T: Tier> Bench<T> {
    fn of(guest: Guest, tier: T) -> Bench<T> {
        Bench {
            guest,
            tier,
            disk: disk(),
            now: Moment::START,
        }
    }

    /// Does a step; returns the nanoseconds that it took.
    fn step(&mut self, step: Step) -> u64 {
        let mut around = Surroundings {
            tier: &mut self.tier,
            disk: &mut self.disk,
        };
        let done = self
            .guest
            .step(&step, self.now, &mut around)
            .expect("swap space");
        let took = done.since(self.now).0;
        self.now = done;
        took
    }

    fn touch(&mut self, page: u64, write: bool) -> u64 {
        self.step(Step::Touch { page, write })
    }

    fn read(&mut self, from: u32, count: u32, end: u32) -> u64 {
        self.step(Step::Read(FileSpan {
            object: 5,
            from,
            count,
            end,
        }))
    }
}

#[test]
fn swapped_pages_come_back_from_the_tier_with_their_window() {
    let mut bench = Bench::of(guest(16, 8), map(1000));
    (0..32).for_each(|page| {
        bench.touch(page, true);
    });
    assert_eq!(bench.guest.counts.puts, 16);
    // Pages 0 to 7 lie in the first window of slots; bringing them in pushes eight others out.
    let took = bench.touch(3, false);
    assert_eq!(took, 1 + 10 + 8 * 1_000 + 8 * 100);
    assert_eq!(bench.guest.counts.tier_hits, 8);
    assert_eq!(bench.touch(4, false), 1);
    assert_eq!(bench.disk.counts.reads, 0);
}

#[test]
fn without_a_tier_a_window_is_one_read_of_the_disk() {
    let mut bench = Bench::of(guest(16, 8), NoTier::of(1));
    (0..32).for_each(|page| {
        bench.touch(page, true);
    });
    bench.now = Moment(1_000_000_000);
    let took = bench.touch(3, false);
    // The page waits for its window; what left for it is written behind that.
    assert_eq!(
        (bench.disk.counts.reads, bench.disk.counts.pages_read),
        (1, 8)
    );
    assert!((1_008_000..1_200_000).contains(&took), "{took}");
    assert_eq!(bench.guest.counts.disk_pages_written, 24);
}

/// The slots that each touch brings in from the disk; pages 0 to 63 are swapped out, in this order.
fn windows_of(touches: &[u64]) -> Vec<u64> {
    let guest = guest_of(64, 8, SwapAhead::Adaptive);
    let mut bench = Bench::of(guest, NoTier::of(1));
    (0..128).for_each(|page| {
        bench.touch(page, true);
    });
    let mut read = bench.disk.counts.pages_read;
    let windows = touches.iter().map(|page| {
        bench.touch(*page, false);
        let before = std::mem::replace(&mut read, bench.disk.counts.pages_read);
        read - before
    });
    windows.collect()
}

#[test]
fn swap_read_ahead_follows_what_it_is_used_for() {
    // Nothing of what is read ahead is used: 8 at first, then half each time.
    assert_eq!(windows_of(&[0, 16, 32, 48, 60]), [8, 4, 2, 1, 1]);
    // Slot 60 reads itself; 61 is its neighbour, and the window of two begins at 60, which is in memory; so does that
    // of 62, which brings 63 in, whose use is a hit: that pays for four, of which none is left but the one asked for.
    assert_eq!(
        windows_of(&[0, 16, 32, 48, 60, 61, 62, 63, 40]),
        [8, 4, 2, 1, 1, 1, 2, 0, 4]
    );
    // All that is read ahead is used: windows stay whole.
    let all: Vec<u64> = (0..24).collect();
    let whole = (0..24).map(|page| match page % 8 {
        0 => 8,
        _ => 0,
    });
    assert_eq!(windows_of(&all), whole.collect::<Vec<u64>>());
}

#[test]
fn who_waits_for_the_disk_is_known_to() {
    let mut bench = Bench::of(guest(100, 8), NoTier::of(1));
    let took = bench.read(0, 8, 8);
    // A fault, eight touches and as many misses of the tier are work; the request's 1 ms and 8 µs are not.
    assert_eq!(bench.guest.waited(), Nanos(1_008_000));
    assert_eq!(took - bench.guest.waited().0, 8 + 10 + 8 * 10_000);
    let until = bench.now + Nanos(77);
    bench.step(Step::Until(until));
    assert_eq!(bench.guest.waited(), Nanos(1_008_077));
}

#[test]
fn a_page_that_was_not_written_keeps_its_place_in_the_tier() {
    let mut bench = Bench::of(guest(16, 1), map(1000));
    (0..17).for_each(|page| {
        bench.touch(page, true);
    });
    bench.touch(0, false);
    let puts = bench.guest.counts.puts;
    (1..17).for_each(|page| {
        bench.touch(page, false);
    });
    // Page 0 went out again without a put, then others with theirs.
    bench.touch(0, false);
    assert_eq!(bench.tier.census().tenants[0].flushes, 0);
    assert!(bench.guest.counts.puts <= puts + 15);
    bench.touch(0, true);
    assert_eq!(bench.tier.census().tenants[0].flushes, 1);
}

#[test]
fn with_exclusive_gets_the_tier_loses_what_it_gave() {
    let mut guest = guest(16, 1);
    guest.shape.after_swap_in = AfterSwapIn::Free;
    let mut bench = Bench::of(guest, map(1000));
    (0..17).for_each(|page| {
        bench.touch(page, true);
    });
    assert_eq!(bench.tier.census().tenants[0].used, Pages(1));
    bench.touch(0, false);
    // Page 0 came back and left its slot; page 1 went out for it.
    assert_eq!(bench.tier.census().tenants[0].used, Pages(1));
    assert_eq!(bench.tier.census().tenants[0].flushes, 1);
}

#[test]
fn freed_memory_leaves_the_tier_too() {
    let mut bench = Bench::of(guest(16, 8), map(1000));
    (0..100).for_each(|page| {
        bench.touch(page, true);
    });
    bench.step(Step::Release {
        from: 0,
        count: 100,
    });
    assert_eq!(bench.tier.census().tenants[0].used, Pages(0));
    assert_eq!(bench.guest.memory.len(), 0);
}

#[test]
fn reads_that_follow_one_another_are_read_ahead_to_the_end_of_the_file() {
    let mut bench = Bench::of(guest(100, 8), NoTier::of(1));
    bench.read(0, 1, 10);
    assert_eq!(bench.disk.counts.pages_read, 8);
    bench.read(1, 7, 10);
    assert_eq!(bench.disk.counts.reads, 1);
    bench.read(8, 1, 10);
    assert_eq!(
        (bench.disk.counts.reads, bench.disk.counts.pages_read),
        (2, 10)
    );
    // A jump brings in what was asked for and no more.
    bench.read(50, 2, 1000);
    assert_eq!(
        (bench.disk.counts.reads, bench.disk.counts.pages_read),
        (3, 12)
    );
}

#[test]
fn a_window_that_is_partly_in_the_tier_is_fragmented() {
    let mut bench = Bench::of(guest(8, 8), map(4));
    bench.read(0, 8, 8);
    bench.step(Step::Read(FileSpan {
        object: 6,
        from: 0,
        count: 8,
        end: 8,
    }));
    // Of file 5's eight pages the tier had room for the last four.
    bench.read(0, 8, 8);
    assert_eq!(bench.guest.counts.tier_hits, 4);
    assert_eq!(bench.guest.counts.windows_fragmented, 1);
}

#[test]
fn a_dirty_file_page_reaches_the_disk_before_the_tier() {
    let mut bench = Bench::of(guest(4, 1), map(100));
    let span = |from, count| FileSpan {
        object: 5,
        from,
        count,
        end: 100,
    };
    bench.step(Step::Write(span(0, 4)));
    assert_eq!(bench.disk.counts.writes, 0);
    bench.step(Step::Write(span(4, 4)));
    assert_eq!(bench.disk.counts.pages_written, 4);
    assert_eq!(bench.tier.census().tenants[0].used, Pages(4));
    bench.step(Step::Delete {
        object: 5,
        pages: 100,
    });
    assert_eq!(bench.tier.census().tenants[0].used, Pages(0));
}

#[test]
fn whatever_it_does_the_judges_find_nothing_wrong() {
    for after_swap_in in [AfterSwapIn::Keep, AfterSwapIn::Free] {
        for tier_pages in [0, 10, 60, 10_000] {
            let mut inner = map(tier_pages);
            let judged = Judged::of(
                &mut inner,
                Court::full(1, Shrinking::Active),
                CountedAfter::EACH,
            );
            let mut guest = guest(32, 8);
            guest.shape.after_swap_in = after_swap_in;
            guest.swap_ahead = Ahead::of(SwapAhead::Adaptive, 8);
            let mut bench = Bench::of(guest, judged);
            let mut chance = Chance::seeded(tier_pages);
            for n in 0..20_000 {
                let step = any_step(&mut chance);
                bench.step(step);
                assert!(bench.guest.memory.len() <= 32);
                if n % 1000 == 0 {
                    let target = (n % 2000 == 0).then_some(Pages(30));
                    bench.tier.set_target(TenantId(0), target, bench.now);
                    bench.tier.chores(bench.now);
                }
            }
            assert_eq!(bench.tier.court.verdicts, []);
            assert_eq!(
                bench.guest.counts.pages_wrong + bench.guest.counts.pages_lost,
                0
            );
        }
    }
}

fn any_step(chance: &mut Chance) -> Step {
    let from = chance.below(100) as u32;
    let span = FileSpan {
        object: chance.below(5),
        from,
        count: 1 + chance.below(12) as u32,
        end: 120,
    };
    match chance.below(100) {
        0 => Step::Delete {
            object: span.object,
            pages: 120,
        },
        1 => Step::Release {
            from: chance.below(150),
            count: chance.below(20),
        },
        2..25 => Step::Write(span),
        25..60 => Step::Read(span),
        _ => Step::Touch {
            page: chance.below(150),
            write: chance.happens(0.4),
        },
    }
}
