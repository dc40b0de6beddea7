//! Honest clients.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::test_runner::{RngAlgorithm, TestRng};
use sublet_client::ring::{
    CallError, Client, CloseReason, ConnectError, Fault, GetOutcome, Key, Page, PutOutcome,
    Refusal, Rejection, Shape,
};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId, SharedName};

use super::fake_pages::{Daemon, EmptySpill, REFUSED, SLOW};
use crate::ring::{POOLS_MAX, Settings};

const KEEPING: PoolFlags = PoolFlags {
    persistent: false,
    shared: false,
    keeping: true,
};
const SHARED: PoolFlags = PoolFlags {
    persistent: false,
    shared: true,
    keeping: true,
};

fn key(pool: PoolId, object: u64, index: u32) -> Key {
    Key {
        pool,
        object: ObjectId(object),
        index: PageIndex(index),
    }
}

/// A daemon with a single worker, and a client of it.
fn pair() -> (Daemon, Client) {
    let daemon = Daemon::start(Settings::default(), 1);
    let client = Client::connect(daemon.path()).expect("connected");
    (daemon, client)
}

/// Waits until a condition holds. What follows a hang-up happens soon.
pub(super) fn soon(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "not soon: {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs that are longer than a batch, and a request that may take its time among the others.
#[test]
fn what_is_submitted_together_is_answered_in_its_order() {
    let (daemon, mut client) = pair();
    let pool = client.create_pool(KEEPING, None).expect("a pool");
    let (long, lone) = (key(pool, 1, 0), key(pool, 2, 5));
    let mut batch = client.batch();
    let (put, pages) = batch.put_run(long, 40).expect("room");
    (0..).zip(pages).for_each(|(n, page)| page.fill(n));
    let all = batch.get_run(long, 64).expect("room");
    let flushed = batch.flush_object(pool, ObjectId(1)).expect("room");
    let gone = batch.get_run(long, 2).expect("room");
    let (stored, page) = batch.put(lone).expect("room");
    page.fill(77);
    let found = batch.get(lone).expect("room");
    batch.flush_page(lone).expect("room");
    let missed = batch.get(lone).expect("room");
    let answers = batch.run().expect("answered");
    assert_eq!(answers.run(put).map(|run| run.bits()), Ok((1 << 40) - 1));
    assert_eq!(answers.run(all).map(|run| run.bits()), Ok((1 << 40) - 1));
    let seen = (0..40u8).all(|n| answers.page_of_run(all, n.into()) == Some(&[n; 4096]));
    assert!(seen, "another page");
    assert!(answers.run(flushed).is_ok());
    assert_eq!(answers.run(gone).map(|run| run.bits()), Ok(0));
    assert_eq!(answers.put(stored), Ok(PutOutcome::Stored));
    assert_eq!(answers.get(found), Ok(GetOutcome::Hit));
    assert_eq!(answers.page(found), Some(&[77; 4096]));
    assert_eq!(answers.get(missed), Ok(GetOutcome::Miss));
    let together: usize = daemon.pages.take_batch_sizes().iter().sum();
    assert_eq!(together, 40 + 64 + 2 + 3);
}

#[test]
fn others_come_between_gets_that_wait_for_a_disk() {
    let (daemon, mut client) = pair();
    let pool = client.create_pool(KEEPING, None).expect("a pool");
    let mut other = Client::connect(daemon.path()).expect("connected");
    let pool_of_other = other.create_pool(KEEPING, None).expect("a pool");
    daemon.pages.take_batch_sizes();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let mut batch = client.batch();
            for index in 0..96 {
                batch.get(key(pool, SLOW.0, index)).expect("room");
            }
            batch.run().expect("answered");
        });
        while !slow.is_finished() {
            other
                .get(key(pool_of_other, 1, 1), &mut [0; 4096])
                .expect("answered");
        }
    });
    let together = daemon.pages.take_batch_sizes();
    let slow: Vec<usize> = (0..together.len()).filter(|n| together[*n] == 32).collect();
    assert_eq!(slow.len(), 3, "{together:?}");
    assert!(slow[2] - slow[0] > 2, "{together:?}");
}

#[test]
fn every_verb_does_what_it_says() {
    let (daemon, mut client) = pair();
    let pool = client.create_pool(KEEPING, None).expect("a pool");
    let mut pages: Vec<Page> = (0..64).map(|n| [n as u8; 4096]).collect();
    let run = client.put_run(key(pool, 1, 10), &pages).expect("answered");
    assert_eq!((run.bits(), run.refusal()), (u64::MAX, None));
    assert_eq!(
        client.put(key(pool, 1, 10), &pages[9]),
        Ok(PutOutcome::Replaced)
    );
    pages.iter_mut().for_each(|page| page.fill(99));
    let run = client
        .get_run(key(pool, 1, 4), &mut pages)
        .expect("answered");
    assert_eq!(run.bits(), u64::MAX << 6);
    assert_eq!((pages[5][0], pages[6][7], pages[63][4095]), (99, 9, 57));
    client.flush_page(key(pool, 1, 11)).expect("flushed");
    assert_eq!(
        client.get(key(pool, 1, 11), &mut pages[0]),
        Ok(GetOutcome::Miss)
    );
    client.flush_object(pool, ObjectId(1)).expect("flushed");
    client
        .flush_object(pool, ObjectId(1))
        .expect("flushed again");
    assert_eq!(daemon.pages.pages(), 0);
    assert_eq!(client.destroy_pool(pool), Ok(()));
    let unknown = Err(CallError::Faulty(Fault::Pool));
    assert_eq!(client.destroy_pool(pool), unknown);
    assert_eq!(client.flush_page(key(pool, 1, 1)), unknown);
}

