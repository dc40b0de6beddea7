//! A tenant that has all it may have evicts a few pages ahead of its puts. Policies that count puts without room see no
//! difference.

use super::*;
use crate::api::EvictAheadScope;

/// Blocks that the tenant may have in two shards.
const BLOCKS: usize = 64;

/// A client of a tenant that has filled its target.
fn full() -> PoolClient {
    let (store, _) = store(BLOCKS + 16, 2);
    let ann = tenant(&store, "ann", 100);
    store.set_target(ann, Some(Bytes((BLOCKS * BLOCK) as u64)));
    let client = PoolClient::new(&store, ann, EPHEMERAL);
    put_new(&client, 0..4096);
    client
}

/// Puts pages that were never put before, each in an object of its own. Counts those that found room.
fn put_new(client: &PoolClient, objects: std::ops::Range<u64>) -> usize {
    let stored = |object: &u64| client.put(*object, 0, *object) == PutOutcome::Stored;
    objects.filter(stored).count()
}

fn evictions(client: &PoolClient) -> u64 {
    let store = client.worker.store();
    store.page_figures(client.tenant).tally.evictions
}

#[test]
fn who_has_all_it_may_have_evicts_ahead_of_its_puts() {
    let client = full();
    client.worker.evict_ahead(EvictAheadScope::All, Second(10));
    let before = evictions(&client);
    // One frame or two for each shard of about 512.
    assert_eq!(put_new(&client, 10_000..10_001), 0, "counted as displaced");
    assert_eq!(evictions(&client), before, "but not at the put");
    put_new(&client, 20_000..20_100);
    let after = evictions(&client);
    assert!(
        (before + 94..before + 100).contains(&after),
        "{before} {after}"
    );
    client.worker.evict_ahead(EvictAheadScope::All, Second(11));
    let ready = evictions(&client);
    assert!(ready > after);
    (12..20).for_each(|second| {
        _ = client
            .worker
            .evict_ahead(EvictAheadScope::All, Second(second))
    });
    assert_eq!(evictions(&client), ready, "who puts nothing loses nothing");
}

/// A tenant whose shards have only a few frames each has some ready all the same, and as many again as its puts take.
#[test]
fn who_is_small_has_frames_ready_too_as_long_as_it_puts() {
    let (store, _) = store(BLOCKS + 16, 128);
    let ann = tenant(&store, "ann", 100);
    store.set_target(ann, Some(Bytes((BLOCKS * BLOCK) as u64)));
    let client = PoolClient::new(&store, ann, EPHEMERAL);
    put_new(&client, 0..4096);
    let mut at_puts = 0;
    for round in 0..50 {
        assert!(
            client.worker.evict_ahead(EvictAheadScope::All, NOW),
            "it puts"
        );
        let before = evictions(&client);
        // Four are ready, of 1,024 frames.
        put_new(&client, 10_000 + 4 * round..10_004 + 4 * round);
        at_puts += evictions(&client) - before;
    }
    assert!(at_puts < 200 / 5, "{at_puts} of 200 evicted by themselves");
    client.worker.evict_ahead(EvictAheadScope::All, NOW);
    assert!(
        !client.worker.evict_ahead(EvictAheadScope::All, NOW),
        "it puts no more"
    );
    put_new(&client, 20_000..20_050);
    assert!(
        !client.worker.evict_ahead(EvictAheadScope::Putting, NOW),
        "not looked at"
    );
    assert!(client.worker.evict_ahead(EvictAheadScope::All, NOW));
    put_new(&client, 30_000..30_050);
    assert!(client.worker.evict_ahead(EvictAheadScope::Putting, NOW));
}

/// The oracle is a twin whose chores are never done.
#[test]
fn puts_find_room_as_often_as_without_that() {
    let (client, twin) = (full(), full());
    let mut next = 10_000;
    for round in 0..40 {
        client
            .worker
            .evict_ahead(EvictAheadScope::All, Second(10 + round));
        // What is read leaves, and makes room.
        for object in next - 10..next - 10 + u64::from(round) % 7 {
            assert_eq!(client.get(object, 0), twin.get(object, 0));
        }
        let objects = next..next + 20 + u64::from(round);
        next = objects.end;
        let stored = [&client, &twin].map(|one| put_new(one, objects.clone()));
        assert_eq!(stored[0], stored[1], "round {round}");
    }
}
