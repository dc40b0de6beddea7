use sublet_types::{Bytes, Pages, ShrinkMode};

use super::*;
use crate::judges::{CensusInterval, JudgePanel, JudgedTier};
use crate::machine::disk_model::DiskSpeed;
use crate::machine::far_tier::FarTier;
use crate::machine::tier_map::{MapTier, NoTier};
use crate::rng::SimRng;
use crate::traces::PageOp;

const COSTS: GuestCosts = GuestCosts {
    touch: VirtualDuration(1),
    fault: VirtualDuration(10),
    put: VirtualDuration(100),
    get: VirtualDuration(1_000),
    refusal: VirtualDuration(10_000),
    far: VirtualDuration(100_000),
};

fn guest(memory_pages: usize, read_ahead: u32) -> Guest {
    guest_of(memory_pages, read_ahead, SwapReadAheadMode::Fixed)
}

fn guest_of(memory_pages: usize, read_ahead: u32, swap_ahead: SwapReadAheadMode) -> Guest {
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
fn disk() -> DiskModel {
    DiskModel::of(DiskSpeed {
        latency_us: 1_000,
        bandwidth: Bytes(4096 * 1_000_000),
        channels: 1,
        backlog: Bytes::gib(1),
    })
}

fn map(pages: u64) -> MapTier {
    MapTier::of(Pages(pages), 1, ShrinkMode::Active)
}

struct GuestFixture<T> {
    guest: Guest,
    tier: T,
    disk: DiskModel,
    now: VirtualInstant,
}

impl<T: Tier> GuestFixture<T> {
    fn of(guest: Guest, tier: T) -> GuestFixture<T> {
        GuestFixture {
            guest,
            tier,
            disk: disk(),
            now: VirtualInstant::START,
        }
    }

    /// Does a step. Returns the nanoseconds that it took.
    fn step(&mut self, step: WorkloadStep) -> u64 {
        let mut backends = GuestBackends {
            tier: &mut self.tier,
            disk: &mut self.disk,
        };
        let done = self
            .guest
            .step(&step, self.now, &mut backends)
            .expect("swap space");
        let took = done.since(self.now).0;
        self.now = done;
        took
    }

    fn touch(&mut self, page: u64, op: PageOp) -> u64 {
        self.step(WorkloadStep::Touch { page, op })
    }

    fn read(&mut self, from: u32, count: u32, end: u32) -> u64 {
        self.step(WorkloadStep::Read(FileSpan {
            object: 5,
            from,
            count,
            end,
        }))
    }
}

#[test]
fn swapped_pages_come_back_from_the_tier_with_their_window() {
    let mut bench = GuestFixture::of(guest(16, 8), map(1000));
    (0..32).for_each(|page| {
        bench.touch(page, PageOp::Write);
    });
    assert_eq!(bench.guest.counts.puts, 16);
    // Pages 0 to 7 lie in the first window of slots. Bringing them in pushes eight others out.
    let took = bench.touch(3, PageOp::Read);
    assert_eq!(took, 1 + 10 + 8 * 1_000 + 8 * 100);
    assert_eq!(bench.guest.counts.tier_hits, 8);
    assert_eq!(bench.touch(4, PageOp::Read), 1);
    assert_eq!(bench.disk.counts.reads, 0);
}

#[test]
fn pages_at_another_host_take_longer_both_ways() {
    let tier = FarTier::of(Box::new(map(16)), Pages(15));
    let mut bench = GuestFixture::of(guest(16, 1), tier);
    (0..31).for_each(|page| {
        bench.touch(page, PageOp::Write);
    });
    assert_eq!(bench.guest.counts.far_accesses, 0);
    assert_eq!(bench.touch(31, PageOp::Write), 1 + 10 + 100 + 100_000);
    assert_eq!(bench.guest.counts.far_accesses, 1);
    // Page 15 lies far. Page 16, which makes room for it, is refused: the tier is full.
    let took = bench.touch(15, PageOp::Read);
    assert_eq!(took, 1 + 10 + 1_000 + 100_000 + 10_000);
    assert_eq!(bench.guest.counts.far_accesses, 2);
}

#[test]
fn without_a_tier_a_window_is_one_read_of_the_disk() {
    let mut bench = GuestFixture::of(guest(16, 8), NoTier::of(1));
    (0..32).for_each(|page| {
        bench.touch(page, PageOp::Write);
    });
    bench.now = VirtualInstant(1_000_000_000);
    let took = bench.touch(3, PageOp::Read);
    // The page waits for its window. What left for it is written behind that.
    assert_eq!(
        (bench.disk.counts.reads, bench.disk.counts.pages_read),
        (1, 8)
    );
    assert!((1_008_000..1_200_000).contains(&took), "{took}");
    assert_eq!(bench.guest.counts.disk_pages_written, 24);
}

/// How many slots each touch brings in from the disk. Pages 0 to 63 are swapped out, in this order.
fn windows_of(touches: &[u64]) -> Vec<u64> {
    let guest = guest_of(64, 8, SwapReadAheadMode::Adaptive);
    let mut bench = GuestFixture::of(guest, NoTier::of(1));
    (0..128).for_each(|page| {
        bench.touch(page, PageOp::Write);
    });
    let mut read = bench.disk.counts.pages_read;
    let windows = touches.iter().map(|page| {
        bench.touch(*page, PageOp::Read);
        let before = std::mem::replace(&mut read, bench.disk.counts.pages_read);
        read - before
    });
    windows.collect()
}

#[test]
fn swap_read_ahead_follows_what_it_is_used_for() {
    // Nothing that is read ahead is used: 8 at first, then half each time.
    assert_eq!(windows_of(&[0, 16, 32, 48, 60]), [8, 4, 2, 1, 1]);
    // Slot 60 reads itself. Slot 61 is its neighbour, and the window of two begins at 60, which is in memory. So does
    // the window of 62, which brings 63 in. Its use is a hit, which pays for four: only the requested one of these is
    // left.
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
    let mut bench = GuestFixture::of(guest(100, 8), NoTier::of(1));
    let took = bench.read(0, 8, 8);
    // A fault, eight touches and as many misses of the tier are work. The request's 1 ms and 8 µs are not.
    assert_eq!(bench.guest.waited(), VirtualDuration(1_008_000));
    assert_eq!(took - bench.guest.waited().0, 8 + 10 + 8 * 10_000);
    let until = bench.now + VirtualDuration(77);
    bench.step(WorkloadStep::Until(until));
    assert_eq!(bench.guest.waited(), VirtualDuration(1_008_077));
}

#[test]
fn a_page_that_was_not_written_keeps_its_place_in_the_tier() {
    let mut bench = GuestFixture::of(guest(16, 1), map(1000));
    (0..17).for_each(|page| {
        bench.touch(page, PageOp::Write);
    });
    bench.touch(0, PageOp::Read);
    let puts = bench.guest.counts.puts;
    (1..17).for_each(|page| {
        bench.touch(page, PageOp::Read);
    });
    // Page 0 went out again without a put, then others with theirs.
    bench.touch(0, PageOp::Read);
    assert_eq!(bench.tier.counts().tenants[0].flushes, 0);
    assert!(bench.guest.counts.puts <= puts + 15);
    bench.touch(0, PageOp::Write);
    assert_eq!(bench.tier.counts().tenants[0].flushes, 1);
}

#[test]
fn with_exclusive_gets_the_tier_loses_what_it_gave() {
    let mut guest = guest(16, 1);
    guest.shape.after_swap_in = AfterSwapIn::Free;
    let mut bench = GuestFixture::of(guest, map(1000));
    (0..17).for_each(|page| {
        bench.touch(page, PageOp::Write);
    });
    assert_eq!(bench.tier.counts().tenants[0].used, Pages(1));
    bench.touch(0, PageOp::Read);
    // Page 0 came back and left its slot. Page 1 went out for it.
    assert_eq!(bench.tier.counts().tenants[0].used, Pages(1));
    assert_eq!(bench.tier.counts().tenants[0].flushes, 1);
}

#[test]
fn freed_memory_leaves_the_tier_too() {
    let mut bench = GuestFixture::of(guest(16, 8), map(1000));
    (0..100).for_each(|page| {
        bench.touch(page, PageOp::Write);
    });
    bench.step(WorkloadStep::Release {
        from: 0,
        count: 100,
    });
    assert_eq!(bench.tier.counts().tenants[0].used, Pages(0));
    assert_eq!(bench.guest.memory.len(), 0);
}

#[test]
fn reads_that_follow_one_another_are_read_ahead_to_the_end_of_the_file() {
    let mut bench = GuestFixture::of(guest(100, 8), NoTier::of(1));
    bench.read(0, 1, 10);
    assert_eq!(bench.disk.counts.pages_read, 8);
    bench.read(1, 7, 10);
    assert_eq!(bench.disk.counts.reads, 1);
    bench.read(8, 1, 10);
    assert_eq!(
        (bench.disk.counts.reads, bench.disk.counts.pages_read),
        (2, 10)
    );
    // A jump brings in what was requested and no more.
    bench.read(50, 2, 1000);
    assert_eq!(
        (bench.disk.counts.reads, bench.disk.counts.pages_read),
        (3, 12)
    );
}

#[test]
fn a_window_that_is_partly_in_the_tier_is_fragmented() {
    let mut bench = GuestFixture::of(guest(8, 8), map(4));
    bench.read(0, 8, 8);
    bench.step(WorkloadStep::Read(FileSpan {
        object: 6,
        from: 0,
        count: 8,
        end: 8,
    }));
    // The tier had room for the last four of file 5's eight pages.
    bench.read(0, 8, 8);
    assert_eq!(bench.guest.counts.tier_hits, 4);
    assert_eq!(bench.guest.counts.windows_fragmented, 1);
}

#[test]
fn a_dirty_file_page_reaches_the_disk_before_the_tier() {
    let mut bench = GuestFixture::of(guest(4, 1), map(100));
    let span = |from, count| FileSpan {
        object: 5,
        from,
        count,
        end: 100,
    };
    bench.step(WorkloadStep::Write(span(0, 4)));
    assert_eq!(bench.disk.counts.writes, 0);
    bench.step(WorkloadStep::Write(span(4, 4)));
    assert_eq!(bench.disk.counts.pages_written, 4);
    assert_eq!(bench.tier.counts().tenants[0].used, Pages(4));
    bench.step(WorkloadStep::Delete {
        object: 5,
        pages: 100,
    });
    assert_eq!(bench.tier.counts().tenants[0].used, Pages(0));
}

#[test]
fn whatever_it_does_the_judges_find_nothing_wrong() {
    for after_swap_in in [AfterSwapIn::Keep, AfterSwapIn::Free] {
        for tier_pages in [0, 10, 60, 10_000] {
            let mut inner = map(tier_pages);
            let judged = JudgedTier::of(
                &mut inner,
                JudgePanel::full(1, ShrinkMode::Active),
                CensusInterval::EACH,
            );
            let mut guest = guest(32, 8);
            guest.shape.after_swap_in = after_swap_in;
            guest.swap_ahead = SwapReadAhead::of(SwapReadAheadMode::Adaptive, 8);
            let mut bench = GuestFixture::of(guest, judged);
            let mut rng = SimRng::seeded(tier_pages);
            for n in 0..20_000 {
                let step = any_step(&mut rng);
                bench.step(step);
                assert!(bench.guest.memory.len() <= 32);
                if n % 1000 == 0 {
                    let target = (n % 2000 == 0).then_some(Pages(30));
                    bench.tier.set_target(TenantId(0), target, bench.now);
                    bench.tier.chores(bench.now);
                }
            }
            assert_eq!(bench.tier.panel.verdicts, []);
            assert_eq!(
                bench.guest.counts.pages_wrong + bench.guest.counts.pages_lost,
                0
            );
        }
    }
}

fn any_step(rng: &mut SimRng) -> WorkloadStep {
    let from = rng.below(100) as u32;
    let span = FileSpan {
        object: rng.below(5),
        from,
        count: 1 + rng.below(12) as u32,
        end: 120,
    };
    match rng.below(100) {
        0 => WorkloadStep::Delete {
            object: span.object,
            pages: 120,
        },
        1 => WorkloadStep::Release {
            from: rng.below(150),
            count: rng.below(20),
        },
        2..25 => WorkloadStep::Write(span),
        25..60 => WorkloadStep::Read(span),
        _ => WorkloadStep::Touch {
            page: rng.below(150),
            op: PageOp::drawn(0.4, rng),
        },
    }
}
