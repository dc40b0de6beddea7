//! Pages of sequential runs are let go for good (P6 of PUMA).

use std::collections::HashMap;

use sublet_types::{ReleaseMode, WindowEviction};

use super::far::{Fixture, LEASE, ROOM};
use super::*;

/// Puts short runs of both patterns over few pages, each over what is there. Returns the pattern with which each page
/// was put last.
fn put_runs(fixture: &mut Fixture, runs: u32) -> HashMap<u32, AccessPattern> {
    let mut last = HashMap::new();
    for run in 0..runs {
        let index = run.wrapping_mul(2_654_435_761) >> 16 & 127;
        let pattern = match run % 3 {
            0 => AccessPattern::Sequential,
            _ => AccessPattern::Random,
        };
        let pages = PageRun {
            first: fixture.client.key(1, index),
            count: 5,
            pattern,
        };
        for (n, put) in (0..).zip(fixture.client.put_run_of(pages, 7)) {
            assert!(put.is_stored());
            last.insert(index + n, pattern);
        }
        if run % 16 == 0 {
            let two_blocks = Release {
                amount: Bytes(2 * BLOCK as u64),
                mode: ReleaseMode::Ordered,
                tenant: None,
            };
            fixture.client.worker.release(two_blocks, NOW);
        }
        fixture.lender.settle_all(&fixture.client.worker, LEASE);
    }
    last
}

#[test]
fn a_sequential_run_is_not_sent() {
    for (_, windows) in WindowEviction::ALL {
        let mut fixture = Fixture::new(KEEPING, 16);
        let pool = fixture.client.pool;
        fixture.store().set_windows(pool, windows);
        let last = put_runs(&mut fixture, 400);
        let mut away = 0;
        for (index, pattern) in last {
            if matches!(fixture.client.begin_get(1, index).0, GetOutcome::Away(_)) {
                assert_eq!(pattern, AccessPattern::Random, "page {index}");
                away += 1;
            }
        }
        assert!(away >= ROOM / 2, "{away}");
    }
}

/// The pattern does not outlive the page: what comes into its frame later is sent.
#[test]
fn what_follows_a_run_is_sent() {
    let mut fixture = Fixture::new(EPHEMERAL, 8);
    let run = PageRun {
        first: fixture.client.key(1, 0),
        count: ROOM,
        pattern: AccessPattern::Sequential,
    };
    fixture.client.put_run_of(run, 7);
    for index in 1000..1000 + ROOM {
        assert!(fixture.client.put(1, index, 7).is_stored());
        fixture.lender.settle_all(&fixture.client.worker, LEASE);
    }
    assert_eq!(fixture.at_lenders(), 0, "only the run was evicted");
    for index in 2000..2000 + ROOM {
        assert!(fixture.client.put(1, index, 7).is_stored());
        fixture.lender.settle_all(&fixture.client.worker, LEASE);
    }
    assert_eq!(fixture.at_lenders(), u64::from(ROOM));
}

/// A pool whose lenders are too slow sends nothing until they are quick enough again.
#[test]
fn a_pool_whose_sending_is_paused_sends_nothing() {
    let mut fixture = Fixture::new(KEEPING, 8);
    let pool = fixture.client.pool;
    fixture.store().set_sending(pool, PageSending::Paused);
    fixture.fill(2 * ROOM);
    assert_eq!(fixture.at_lenders(), 0);
    let paused = fixture.client.figures().tally;
    assert!(paused.evictions >= u64::from(ROOM), "{paused:?}");
    assert_eq!(paused.unsendable, paused.evictions);
    fixture.store().set_sending(pool, PageSending::Allowed);
    fixture.fill(2 * ROOM);
    assert!(fixture.at_lenders() >= u64::from(ROOM) / 2);
    assert_eq!(fixture.client.figures().tally.unsendable, paused.unsendable);
}
