use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::chance::mixed;
use crate::traces::{Op, Space, TracePage};
use crate::virtual_time::Moment;
use sublet_types::{EvictionKind, Fill, Windows};

const SHARES: Shares = Shares {
    guest: 0.02,
    tier: 0.1,
};

fn recording(accesses: Vec<Access>) -> Recording {
    Recording::of(move || Ok(Trace::of(accesses.clone()))).expect("no file")
}

fn reads(pages: impl Iterator<Item = u64>) -> Recording {
    let read = |page| Access {
        at: Moment::START,
        page: TracePage::of_device(page),
        space: Space::Device,
        count: 1,
        op: Op::Read,
    };
    recording(pages.map(read).collect())
}

fn counts(recording: &Recording, shares: Shares, setup: Setup) -> DiskCounts {
    let counts = recording.play(shares, setup, 0);
    counts.expect("memory for a test")
}

/// A trace may be longer than memory is large: whoever does it reads it anew, and nobody keeps it.
#[test]
fn a_trace_is_read_anew_each_time_it_is_done() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let read = |page: u64| Access {
        at: Moment::START,
        page: TracePage::of_device(page % 500),
        space: Space::Device,
        count: 1,
        op: Op::Read,
    };
    let open = move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Trace::of((0..20_000).map(read)))
    };
    let recording = Recording::of(open).expect("no file");
    assert_eq!(recording.footprint, Pages(500));
    let setups = Comparison::default().setups;
    for (n, setup) in setups.iter().enumerate() {
        counts(&recording, SHARES, *setup);
        assert_eq!(opened.load(Ordering::Relaxed), n + 2);
    }
}

#[test]
fn every_setup_gives_the_same_figures_again_and_only_what_was_put() {
    let recording = recording(made(1).into_iter().take(5_000).collect());
    for setup in Comparison::default().setups {
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

/// A loop that fits into guest and disk together, but into neither: only who does not keep what the guest has
/// serves it.
#[test]
fn exclusive_caching_serves_what_fits_into_both_together() {
    let recording = reads((0..6).flat_map(|_| 0..8_000));
    let shares = Shares {
        guest: 0.6,
        tier: 0.6,
    };
    let misses = |sees| {
        let setup = Setup {
            sees,
            ..Setup::plain(Fill::Miss, EvictionKind::Lru)
        };
        counts(&recording, shares, setup).misses
    };
    assert_eq!(misses(Sees::Evictions), 8_000);
    assert_eq!(misses(Sees::Requests), 48_000);
}

#[test]
fn a_second_miss_keeps_out_what_is_read_once() {
    // One popular page in two, one that never comes again.
    let popular = (0..40_000u64).flat_map(|n| [n * 7_919 % 3_000, 100_000 + 17 * n]);
    let recording = reads(popular);
    let misses = |fill| counts(&recording, SHARES, Setup::plain(fill, EvictionKind::Lru)).misses;
    assert!(misses(Fill::SecondMiss) < 50_000 && misses(Fill::Miss) > 60_000);
}

#[test]
fn reading_ahead_leaves_a_reader_in_order_its_first_reads_only() {
    let recording = reads(0..30_000);
    let stalled = |read_ahead| {
        let setup = Setup {
            read_ahead,
            ..Setup::plain(Fill::Miss, EvictionKind::XS3h)
        };
        counts(&recording, SHARES, setup).stalled
    };
    assert_eq!(stalled(ReadAhead::NONE), 30_000);
    assert_eq!(stalled(ReadAhead::GROWING), 2);
}

#[test]
fn a_filter_of_runs_leaves_their_first_pages_in_memory() {
    let recording = reads((0..10).flat_map(|_| 0..8_000));
    let shares = Shares {
        guest: 0.02,
        tier: 1.2,
    };
    let misses = |sequential_max| {
        let setup = Setup {
            sequential_max,
            ..Setup::plain(Fill::Miss, EvictionKind::Lru)
        };
        counts(&recording, shares, setup).misses
    };
    assert_eq!(misses(None), 8_000);
    assert_eq!(misses(Some(256)), 10 * 8_000 - 9 * 256);
}

/// Records of eight pages, popular ones among them, of which now and then a page is read alone.
#[test]
fn windows_that_leave_whole_are_seldom_half_a_hit() {
    let access = |n: u64| {
        let (draw, alone) = (mixed(n), n.is_multiple_of(4));
        let record = (draw % 3_000).min((draw >> 32) % 3_000);
        let page = 8 * record + if alone { draw >> 20 & 7 } else { 0 };
        Access {
            at: Moment::START,
            page: TracePage::of_device(page),
            space: Space::Device,
            count: if alone { 1 } else { 8 },
            op: Op::Read,
        }
    };
    let recording = recording((0..20_000).map(access).collect());
    let halved = |windows| {
        let setup = Setup {
            windows,
            ..Setup::plain(Fill::SecondMiss, EvictionKind::XS3h)
        };
        counts(&recording, SHARES, setup).halved
    };
    let (pages, whole) = (halved(Windows::Pages), halved(Windows::Whole));
    assert!(whole * 2 < pages, "{whole} of {pages}");
}

#[test]
fn each_question_has_its_table() {
    let mut comparison = Comparison::default();
    let recording = recording(made(1).into_iter().take(1_000).collect());
    let play = |setup: &Setup| recording.play(SHARES, *setup, 0);
    let counts: Result<Vec<DiskCounts>, _> = comparison.setups.iter().map(play).collect();
    comparison.add("made", SHARES, counts.expect("memory for a test"));
    comparison.notes.push("Skipped: nothing.".to_owned());
    let text = comparison.text();
    for said in [
        "bound x-s3h",
        "ahead 4-32 x64",
        "runs to 256",
        "writes dropped",
        "Skipped",
    ] {
        assert!(text.contains(said), "{said}: {text}");
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
