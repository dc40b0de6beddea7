//! Pages that are put together have the same outcomes as one by one.

use std::sync::atomic::{AtomicBool, Ordering};

use sublet_types::{Bytes, TenantSettings, Weight};

use super::*;

/// How pages are put.
#[derive(Clone, Copy)]
enum PutStyle {
    OneByOne,
    Together,
}

impl PutStyle {
    fn put(self, client: &PoolClient, keys: &[PageKey]) -> Vec<PutOutcome> {
        match self {
            PutStyle::Together => client.put_pages(keys, 5),
            PutStyle::OneByOne => keys
                .iter()
                .map(|key| client.put(key.object.0, key.index.0, 5))
                .collect(),
        }
    }
}

/// The object whose shard has frames to spare.
const SPARE: u64 = 7777;

/// Its last page, and pages of this many other objects. A group of them holds the shard with the frames, and needs the
/// frames in other shards.
fn scattered(client: &PoolClient, others: u64) -> Vec<PageKey> {
    let others = (0..others).map(|n| client.key(9000 + n, 0));
    std::iter::once(client.key(SPARE, 23))
        .chain(others)
        .collect()
}

/// A persistent pool, full but for 23 frames in the shard of one object.
fn with_frames_to_spare(client: &PoolClient) {
    (0..24).for_each(|index| assert!(client.put(SPARE, index, 1).is_stored()));
    let full = |n| !client.put(n, 0, n).is_stored();
    (0..).find(|n| full(*n));
    (0..23).for_each(|index| assert!(client.flush(SPARE, index)));
}

/// A store, and a client whose tenant may have four of its blocks.
fn below_a_ceiling() -> (Arc<Store>, PoolClient) {
    let (store, _) = store(12, 4);
    let ann = tenant(&store, "ann", 100);
    let settings = TenantSettings {
        name: "ann".parse().expect("a name"),
        weight: Weight(100),
        floor: None,
        ceiling: Some(Bytes((4 * BLOCK) as u64)),
    };
    store.set_tenant(ann, settings).expect("set");
    let client = PoolClient::new(&store, ann, PERSISTENT);
    (store, client)
}

#[test]
fn at_its_ceiling_a_tenant_uses_its_last_frames() {
    for way in [PutStyle::OneByOne, PutStyle::Together] {
        let (_store, client) = below_a_ceiling();
        with_frames_to_spare(&client);
        let puts = way.put(&client, &scattered(&client, 15));
        assert!(puts.iter().all(|put| put.is_stored()), "{puts:?}");
        assert_eq!(client.figures().free.0, 8);
    }
}

/// The only free frames are in a shard that another thread locks again and again.
#[test]
fn nobody_is_refused_for_what_others_hold_for_a_moment() {
    let (store, client) = below_a_ceiling();
    with_frames_to_spare(&client);
    let tenant = store.tenants.get(client.tenant).expect("there");
    let shards = store.pages.tenant_pages(tenant).shards();
    let spare = |n: &usize| {
        let keys = store.pages.keys_of(tenant, *n, |key| key.object.0 == SPARE);
        !keys.is_empty()
    };
    let shard = &shards[(0..shards.len()).find(spare).expect("one has it")];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let held = shard.lock();
                (0..1000).for_each(|_| std::hint::spin_loop());
                drop(held);
                (0..1000).for_each(|_| std::hint::spin_loop());
            }
        });
        // The frames go to other shards, and come back.
        let refused = (0..500).find(|_| {
            let away = (0..20).all(|n| client.put(9000 + n, 0, 1).is_stored());
            (0..20).for_each(|n| _ = client.flush(9000 + n, 0));
            let back = (0..20).all(|index| client.put(SPARE, index, 1).is_stored());
            (0..20).for_each(|index| _ = client.flush(SPARE, index));
            !away || !back
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(refused, None);
    });
}

