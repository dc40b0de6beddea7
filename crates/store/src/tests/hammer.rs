//! Readers, writers, flushes and releases at once. A value that is read is one that was stored under that key, whole,
//! whatever happens around it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sublet_types::ReleaseMode;

use super::counted::assert_counted;
use super::*;

const KEYS: u32 = 4000;
const ROUNDS: u32 = 60_000;

/// Rounds of all writers between two releases, so that a busy machine sees no more releases.
const ROUNDS_BETWEEN: u64 = 500;

/// How many rounds the writers have done.
#[derive(Default)]
struct Progress {
    rounds: AtomicU64,
    hits: AtomicU64,
}

fn xorshift(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn is_whole(key: u32, value: &[u8]) -> bool {
    let version = value
        .get(4..8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    value == self_describing(key, version, value.len())
}

fn write_and_read(store: &Arc<Store>, tenants: [TenantId; 2], seed: u64, progress: &Progress) {
    let worker = store.worker().expect("a worker");
    let mut random = seed;
    for round in 0..ROUNDS {
        let key = (xorshift(&mut random) % u64::from(KEYS)) as u32;
        let tenant = tenants[key as usize % 2];
        let name = key.to_le_bytes();
        if round % 3 == 0 {
            let large = random.is_multiple_of(97);
            let len = if large {
                40_000
            } else {
                8 + (random % 900) as usize
            };
            let _ = put(
                &worker,
                tenant,
                &name,
                &self_describing(key, round, len),
                NOW,
            );
        } else if let Some(value) = get(&worker, tenant, &name, NOW) {
            assert!(is_whole(key, &value), "a torn or foreign value of {key}");
            progress.hits.fetch_add(1, Ordering::Relaxed);
        }
        progress.rounds.fetch_add(1, Ordering::Relaxed);
        assert_eq!(
            get(&worker, tenants[1 - key as usize % 2], &name, NOW),
            None,
            "not theirs"
        );
    }
}

fn disturb(store: &Arc<Store>, tenants: [TenantId; 2], progress: &Progress, stop: &AtomicBool) {
    let worker = store.worker().expect("a worker");
    let modes = [ReleaseMode::Ordered, ReleaseMode::Fast];
    let mut round = 0usize;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let release = Release {
            amount: Bytes((8 * BLOCK) as u64),
            mode: modes[round % modes.len()],
            tenant: round.is_multiple_of(5).then_some(tenants[round % 2]),
        };
        worker.release(release, NOW);
        while worker.upkeep(NOW) {}
        if round.is_multiple_of(50) {
            worker.flush(tenants[round % 2], NOW);
        }
        store.populate();
        let rounds = || progress.rounds.load(Ordering::Relaxed);
        let next = rounds() + ROUNDS_BETWEEN;
        while rounds() < next && !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn values_stay_whole_while_blocks_come_and_go() {
    let (store, levers) = store(64, true);
    let tenants = [tenant(&store, "ann", 100), tenant(&store, "ben", 300)];
    let stop = AtomicBool::new(false);
    let progress = Progress::default();
    std::thread::scope(|scope| {
        scope.spawn(|| disturb(&store, tenants, &progress, &stop));
        let writers: Vec<_> = (1..=3u64)
            .map(|n| {
                let (store, progress) = (&store, &progress);
                scope.spawn(move || write_and_read(store, tenants, n * 0x9e37_79b9, progress))
            })
            .collect();
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert!(
        progress.hits.load(Ordering::Relaxed) > u64::from(ROUNDS) / 10,
        "the test read next to nothing"
    );
    let held = store.figures().held;
    assert_eq!(held.0 as usize, levers.populated.load(Ordering::Relaxed));
    assert_counted(&store);
}

#[test]
fn of_many_increments_none_is_lost() {
    let (store, _) = store(64, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    put(&worker, ann, b"n", &0u64.to_le_bytes(), NOW).expect("room");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let worker = store.worker().expect("a worker");
                for _ in 0..5000 {
                    let added = worker.update(ann, b"n", NOW, |entry| {
                        let mut bytes = Vec::new();
                        entry
                            .current()
                            .expect("never evicted: it is hot")
                            .value()
                            .copy_to(&mut bytes);
                        let n = u64::from_le_bytes(bytes.try_into().expect("eight bytes")) + 1;
                        entry.store(&NewItem {
                            flags: 0,
                            expiry: Expiry::Never,
                            marks: Marks::default(),
                            cas: NewCas::Fresh,
                            value: &[&n.to_le_bytes()],
                        });
                    });
                    added.expect("room");
                }
            });
        }
    });
    assert_eq!(
        get(&worker, ann, b"n", NOW),
        Some(20_000u64.to_le_bytes().to_vec())
    );
}
