//! The client that many tasks share.

use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use super::daemon::{Behavior, Daemon};
use crate::ring::{
    AsyncClient, BatchError, CallError, CloseReason, DEFAULT_SHAPE, Fault, GetOutcome, Key,
    PutOutcome, Refusal, Shape, Ticket,
};

fn key(pool: PoolId, object: u64, index: u32) -> Key {
    Key {
        pool,
        object: ObjectId(object),
        index: PageIndex(index),
    }
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work);
}

#[test]
fn many_tasks_share_a_small_ring() {
    let small = Shape::new(4, 6).expect("a fine shape");
    let daemon = Daemon::start(small, Behavior::Willing);
    run(async {
        let client = AsyncClient::connect(daemon.path())
            .await
            .expect("connected");
        let pool = client.create_pool(PoolFlags::default(), None).await;
        let pool = pool.expect("a pool");
        let mut tasks = tokio::task::JoinSet::new();
        for object in 0..20 {
            let client = client.clone();
            tasks.spawn(async move {
                for n in 0..50 {
                    let filled = [[n as u8; 4096], [object as u8; 4096]];
                    let put = client.put_run(key(pool, object, n), &filled).await;
                    assert_eq!(put.map(|run| run.done_count()), Ok(2));
                    let mut pages = [[0; 4096]; 2];
                    let got = client.get_run(key(pool, object, n), &mut pages).await;
                    assert_eq!(got.map(|run| run.done_count()), Ok(2));
                    assert_eq!(pages, filled);
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no task fails");
        }
    });
}

/// Two batches, each as large as the whole ring, beside tasks that ask for one page at a time.
#[test]
fn batches_share_a_ring_with_others() {
    let small = Shape::new(8, 6).expect("a fine shape");
    let daemon = Daemon::start(small, Behavior::Willing);
    run(async {
        let client = AsyncClient::connect(daemon.path())
            .await
            .expect("connected");
        let pool = client.create_pool(PoolFlags::default(), None).await;
        let pool = pool.expect("a pool");
        let mut tasks = tokio::task::JoinSet::new();
        for object in 0..6 {
            let client = client.clone();
            match object % 2 {
                0 => tasks.spawn(async move {
                    for n in 0..30 {
                        whole_ring_there_and_back(&client, pool, object, n).await;
                    }
                }),
                _ => tasks.spawn(async move {
                    for n in 0..100 {
                        let filled = [n as u8; 4096];
                        client
                            .put(key(pool, object, n), &filled)
                            .await
                            .expect("put");
                        let mut page = [0; 4096];
                        let got = client.get(key(pool, object, n), &mut page).await;
                        assert_eq!((got, page), (Ok(GetOutcome::Hit), filled));
                    }
                }),
            };
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no task fails");
        }
    });
}

/// Puts five pages in runs, and flushes one. Then gets them, and one that was never there.
async fn whole_ring_there_and_back(client: &AsyncClient, pool: PoolId, object: u64, n: u32) {
    let mut batch = client.batch();
    let (first, pages) = batch.put_run(key(pool, object, 0), 4).expect("room");
    for (index, page) in pages.iter_mut().enumerate() {
        page.fill(index as u8 + n as u8);
    }
    let (second, page) = batch.put(key(pool, object, 4)).expect("room");
    page.fill(4 + n as u8);
    let flush = batch.flush_page(key(pool, object, 2)).expect("room");
    let answers = batch.run().await.expect("answered");
    assert_eq!(answers.run(first).map(|run| run.bits()), Ok(15));
    assert_eq!(answers.put(second), Ok(PutOutcome::Stored));
    assert_eq!(answers.run(flush).map(|_| ()), Ok(()));
    assert_eq!(answers.page(second), None, "a put has no page to read");

    let mut batch = client.batch();
    let all = batch.get_run(key(pool, object, 0), 5).expect("room");
    let never = batch.get(key(pool, object, 99)).expect("room");
    let answers = batch.run().await.expect("answered");
    assert_eq!(answers.run(all).map(|run| run.bits()), Ok(0b11011));
    for index in [0, 1, 3, 4] {
        let page = answers.page_of_run(all, index);
        assert_eq!(page, Some(&[index as u8 + n as u8; 4096]));
    }
    assert_eq!(answers.page_of_run(all, 2), None, "it was flushed");
    assert_eq!(answers.get(never), Ok(GetOutcome::Miss));
    assert_eq!(answers.page(never), None);
}

#[test]
fn a_batch_has_an_end_and_tells_what_was_wrong_by_itself() {
    let small = Shape::new(4, 6).expect("a fine shape");
    let daemon = Daemon::start(small, Behavior::Willing);
    run(async {
        let client = AsyncClient::connect(daemon.path())
            .await
            .expect("connected");
        let pool = client.create_pool(PoolFlags::default(), None).await;
        let pool = pool.expect("a pool");
        let mut batch = client.batch();
        assert!(batch.is_empty());
        for count in [0, 65] {
            let run = batch.get_run(key(pool, 1, 0), count);
            assert_eq!(run, Err(BatchError::Run));
        }
        batch.get_run(key(pool, 1, 0), 6).expect("room");
        let one_more = batch.put(key(pool, 1, 9)).map(|_| ());
        assert_eq!(one_more, Err(BatchError::PageSlots));
        for _ in 0..3 {
            batch.flush_object(pool, ObjectId(1)).expect("room");
        }
        let one_more = batch.flush_run(key(pool, 1, 0), 2);
        assert_eq!((one_more, batch.len()), (Err(BatchError::Entries), 4));
        batch.run().await.expect("answered");

        let mut batch = client.batch();
        let (refused, _) = batch.put(key(pool, u64::MAX, 0)).expect("room");
        let (stored, _) = batch.put(key(pool, 1, 0)).expect("room");
        let answers = batch.run().await.expect("answered");
        let why = Refusal::NoMemory;
        assert_eq!(answers.put(refused), Ok(PutOutcome::Refused(why)));
        assert_eq!(answers.put(stored), Ok(PutOutcome::Stored));
        let stranger = answers.get(Ticket::at(7));
        assert_eq!(stranger, Err(CallError::Faulty(Fault::Run)));
        let none = client.batch().run().await.expect("nothing to do");
        none.put(refused).expect_err("nothing was asked");
    });
}

#[test]
fn a_batch_that_is_dropped_leaves_nothing_behind() {
    let small = Shape::new(4, 4).expect("a fine shape");
    let daemon = Daemon::start(small, Behavior::Willing);
    run(async {
        let client = AsyncClient::connect(daemon.path())
            .await
            .expect("connected");
        let pool = client.create_pool(PoolFlags::default(), None).await;
        let pool = pool.expect("a pool");
        for n in 0..100 {
            let mut batch = client.batch();
            batch.put_run(key(pool, 1, n), 4).expect("room");
            tokio::select! {
                biased;
                _ = batch.run() => {}
                () = std::future::ready(()) => {}
            }
        }
        whole_run(&client, key(pool, 2, 0)).await;
    });
}

async fn whole_run(client: &AsyncClient, first: Key) {
    let mut batch = client.batch();
    let (ticket, _) = batch.put_run(first, 4).expect("room");
    let answers = batch.run().await.expect("answered");
    assert_eq!(answers.run(ticket).map(|run| run.done_count()), Ok(4));
}

#[test]
fn futures_that_are_dropped_leave_nothing_behind() {
    let small = Shape::new(4, 2).expect("a fine shape");
    let daemon = Daemon::start(small, Behavior::Willing);
    run(async {
        let client = AsyncClient::connect(daemon.path())
            .await
            .expect("connected");
        let pool = client.create_pool(PoolFlags::default(), None).await;
        let pool = pool.expect("a pool");
        for n in 0..200 {
            let page = [1; 4096];
            let put = client.put(key(pool, 1, n), &page);
            tokio::select! {
                biased;
                _ = put => {}
                () = std::future::ready(()) => {}
            }
        }
        assert_eq!(
            client.put(key(pool, 2, 0), &[2; 4096]).await,
            Ok(PutOutcome::Stored)
        );
        let mut page = [0; 4096];
        assert_eq!(
            client.get(key(pool, 2, 0), &mut page).await,
            Ok(GetOutcome::Hit)
        );
        assert_eq!(page, [2; 4096]);
        client.flush_page(key(pool, 2, 0)).await.expect("flushed");
        client
            .flush_object(pool, ObjectId(1))
            .await
            .expect("flushed");
    });
}

#[test]
fn all_who_wait_hear_the_farewell() {
    let daemon = Daemon::start(DEFAULT_SHAPE, Behavior::Leaving(1));
    run(async {
        let client = AsyncClient::connect(daemon.path())
            .await
            .expect("connected");
        let pool = client.create_pool(PoolFlags::default(), None).await;
        let pool = pool.expect("a pool");
        let over = Err(CallError::Gone(CloseReason::Stopping));
        let (first, second) = tokio::join!(
            client.flush_page(key(pool, 1, 1)),
            client.flush_object(pool, ObjectId(1))
        );
        assert_eq!((first, second), (over, over));
        let mut batch = client.batch();
        batch.get(key(pool, 1, 1)).expect("room");
        assert_eq!(batch.run().await.map(|_| ()), over);
        assert_eq!(client.destroy_pool(pool).await, over);
    });
}
