use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::rng::mixed;
use crate::traces::{AddressSpace, PageOp, TracePage};
use crate::virtual_time::VirtualInstant;
use sublet_types::{EvictionKind, FillPolicy, WindowEviction};

const SHARES: FootprintShares = FootprintShares {
    guest: 0.02,
    tier: 0.1,
};

fn recording(accesses: Vec<TraceRequest>) -> ReplayableTrace {
    ReplayableTrace::of(move || Ok(Trace::of(accesses.clone()))).expect("no file")
}

fn reads(pages: impl Iterator<Item = u64>) -> ReplayableTrace {
    let read = |page| TraceRequest {
        at: VirtualInstant::START,
        page: TracePage::of_device(page),
        space: AddressSpace::Device,
        count: 1,
        op: PageOp::Read,
    };
    recording(pages.map(read).collect())
}

fn counts(
    recording: &ReplayableTrace,
    shares: FootprintShares,
    setup: CachingSetup,
) -> CachedDiskCounts {
    let counts = recording.replay(shares, setup, 0);
    counts.expect("memory for a test")
}

/// A trace may be longer than memory is large. So each replay reads it anew, and nothing keeps it.
#[test]
fn a_trace_is_read_anew_each_time_it_is_done() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let read = |page: u64| TraceRequest {
        at: VirtualInstant::START,
        page: TracePage::of_device(page % 500),
        space: AddressSpace::Device,
        count: 1,
        op: PageOp::Read,
    };
    let open = move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Trace::of((0..20_000).map(read)))
    };
    let recording = ReplayableTrace::of(open).expect("no file");
    assert_eq!(recording.footprint, Pages(500));
    let setups = CachingComparison::default().setups;
    for (n, setup) in setups.iter().enumerate() {
        counts(&recording, SHARES, *setup);
        assert_eq!(opened.load(Ordering::Relaxed), n + 2);
    }
}

#[test]
fn every_setup_gives_the_same_figures_again_and_only_what_was_put() {
    let recording = recording(synthetic_requests(1).into_iter().take(5_000).collect());
    for setup in CachingComparison::default().setups {
        let first = counts(&recording, SHARES, setup);
        assert_eq!(first.pages_wrong, 0, "{setup}");
        assert_eq!(first, counts(&recording, SHARES, setup), "{setup}");
        assert!(first.misses > 0 && first.misses <= first.gets, "{setup}");
        assert!(first.stalled + first.late <= first.ios, "{setup}");
        assert!(first.ahead_used <= first.ahead_pages, "{setup}");
        assert!(
            first.misses + first.ahead_pages == first.backing_pages,
            "{setup}"
        );
    }
}

/// A loop fits into guest and disk together, but into neither alone. Only a disk that does not keep what the guest has
/// serves it.
#[test]
fn exclusive_caching_serves_what_fits_into_both_together() {
    let recording = reads((0..6).flat_map(|_| 0..8_000));
    let shares = FootprintShares {
        guest: 0.6,
        tier: 0.6,
    };
    let misses = |sees| {
        let setup = CachingSetup {
            sees,
            ..CachingSetup::plain(FillPolicy::Miss, EvictionKind::Lru)
        };
        counts(&recording, shares, setup).misses
    };
    assert_eq!(misses(Visibility::Evictions), 8_000);
    assert_eq!(misses(Visibility::Requests), 48_000);
}

#[test]
fn a_second_miss_keeps_out_what_is_read_once() {
    // One popular page in two, and one that never comes again.
    let popular = (0..40_000u64).flat_map(|n| [n * 7_919 % 3_000, 100_000 + 17 * n]);
    let recording = reads(popular);
    let misses = |fill| {
        counts(
            &recording,
            SHARES,
            CachingSetup::plain(fill, EvictionKind::Lru),
        )
        .misses
    };
    assert!(misses(FillPolicy::SecondMiss) < 50_000 && misses(FillPolicy::Miss) > 60_000);
}

#[test]
fn reading_ahead_leaves_a_reader_in_order_its_first_reads_only() {
    let recording = reads(0..30_000);
    let stalled = |read_ahead| {
        let setup = CachingSetup {
            read_ahead,
            ..CachingSetup::plain(FillPolicy::Miss, EvictionKind::XS3h)
        };
        counts(&recording, SHARES, setup).stalled
    };
    assert_eq!(stalled(ReadAhead::NONE), 30_000);
    assert_eq!(stalled(ReadAhead::GROWING), 2);
}

#[test]
fn a_filter_of_runs_leaves_their_first_pages_in_memory() {
    let recording = reads((0..10).flat_map(|_| 0..8_000));
    let shares = FootprintShares {
        guest: 0.02,
        tier: 1.2,
    };
    let misses = |sequential_max| {
        let setup = CachingSetup {
            sequential_max,
            ..CachingSetup::plain(FillPolicy::Miss, EvictionKind::Lru)
        };
        counts(&recording, shares, setup).misses
    };
    assert_eq!(misses(None), 8_000);
    assert_eq!(misses(Some(256)), 10 * 8_000 - 9 * 256);
}

/// Records of eight pages, some of them popular. Now and then one page of a record is read alone.
#[test]
fn windows_that_leave_whole_are_seldom_half_a_hit() {
    let access = |n: u64| {
        let (draw, alone) = (mixed(n), n.is_multiple_of(4));
        let record = (draw % 3_000).min((draw >> 32) % 3_000);
        let page = 8 * record + if alone { draw >> 20 & 7 } else { 0 };
        TraceRequest {
            at: VirtualInstant::START,
            page: TracePage::of_device(page),
            space: AddressSpace::Device,
            count: if alone { 1 } else { 8 },
            op: PageOp::Read,
        }
    };
    let recording = recording((0..20_000).map(access).collect());
    let halved = |windows| {
        let setup = CachingSetup {
            windows,
            ..CachingSetup::plain(FillPolicy::SecondMiss, EvictionKind::XS3h)
        };
        counts(&recording, SHARES, setup).halved
    };
    let (pages, whole) = (halved(WindowEviction::Pages), halved(WindowEviction::Whole));
    assert!(whole * 2 < pages, "{whole} of {pages}");
}

#[test]
fn each_question_has_its_table() {
    let mut comparison = CachingComparison::default();
    let recording = recording(synthetic_requests(1).into_iter().take(1_000).collect());
    let play = |setup: &CachingSetup| recording.replay(SHARES, *setup, 0);
    let counts: Result<Vec<CachedDiskCounts>, _> = comparison.setups.iter().map(play).collect();
    comparison.add("made", SHARES, counts.expect("memory for a test"));
    comparison.notes.push("Skipped: nothing.".to_owned());
    let text = comparison.text();
    for expected in [
        "bound x-s3h",
        "ahead 4-32 x64",
        "runs to 256",
        "writes dropped",
        "Skipped",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(
        comparison.json()["questions"].as_array().map(Vec::len),
        Some(13)
    );
    assert!(
        comparison
            .draw()
            .expect("it draws")
            .contains("second-miss lru")
    );
    assert!(comparison.holds());
}