/// Some shard is locked at every moment. A tenant gets the free blocks all the same. At its ceiling it is told, after a
/// bounded count, that there are none.
#[test]
fn nobody_goes_without_a_block_for_what_others_hold() {
    let (store, _) = store(40, 16);
    let client = PoolClient::new(&store, tenant(&store, "ann", 100), PERSISTENT);
    let ceiling = 20 * 16;
    store.set_target(client.tenant, Some(Bytes(20 * BLOCK as u64)));
    assert!(client.put(1, 0, 1).is_stored());
    let tenant = store.tenants.get(client.tenant).expect("there");
    let shards = store.pages.tenant_pages(tenant).shards();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = shards[0].lock();
            for shard in shards.iter().cycle().skip(1) {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                (0..2000).for_each(|_| std::hint::spin_loop());
                // Hold the next shard before the last one is released, without waiting for it.
                if let Some(next) = shard.try_lock() {
                    held = next;
                }
            }
            drop(held);
        });
        let stored = (1..400).filter(|n| client.put(1000 + n, 0, *n).is_stored());
        let stored = stored.count();
        is_over.store(true, Ordering::Relaxed);
        let tally = client.figures().tally;
        assert_eq!(stored, ceiling - 1);
        assert_eq!(
            (tally.puts, tally.puts_refused),
            (400, 400 - ceiling as u64)
        );
    });
    assert!((1..ceiling as u64).all(|n| client.get(1000 + n, 0) == Some(n)));
}

#[test]
fn a_page_on_disk_outlives_a_put_beside_others() {
    let (store, _) = store(6, 4);
    let client = PoolClient::new(&store, tenant(&store, "ann", 100), PERSISTENT);
    with_frames_to_spare(&client);
    let keys = scattered(&client, 15);
    PutStyle::Together.put(&client, &keys);
    let got = client.get_pages(&keys);
    assert!(got.iter().all(Option::is_some), "{got:?}");
}

#[test]
fn in_a_full_arena_pages_displace_those_of_other_shards() {
    for way in [PutStyle::OneByOne, PutStyle::Together] {
        let (store, _) = store(6, 128);
        let [ann, ben] =
            [("ann", 100), ("ben", 1)].map(|(name, weight)| tenant(&store, name, weight));
        let (client, other) = (
            PoolClient::new(&store, ann, KEEPING),
            PoolClient::new(&store, ben, EPHEMERAL),
        );
        (0..200).for_each(|index| _ = other.put(1, index, 1));
        (0..40).for_each(|index| _ = client.put(SPARE, index, 1));
        for round in 0..50 {
            let others = (0..15).map(|n| client.key(9000 + n + round * 15, 0));
            let keys: Vec<_> = std::iter::once(client.key(SPARE, round as u32))
                .chain(others)
                .collect();
            let puts = way.put(&client, &keys);
            assert!(puts.iter().all(|put| put.is_stored()), "{puts:?}");
        }
    }
}

/// No tenant gives a block for pages that have frames already.
#[test]
fn a_neighbour_keeps_its_pages_while_there_are_frames() {
    let (store, _) = store(12, 4);
    let [ann, ben] = ["ann", "ben"].map(|name| tenant(&store, name, 100));
    let (client, other) = (
        PoolClient::new(&store, ann, PERSISTENT),
        PoolClient::new(&store, ben, EPHEMERAL),
    );
    (0..24).for_each(|index| assert!(client.put(SPARE, index, 1).is_stored()));
    (0..40).for_each(|n| assert!(client.put(n, 0, n).is_stored()));
    (0..400).for_each(|n| _ = other.put(n, 0, 1));
    (0..23).for_each(|index| assert!(client.flush(SPARE, index)));
    let before = (other.figures().used.0, client.figures().free.0);
    assert!(before.0 > 50 && before.1 >= 15, "{before:?}");
    let puts = PutStyle::Together.put(&client, &scattered(&client, 15));
    assert!(puts.iter().all(|put| put.is_stored()), "{puts:?}");
    assert_eq!(
        (other.figures().used.0, client.figures().free.0),
        (before.0, before.1 - 15)
    );
}

/// A tenant that holds more than its share gives way to pages that are put together just as to single ones.
#[test]
fn pages_that_are_put_together_are_worth_a_share() {
    let used = |together: bool| {
        let (store, _) = store(32, 4);
        let tenants = [tenant(&store, "ann", 100), tenant(&store, "ben", 100)];
        let [ann, ben] = tenants.map(|tenant| PoolClient::new(&store, tenant, EPHEMERAL));
        (0..600).for_each(|n| _ = ann.put(n % 20, n as u32 / 20, 1));
        let keys: Vec<_> = (0..3000).map(|n| ben.key(n % 20, n as u32 / 20)).collect();
        match together {
            true => keys.chunks(32).for_each(|keys| _ = ben.put_pages(keys, 1)),
            false => keys
                .iter()
                .for_each(|key| _ = ben.put(key.object.0, key.index.0, 1)),
        }
        ben.figures().used.0
    };
    let (one_by_one, together) = (used(false), used(true));
    assert!(
        one_by_one > 150 && together > 150,
        "{one_by_one}, {together}"
    );
}
