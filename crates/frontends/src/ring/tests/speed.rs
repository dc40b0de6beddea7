//! How fast a ring is: `cargo test --release -p sublet-frontends ring::tests::speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sublet_client::ring::{Key, Page, Ticket};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use super::real::Node;

const PAGES: u32 = 8192;
const BATCH: u32 = 32;

/// The tenth percentile and the median of all times. The first is less disturbed by whatever else runs.
fn tenth_and_half(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort_unstable();
    [times[times.len() / 10], times[times.len() / 2]]
}

fn timed(rounds: u32, mut work: impl FnMut(u32)) -> [Duration; 2] {
    let times = (0..rounds).map(|n| {
        let began = Instant::now();
        work(n);
        began.elapsed()
    });
    tenth_and_half(times.collect())
}

fn key(pool: PoolId, n: u32) -> Key {
    Key {
        pool,
        object: ObjectId(1),
        index: PageIndex(n.wrapping_mul(2_654_435_761) % PAGES),
    }
}

#[test]
#[ignore = "prints times; worth something on a quiet machine only"]
fn times() {
    let node = Node::start();
    let mut client = node.connect();
    let keeping = PoolFlags {
        keeping: true,
        ..PoolFlags::default()
    };
    let pool = client.create_pool(keeping, None).expect("a pool");
    for n in 0..PAGES {
        client.put(key(pool, n), &[n as u8; 4096]).expect("stored");
    }
    let frames: Vec<Page> = (0..PAGES).map(|n| [n as u8; 4096]).collect();
    let mut hot: Page = [0; 4096];
    let copies = timed(2000, |round| {
        for n in 0..BATCH {
            let from = key(pool, round * BATCH + n).index.0;
            hot.copy_from_slice(black_box(&frames[from as usize]));
            black_box(&hot);
        }
    });
    let lone = timed(20_000, |n| {
        client.get(key(pool, n), &mut hot).expect("answered");
    });
    let batch = timed(2000, |round| {
        let mut batch = client.batch();
        for n in 0..BATCH {
            batch.get(key(pool, round * BATCH + n)).expect("room");
        }
        let answers = batch.run().expect("answered");
        assert!(answers.page(Ticket::at(31)).is_some());
    });
    println!("32 bare copies {copies:?}, a batch of 32 gets {batch:?}, a lone get {lone:?}");
}
