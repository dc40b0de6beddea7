//! The handle that many tasks share.

use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use super::daemon::{Daemon, Mood};
use crate::ring::{AsyncClient, CallError, Farewell, Get, Key, Put, SHAPE, Shape};

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
    let daemon = Daemon::start(small, Mood::Willing);
    run(async {
        let client = AsyncClient::connect(daemon.path()).await.expect("let in");
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

#[test]
fn futures_that_are_dropped_leave_nothing_behind() {
    let small = Shape::new(4, 2).expect("a fine shape");
    let daemon = Daemon::start(small, Mood::Willing);
    run(async {
        let client = AsyncClient::connect(daemon.path()).await.expect("let in");
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
            Ok(Put::Stored)
        );
        let mut page = [0; 4096];
        assert_eq!(client.get(key(pool, 2, 0), &mut page).await, Ok(Get::Hit));
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
    let daemon = Daemon::start(SHAPE, Mood::Leaving(1));
    run(async {
        let client = AsyncClient::connect(daemon.path()).await.expect("let in");
        let pool = client.create_pool(PoolFlags::default(), None).await;
        let pool = pool.expect("a pool");
        let over = Err(CallError::Gone(Farewell::Stopping));
        let (first, second) = tokio::join!(
            client.flush_page(key(pool, 1, 1)),
            client.flush_object(pool, ObjectId(1))
        );
        assert_eq!((first, second), (over, over));
        assert_eq!(client.destroy_pool(pool).await, over);
    });
}