#[test]
fn a_refused_put_says_why() {
    let (_daemon, mut client) = pair();
    let pool = client.create_pool(KEEPING, None).expect("a pool");
    let refused = client.put(key(pool, REFUSED.0, 1), &[0; 4096]);
    assert_eq!(refused, Ok(PutOutcome::Refused(Refusal::AtTarget)));
}

#[test]
fn a_pool_without_a_name_ends_with_its_connection() {
    let (daemon, mut client) = pair();
    let mut other = Client::connect(daemon.path()).expect("connected");
    let private = client.create_pool(KEEPING, None).expect("a pool");
    let named = client.create_pool(SHARED, Some(SharedName(7)));
    let named = named.expect("a pool");
    client.put(key(private, 1, 1), &[1; 4096]).expect("stored");
    client.put(key(named, 1, 1), &[2; 4096]).expect("stored");
    let mut page = [0; 4096];
    let theirs = other.get(key(private, 1, 1), &mut page);
    assert_eq!(theirs, Err(CallError::Faulty(Fault::Pool)), "not theirs");
    drop(client);
    soon("one pool is left", || {
        daemon.pages.pools() == [named].into()
    });
    assert_eq!(other.create_pool(SHARED, Some(SharedName(7))), Ok(named));
    assert_eq!(other.create_pool(SHARED, Some(SharedName(7))), Ok(named));
    assert_eq!(other.get(key(named, 1, 1), &mut page), Ok(GetOutcome::Hit));
    assert_eq!(page, [2; 4096]);
    other.destroy_pool(named).expect("left");
    assert!(daemon.pages.pools().is_empty(), "the last one has left");
}

/// The daemon removes a client's many pages piece by piece, whether the client hung up or asked for it. It answers
/// others in between.
#[test]
fn others_are_answered_while_much_is_removed() {
    let (daemon, mut other) = pair();
    let pool = other.create_pool(KEEPING, None).expect("a pool");
    let mut page = [0; 4096];
    let mut is_answered_meanwhile = || {
        (0..20)
            .for_each(|_| assert_eq!(other.get(key(pool, 1, 1), &mut page), Ok(GetOutcome::Miss)));
        daemon.pages.pages() > 0
    };
    let filled = || {
        let mut client = Client::connect(daemon.path()).expect("connected");
        let pool = client.create_pool(KEEPING, None).expect("a pool");
        for index in 0..500 {
            let put = client.put(key(pool, SLOW.0, index), &[1; 4096]);
            assert_eq!(put, Ok(PutOutcome::Stored));
        }
        (client, pool)
    };
    drop(filled());
    assert!(is_answered_meanwhile());
    soon("all is removed", || daemon.pages.pages() == 0);
    for whole in [true, false] {
        let (mut client, pool) = filled();
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || {
                match whole {
                    true => client.destroy_pool(pool).expect("destroyed"),
                    false => client.flush_object(pool, SLOW).expect("flushed"),
                }
                client
            });
            soon("it began", || daemon.pages.pages() < 500);
            assert!(is_answered_meanwhile());
            let _client = asked.join().expect("no panic");
            assert_eq!(daemon.pages.pages(), 0, "answered when it is done");
        });
    }
}

#[test]
fn pools_that_may_not_be_are_refused_with_the_reason() {
    let (_daemon, mut client) = pair();
    let persistent = PoolFlags {
        persistent: true,
        ..PoolFlags::default()
    };
    let no_spill = CallError::Refused(Refusal::NoSpill);
    assert!(no_spill.to_string().contains("set `spill`"));
    assert_eq!(client.create_pool(persistent, None), Err(no_spill));
    let denied = client.create_pool(SHARED, Some(SharedName(13)));
    assert_eq!(denied, Err(CallError::Refused(Refusal::NotPermitted)));
    for _ in 0..POOLS_MAX {
        client.create_pool(KEEPING, None).expect("a pool");
    }
    let one_more = client.create_pool(KEEPING, None);
    assert_eq!(one_more, Err(CallError::Refused(Refusal::TooManyPools)));

    let spilling = Settings {
        spill: Some(Arc::new(EmptySpill)),
        ..Settings::default()
    };
    let daemon = Daemon::start(spilling, 1);
    let mut client = Client::connect(daemon.path()).expect("connected");
    client.create_pool(persistent, None).expect("a pool");
}

