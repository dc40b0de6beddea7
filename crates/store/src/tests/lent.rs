//! Blocks that are lent: readable by their handle alone, and back at once.

use parking_lot::Mutex;
use sublet_types::{Bytes, LentBlock, ReleaseMode};

use super as items;
use super::pages::{BLOCK, KEEPING, NOW, PoolClient, content_of, page_of, store, tenant};
use crate::api::Release;
use crate::worker::Worker;

fn write(worker: &Worker, lent: LentBlock, place: u16, content: u64) -> bool {
    worker.write_lent(lent, place, |page| page.copy_from_slice(&page_of(content)))
}

fn read(worker: &Worker, lent: LentBlock, place: u16) -> Option<u64> {
    let mut content = None;
    let there = worker.read_lent(lent, place, NOW, |page| content = Some(content_of(page)));
    assert_eq!(there, content.is_some());
    content
}

fn release(worker: &Worker, blocks: usize) -> Bytes {
    let release = Release {
        amount: Bytes((blocks * BLOCK) as u64),
        mode: ReleaseMode::Fast,
        tenant: None,
    };
    worker.release(release, NOW).bytes
}

#[test]
fn a_page_comes_back_as_it_was_written() {
    let (store, _) = store(8, 2);
    let worker = store.worker().expect("a worker");
    let lent = worker.lend(NOW).expect("a block");
    assert_eq!(store.lent(), 1);
    assert!(write(&worker, lent, 3, 7));
    assert_eq!(read(&worker, lent, 3), Some(7));
    assert!(write(&worker, lent, 3, 8));
    assert_eq!(read(&worker, lent, 3), Some(8));
}

/// T7: a page that was not written under the handle has no bytes, whatever the block held before.
#[test]
fn nothing_that_was_there_before_is_read() {
    let (store, _) = store(3, 2);
    let worker = store.worker().expect("a worker");
    let first = worker.lend(NOW).expect("a block");
    assert!((0..16).all(|place| write(&worker, first, place, 7)));
    worker.end_lent(&[first]);
    let again = worker.lend(NOW).expect("a block");
    assert_eq!(again.block, first.block, "the same memory");
    assert!((0..16).all(|place| read(&worker, again, place).is_none()));
    assert!(write(&worker, again, 1, 9));
    assert_eq!(read(&worker, first, 1), None, "an old handle reads nothing");
    assert!(!write(&worker, first, 1, 5), "and writes nothing");
    assert_eq!(read(&worker, again, 1), Some(9));
}

#[test]
fn handles_and_places_that_do_not_exist_are_refused() {
    let (store, _) = store(8, 2);
    let worker = store.worker().expect("a worker");
    let lent = worker.lend(NOW).expect("a block");
    for wrong in [
        LentBlock {
            block: u32::MAX,
            ..lent
        },
        LentBlock { block: 0, ..lent },
        LentBlock {
            opening: lent.opening + 1,
            ..lent
        },
    ] {
        assert!(!write(&worker, wrong, 0, 1));
        assert_eq!(read(&worker, wrong, 0), None);
    }
    assert!(!write(&worker, lent, 16, 1), "a block has sixteen pages");
    assert_eq!(read(&worker, lent, u16::MAX), None);
}

#[test]
fn what_is_read_is_hotter_than_what_is_not() {
    let (store, _) = store(8, 2);
    let worker = store.worker().expect("a worker");
    let [cold, hot, gone] = [(); 3].map(|()| worker.lend(NOW).expect("a block"));
    assert!(write(&worker, hot, 3, 7));
    for _ in 0..64 {
        assert_eq!(read(&worker, hot, 3), Some(7));
    }
    worker.end_lent(&[gone]);
    let heats = worker.lent_heats(&[cold, hot, gone]);
    assert_eq!(heats.len(), 2);
    assert_eq!((heats[0].0, heats[1].0), (cold, hot));
    assert!(heats[0].1 < heats[1].1, "{heats:?}");
}

