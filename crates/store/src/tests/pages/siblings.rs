//! A tenant's shards share its memory. The shard of an object's pages does not limit how many there may be.

use sublet_types::{ReleaseMode, WindowEviction};

use super::*;

/// Pages that a tenant may have.
const ROOM: u32 = 64 * 16;

/// A client of a store with two shards that may have `ROOM` pages, and an object of each shard.
fn two_shards(flags: PoolFlags) -> (PoolClient, [u64; 2]) {
    let (store, _) = store(80, 2);
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, flags);
    store.set_target(ann, Some(Bytes(u64::from(ROOM) * PAGE as u64)));
    let ann = client.worker.store().tenants.get(ann).expect("added");
    let pages = &store.pages;
    let shard_of = |object: u64| {
        let hash = pages.seed.object(client.pool.slot, ObjectId(object));
        pages.tenant_pages(ann).shard_number(hash)
    };
    let objects = [0, 1].map(|shard| (1..).find(|object| shard_of(*object) == shard));
    (client, objects.map(|object| object.expect("one of many")))
}

/// Spare room in which pages can be moved.
const SPARE: u32 = 4 * 16;

/// Puts the first pages of an object, this many.
type PutMethod = fn(&PoolClient, u64, u32);

const WAYS: [(&str, PutMethod); 3] = [
    ("one by one", |client, object, count| {
        (0..count).for_each(|index| assert!(client.put(object, index, 1).is_stored()));
    }),
    ("in runs", |client, object, count| {
        for from in (0..count).step_by(32) {
            client.put_run(object, from, 32, 1);
        }
    }),
    ("together", |client, object, count| {
        for from in (0..count).step_by(32) {
            let key = |index| client.key(object, index);
            let keys: Vec<PageKey> = (from..from + 32).map(key).collect();
            client.put_pages(&keys, 1);
        }
    }),
];

fn found(client: &PoolClient, object: u64, count: u32) -> usize {
    let is_there = |index: &u32| client.get(object, *index).is_some();
    (0..count).filter(is_there).count()
}

/// E1: any of the tenant's pages may go, not only the object's own. A new object grows, whatever it shares its shard
/// with.
#[test]
fn r_e1_an_object_that_is_new_grows_at_the_expense_of_cold_ones() {
    for (name, put) in WAYS {
        let (client, [cold, new]) = two_shards(KEEPING);
        put(&client, cold, ROOM);
        assert_eq!(client.figures().used.0, ROOM.into());
        put(&client, new, ROOM / 4);
        let found = found(&client, new, ROOM / 4);
        assert!(found as u32 > ROOM / 6, "{name}: {found}");
        let figures = client.figures();
        assert_eq!(figures.used.0, ROOM.into(), "{name}");
        assert_eq!(figures.tally.evictions, u64::from(ROOM / 4), "{name}");
    }
}

/// Several pages of another shard go at once. In the end as many go as are asked for, and each put that has one of
/// their frames displaced one page.
#[test]
fn puts_that_take_frames_of_pages_that_went_at_once_displaced_them() {
    const AT_ONCE: u64 = 3;
    for (name, put) in WAYS {
        let (client, [cold, new]) = two_shards(EPHEMERAL);
        put(&client, cold, ROOM);
        put(&client, new, ROOM / 2);
        let figures = client.figures();
        let (tally, displaced) = (figures.tally, u64::from(ROOM / 2));
        assert_eq!(tally.puts_succeeded, ROOM.into(), "{name}: {tally:?}");
        let early = tally.evictions.checked_sub(displaced);
        let early = early.expect("one for each put");
        assert!(early < AT_ONCE, "{name}: {tally:?}");
        assert_eq!(figures.used.0 + early, ROOM.into(), "{name}");
        assert!(found(&client, new, ROOM / 2) as u32 > ROOM / 3, "{name}");
    }
}

/// R-E1: no page goes while there are free frames in any shard.
#[test]
fn r_e1_nothing_goes_while_frames_are_free_elsewhere() {
    for (name, put) in WAYS {
        let (client, [read, new]) = two_shards(EPHEMERAL);
        put(&client, read, ROOM);
        assert_eq!(found(&client, read, ROOM), ROOM as usize);
        put(&client, new, ROOM / 2);
        assert_eq!(client.figures().tally.evictions, 0, "{name}");
        assert_eq!(found(&client, new, ROOM / 2), ROOM as usize / 2, "{name}");
    }
}

/// E3: after a fast release no frame of a dropped block is used, however many of them are in the way.
#[test]
fn r_e3_frames_of_dropped_blocks_are_borrowed_by_nobody() {
    let (client, [one, other]) = two_shards(EPHEMERAL);
    for index in 0..ROOM / 2 {
        assert!(client.put(one, index, 1).is_stored());
        assert!(client.put(other, index, 1).is_stored());
    }
    assert!(client.flush_object(one) && client.flush_object(other));
    let release = Release {
        amount: Bytes(u64::from(ROOM) * PAGE as u64),
        mode: ReleaseMode::Fast,
        tenant: None,
    };
    client.worker.store().set_limit(Bytes((8 * BLOCK) as u64));
    client.worker.release(release, NOW);
    for index in 0..ROOM / 4 {
        for object in [one, other] {
            if client.put(object, index, 2).is_stored() {
                assert!(client.get(object, index).is_some(), "page {index}");
            }
        }
    }
}

/// E3: pages move to free frames in other shards before any is evicted or goes to disk.
#[test]
fn r_e3_shrinking_moves_pages_to_frames_of_other_shards() {
    const COUNT: u32 = (ROOM - SPARE) / 2;
    for flags in [EPHEMERAL, KEEPING, PERSISTENT] {
        let (client, [gone, stays]) = two_shards(flags);
        // In turn, so that each block has pages of both.
        for index in 0..COUNT {
            assert!(client.put(gone, index, 1).is_stored());
            assert!(client.put(stays, index, 1).is_stored());
        }
        assert!(client.flush_object(gone));
        let target = Bytes(u64::from(COUNT + SPARE) * PAGE as u64);
        let store = client.worker.store();
        store.set_target(client.tenant, Some(target));
        while client.worker.upkeep(Second(3)) {}
        let figures = client.figures();
        let tally = figures.tally;
        assert_eq!((tally.evictions, tally.spilled), (0, 0), "{flags:?}");
        assert_eq!(figures.used.0, u64::from(COUNT), "{flags:?}");
        let held = figures.held_ephemeral.0 + figures.held_persistent.0;
        assert!(held <= u64::from(COUNT + SPARE), "{flags:?}: {figures:?}");
        assert_eq!(found(&client, stays, COUNT), COUNT as usize);
    }
}

/// The last page that an object can have leaves with its window too.
#[test]
fn the_last_window_of_an_object_is_whole() {
    let (client, _) = two_shards(KEEPING);
    let store = client.worker.store();
    store.set_windows(client.pool, WindowEviction::Whole);
    let window = u32::MAX - 7..=u32::MAX;
    for index in window.clone() {
        assert!(client.put(1, index, 1).is_stored());
    }
    store.set_target(client.tenant, Some(Bytes::ZERO));
    let displaces = |index: &u32| client.put(1, *index, 1) == PutOutcome::Displaced;
    assert!((1..100).any(|index| displaces(&index)));
    let left = window.filter(|index| client.get(1, *index).is_some());
    assert_eq!(left.count(), 0);
}