#[test]
fn who_may_not_come_in_hears_why() {
    let nobody = Settings {
        allow_uids: vec![rustix::process::geteuid().as_raw() + 1],
        ..Settings::default()
    };
    let daemon = Daemon::start(nobody, 1);
    let refused = Client::connect(daemon.path());
    let not_allowed = ConnectError::Rejected(Rejection::NotAllowed);
    assert_eq!(
        refused.expect_err("refused").to_string(),
        not_allowed.to_string()
    );
    assert_eq!(daemon.group.figures.refused_uid.get(), 1);

    let two = Settings {
        connections_max: 2,
        ..Settings::default()
    };
    let daemon = Daemon::start(two, 2);
    let first = Client::connect(daemon.path()).expect("connected");
    let _second = Client::connect(daemon.path()).expect("connected");
    let third = Client::connect(daemon.path()).expect_err("refused");
    assert!(matches!(third, ConnectError::Rejected(Rejection::TooMany)));
    drop(first);
    soon("a place is free", || Client::connect(daemon.path()).is_ok());
}

#[test]
fn a_newcomer_is_served_where_silent_ones_take_every_place() {
    let settings = Settings {
        connections_max: 2,
        silence_max: Duration::from_millis(300),
        ..Settings::default()
    };
    let daemon = Daemon::start(settings, 1);
    let silent = [(); 2].map(|()| UnixStream::connect(daemon.path()).expect("connected"));
    let client = Client::connect(daemon.path());
    client.expect("the oldest gives way");
    assert_eq!(daemon.group.figures.refused_full.get(), 0);
    drop(silent);
}

#[test]
fn who_is_served_when_the_daemon_stops_hears_it() {
    let (mut daemon, mut client) = pair();
    client.create_pool(KEEPING, None).expect("a pool");
    daemon.stop();
    let over = client.create_pool(KEEPING, None);
    assert_eq!(over, Err(CallError::Gone(CloseReason::Stopping)));
    assert!(daemon.pages.pools().is_empty());
    assert!(!daemon.path().exists());
}

/// How often the thread of that name in this process gave up its processor.
fn switches(thread: &str) -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let named = tasks.flatten().map(|entry| entry.path()).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread)
    });
    let status = std::fs::read_to_string(named?.join("status")).ok()?;
    let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
    let counts = counts.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok());
    Some(counts.sum())
}

/// This runs alone, because other tests' workers have the same name.
#[test]
#[ignore = "looks at the threads of the whole process"]
fn idle_rings_use_no_processor() {
    let (_daemon, mut client) = pair();
    let pool = client.create_pool(KEEPING, None).expect("a pool");
    for n in 0..1000 {
        client.flush_page(key(pool, 1, n)).expect("flushed");
    }
    std::thread::sleep(Duration::from_millis(50));
    let before = switches("ring-0").expect("a worker");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        switches("ring-0"),
        Some(before),
        "it woke up without a reason"
    );
}

#[test]
#[ignore = "builds the shared library; needs a C compiler and Python"]
fn other_languages_are_served_as_well() {
    let daemon = Daemon::start(Settings::default(), 1);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients/ring/run");
    let ran = std::process::Command::new(script)
        .env("RING_SOCKET", daemon.path())
        .status();
    assert!(ran.expect("the script runs").success());
}

/// Two connections, two workers, and one model for each. Their keys differ, so neither sees the other's pages.
#[test]
fn random_requests_agree_with_a_model() {
    let daemon = Daemon::start(Settings::default(), 2);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let path = daemon.path();
            scope.spawn(move || agree_with_a_model(&path, seed));
        }
    });
    soon("all pools are gone", || daemon.pages.pools().is_empty());
    soon("all pages are", || daemon.pages.pages() == 0);
}

fn agree_with_a_model(path: &std::path::Path, seed: u8) {
    use proptest::prelude::Rng;
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let wish = Shape::new(16, 40).expect("a fine shape");
    let mut client = Client::connect_with(path, wish).expect("connected");
    let pool = client.create_pool(PoolFlags::default(), None);
    let pool = pool.expect("a pool");
    let mut model: HashMap<(u64, u32), u8> = HashMap::new();
    for _ in 0..3000 {
        let draw = rng.next_u64();
        let (object, index) = (draw >> 8 & 3, (draw >> 16) as u32 & 15);
        let (key, fill) = (key(pool, object, index), (draw >> 32) as u8);
        match draw % 8 {
            0..=2 => {
                let put = client.put(key, &[fill; 4096]).expect("answered");
                let expected = match model.insert((object, index), fill) {
                    Some(_) => PutOutcome::Replaced,
                    None => PutOutcome::Stored,
                };
                assert_eq!(put, expected);
            }
            3..=5 => {
                let mut pages = [[0; 4096]; 5];
                let run = client.get_run(key, &mut pages).expect("answered");
                for (n, page) in pages.iter().enumerate() {
                    let expected = model.remove(&(object, index + n as u32));
                    assert_eq!(run.is_done(n), expected.is_some());
                    assert_eq!(*page, [expected.unwrap_or(0); 4096]);
                }
            }
            6 => {
                client.flush_page(key).expect("flushed");
                model.remove(&(object, index));
            }
            _ => {
                client
                    .flush_object(pool, ObjectId(object))
                    .expect("flushed");
                model.retain(|(of, _), _| *of != object);
            }
        }
    }
}