/// Lent blocks go before anything of a tenant, the coldest first.
#[test]
fn a_release_takes_lent_blocks_first() {
    let (store, _) = store(12, 2);
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, KEEPING);
    for index in 0..32 {
        assert!(client.put(1, index, index.into()).is_stored());
    }
    let worker = store.worker().expect("a worker");
    let lent: Vec<LentBlock> = (0..5).map(|_| worker.lend(NOW).expect("a block")).collect();
    for (lent, reads) in lent.iter().zip([3, 0, 2, 1, 4]) {
        assert!(write(&worker, *lent, 0, 1));
        (0..reads).for_each(|_| assert_eq!(read(&worker, *lent, 0), Some(1)));
    }
    // Beside the index, the tenant's two blocks and the reserve of one.
    let free = store.held().0 as usize / BLOCK - 1 - 2 - 1 - 5;
    assert_eq!(
        release(&worker, free + 3),
        Bytes(((free + 3) * BLOCK) as u64)
    );
    assert_eq!(store.lent(), 2);
    let mut gone = store.drain_taken_back();
    gone.sort_by_key(|lent| lent.block);
    let mut coldest = [lent[1], lent[3], lent[2]];
    coldest.sort_by_key(|lent| lent.block);
    assert_eq!(gone, coldest);
    for index in 0..32 {
        assert_eq!(
            client.get(1, index),
            Some(index.into()),
            "no page of a tenant left"
        );
    }
}

/// A tenant that needs a block gets a lent one before any tenant gives way.
#[test]
fn a_tenant_that_needs_a_block_takes_lent_ones_back() {
    let (store, _) = store(8, 2);
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, KEEPING);
    let worker = store.worker().expect("a worker");
    let mut lent = 0;
    while worker.lend(NOW).is_some() {
        lent += 1;
    }
    assert!(lent >= 4, "{lent}");
    for index in 0..64 {
        assert!(client.put(1, index, index.into()).is_stored());
    }
    assert_eq!(client.figures().tally.evictions, 0);
    assert!(store.lent() < lent);
    assert_eq!(store.drain_taken_back().len() as u32, lent - store.lent());
}

/// No item goes while other hosts have blocks, however much is stored.
#[test]
fn items_take_all_lent_blocks_back_before_one_is_evicted() {
    let (store, _) = items::store(64, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let mut lent = 0u64;
    while worker.lend(NOW).is_some() {
        lent += 1;
    }
    assert!(lent >= 40, "{lent}");
    let mut stored = 0u64;
    while store.lent() > 0 {
        let evicted = store.tenant_figures(ann).evictions;
        assert_eq!(evicted, 0, "{} blocks are lent", store.lent());
        let key = stored.to_string();
        items::put(&worker, ann, key.as_bytes(), &[7; 4000], NOW).expect("room");
        stored += 1;
    }
    assert!(stored > lent, "{stored}");
}

#[test]
fn what_may_be_lent_leaves_a_block_for_each_tenant() {
    let (store, _) = store(12, 2);
    let alone = store.lendable();
    let ann = tenant(&store, "ann", 100);
    assert_eq!(store.lendable(), alone - 1);
    let client = PoolClient::new(&store, ann, KEEPING);
    for index in 0..32 {
        assert!(client.put(1, index, index.into()).is_stored());
    }
    assert_eq!(store.lendable(), alone - 3);
    let worker = store.worker().expect("a worker");
    worker.lend(NOW).expect("a block");
    assert_eq!(store.lendable(), alone - 4);
}

/// A reader sees the bytes of before or nothing, however often the block is taken back and lent to somebody else.
#[test]
fn a_recall_during_reads_shows_nobody_elses_bytes() {
    let (store, _) = store(3, 2);
    let handle = Mutex::new(None);
    let writer = |worker: Worker| {
        // While the reader is inside, the block cannot be used again, and there is none to lend.
        let (mut lendings, mut round) = (0, 0);
        while lendings < 2000 {
            round += 1;
            if let Some(lent) = worker.lend(NOW) {
                write(&worker, lent, 0, round);
                *handle.lock() = Some((lent, round));
                lendings += worker.take_back(1);
            }
        }
    };
    let reader = |worker: Worker, is_over: &dyn Fn() -> bool| {
        while !is_over() {
            let known = *handle.lock();
            if let Some((lent, round)) = known
                && let Some(content) = read(&worker, lent, 0)
            {
                assert_eq!(content, round);
            }
        }
    };
    let worker = || store.worker().expect("a worker");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| writer(worker()));
        reader(worker(), &|| writing.is_finished());
        writing.join().expect("no panic");
    });
}
