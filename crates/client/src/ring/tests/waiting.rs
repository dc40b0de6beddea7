//! The blocking client, with an honest daemon.

use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use super::daemon::{Behavior, Daemon};
use crate::ring::{
    BatchError, CallError, Client, CloseReason, ConnectError, DEFAULT_SHAPE, Fault, GetOutcome,
    Key, Page, PutOutcome, Refusal, Shape, ShapeError, Ticket,
};

const POOL: PoolId = PoolId {
    slot: 3,
    generation: 7,
};

fn key(index: u32) -> Key {
    Key {
        pool: POOL,
        object: ObjectId(9),
        index: PageIndex(index),
    }
}

fn shape(entries: u32, page_slots: u32) -> Shape {
    Shape::new(entries, page_slots).expect("a fine shape")
}

#[test]
fn pages_come_back_once() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let mut client = Client::connect(daemon.path()).expect("connected");
    assert_eq!(client.create_pool(PoolFlags::default(), None), Ok(POOL));
    let mut page: Page = std::array::from_fn(|n| n as u8);
    assert_eq!(client.put(key(1), &page), Ok(PutOutcome::Stored));
    assert_eq!(client.put(key(1), &page), Ok(PutOutcome::Replaced));
    page.fill(0);
    assert_eq!(client.get(key(1), &mut page), Ok(GetOutcome::Hit));
    assert!(page.iter().enumerate().all(|(n, byte)| *byte == n as u8));
    page.fill(5);
    assert_eq!(client.get(key(1), &mut page), Ok(GetOutcome::Miss));
    assert_eq!(page, [5; 4096], "a miss leaves the page alone");
}

#[test]
fn what_is_flushed_is_gone() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let mut client = Client::connect(daemon.path()).expect("connected");
    let mut pages = [[1; 4096], [2; 4096], [3; 4096]];
    let run = client.put_run(key(0), &pages).expect("stored");
    assert_eq!((run.bits(), run.done_count()), (0b111, 3));
    assert_eq!(client.flush_page(key(1)), Ok(()));
    pages = [[0; 4096]; 3];
    let run = client.get_run(key(0), &mut pages).expect("answered");
    assert_eq!(run.bits(), 0b101);
    assert_eq!(pages, [[1; 4096], [0; 4096], [3; 4096]]);
    client.put(key(4), &pages[0]).expect("stored");
    assert_eq!(client.flush_object(POOL, ObjectId(9)), Ok(()));
    assert_eq!(client.get(key(4), &mut pages[0]), Ok(GetOutcome::Miss));
}

#[test]
fn a_batch_answers_each_request_in_place() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let mut client = Client::connect(daemon.path()).expect("connected");
    let mut batch = client.batch();
    for n in 0..8 {
        let (_, pages) = batch.put_run(key(n * 16), 16).expect("room");
        for (m, page) in pages.iter_mut().enumerate() {
            page.fill((n as usize * 16 + m) as u8);
        }
    }
    assert_eq!(batch.len(), 8);
    let answers = batch.run().expect("answered");
    assert_eq!(answers.put(Ticket::at(7)), Ok(PutOutcome::Stored));
    let mut batch = client.batch();
    let lone = batch.get(key(77)).expect("room");
    let flush = batch.flush_run(key(64), 8).expect("room");
    let run = batch.get_run(key(64), 64).expect("room");
    let answers = batch.run().expect("answered");
    assert_eq!(answers.page(lone), Some(&[77; 4096]));
    assert_eq!(answers.page(flush), None);
    let hits = answers.run(run).expect("answered");
    assert!(!hits.is_done(0) && hits.is_done(8) && !hits.is_done(13) && hits.is_done(63));
    assert_eq!(hits.done_count(), 64 - 8 - 1);
    assert_eq!(answers.page_of_run(run, 63), Some(&[127; 4096]));
    assert_eq!(answers.page_of_run(run, 13), None);
    assert_eq!(answers.page(Ticket::at(99)), None);
}

#[test]
fn a_batch_is_bounded_by_the_ring_that_the_daemon_grants() {
    let daemon = Daemon::start(shape(4, 6), Behavior::Willing);
    let mut client = Client::connect(daemon.path()).expect("connected");
    assert_eq!(client.shape(), shape(4, 6));
    let mut batch = client.batch();
    assert_eq!(batch.get_run(key(0), 65), Err(BatchError::Run));
    assert_eq!(batch.get_run(key(0), 0), Err(BatchError::Run));
    batch.get_run(key(0), 4).expect("room");
    assert_eq!(batch.get_run(key(0), 3), Err(BatchError::PageSlots));
    for _ in 0..3 {
        batch.flush_page(key(0)).expect("room");
    }
    assert_eq!(batch.get(key(0)), Err(BatchError::Entries));
    let _ = batch;
    assert_eq!(
        client.put_run(key(0), &[[0; 4096]; 7]),
        Err(CallError::Faulty(Fault::PageSlots))
    );
    assert!(client.batch().is_empty(), "what was not run is forgotten");
    for _ in 0..100 {
        assert_eq!(client.flush_page(key(0)), Ok(()));
    }
}

#[test]
fn refusals_and_faults_say_what_they_are() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let mut client = Client::connect(daemon.path()).expect("connected");
    let far = Key {
        object: ObjectId(u64::MAX),
        ..key(0)
    };
    let refused = PutOutcome::Refused(Refusal::NoMemory);
    assert_eq!(client.put(far, &[0; 4096]), Ok(refused));
    let persistent = PoolFlags {
        persistent: true,
        ..PoolFlags::default()
    };
    assert_eq!(
        client.create_pool(persistent, None),
        Err(CallError::Refused(Refusal::NoSpill))
    );
    assert_eq!(
        client.destroy_pool(POOL),
        Err(CallError::Faulty(Fault::Pool))
    );
}

#[test]
fn who_is_told_farewell_hears_why() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Leaving(2));
    let mut client = Client::connect(daemon.path()).expect("connected");
    assert_eq!(client.flush_page(key(0)), Ok(()));
    assert_eq!(client.flush_page(key(0)), Ok(()));
    let over = Err(CallError::Gone(CloseReason::Stopping));
    assert_eq!(client.flush_page(key(0)), over);
    assert_eq!(client.flush_page(key(0)), over);
}

#[test]
fn nobody_listening_and_wrong_shapes_are_told_apart() {
    let nobody = Client::connect("/nonexistent/ring");
    assert!(matches!(nobody, Err(ConnectError::Unreachable { .. })));
    assert_eq!(Shape::new(3, 1), Err(ShapeError::Entries(3)));
}

#[test]
fn a_process_that_was_forked_is_refused() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Willing);
    let mut client = Client::connect(daemon.path()).expect("connected");
    client.act_as_forked();
    assert_eq!(client.put(key(0), &[7; 4096]), Err(CallError::Forked));
    assert_eq!(client.get(key(0), &mut [0; 4096]), Err(CallError::Forked));
    let mut batch = client.batch();
    assert_eq!(batch.get(key(0)), Err(BatchError::Forked));
    assert!(batch.put(key(0)).is_err(), "nor is a page to be filled");
}
