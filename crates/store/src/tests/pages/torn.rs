//! Self-describing pages, while many threads put, get, flush and release.

use sublet_types::ReleaseMode;

use super::super::counted::assert_counted;
use super::*;

/// G5: a get returns the bytes of exactly one put, whole, while others put, flush, release and end pools.
#[test]
fn r_g5_no_page_is_torn_or_anothers() {
    let (store, _) = store(48, 4);
    let tenants = [tenant(&store, "ann", 100), tenant(&store, "ben", 200)];
    let clients = [EPHEMERAL, KEEPING, PERSISTENT, EPHEMERAL];
    std::thread::scope(|scope| {
        for (n, flags) in clients.into_iter().enumerate() {
            let owner = tenants[n % 2];
            let pool = PoolClient::new(&store, owner, flags).pool;
            for thread in 0..2u64 {
                let store = &store;
                scope.spawn(move || hammer(&PoolClient::of(store, owner, pool), n as u64, thread));
            }
        }
        scope.spawn(|| disturb(&store));
    });
    assert_counted(&store);
}

/// Self-describing pages: pool and place in the high bits, a sequence in the low ones.
fn hammer(client: &PoolClient, pool: u64, thread: u64) {
    let mut random = pool * 2 + thread + 1;
    for sequence in 0..6000u64 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (object, index) = (random >> 60, (random >> 40) as u32 % 50);
        let place = pool << 56 | object << 48 | u64::from(index) << 40;
        match random >> 33 & 7 {
            0..=2 => {
                client.put(object, index, place | sequence << 16);
            }
            3 => put_beside(client, pool, random, sequence),
            4 => get_beside(client, pool, random),
            5..=6 => {
                if let Some(content) = client.get(object, index) {
                    assert_eq!(content >> 40 << 40, place, "another page");
                }
            }
            _ if sequence % 97 == 0 => assert!(client.flush_object(object)),
            _ => assert!(client.flush(object, index)),
        }
    }
}

/// Places all over a pool's objects, and the content of its pages there.
fn places(pool: u64, random: u64) -> impl Iterator<Item = (u64, u32, u64)> {
    let lots = (0..24u64).map(move |n| {
        random
            .rotate_left(n as u32 * 2)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    lots.map(move |lot| {
        let (object, index) = (lot >> 60, (lot >> 40) as u32 % 50);
        let place = pool << 56 | object << 48 | u64::from(index) << 40;
        (object, index, place)
    })
}

fn put_beside(client: &PoolClient, pool: u64, random: u64, sequence: u64) {
    let (keys, contents): (Vec<_>, Vec<_>) = places(pool, random)
        .map(|(object, index, place)| (client.key(object, index), place | sequence << 16))
        .unzip();
    let fill = |n: usize, page: &mut UnwrittenPage<'_>| page.write(&page_of(contents[n]));
    client
        .worker
        .put_pages(client.tenant, &keys, NOW, fill, |_, _| {});
}

fn get_beside(client: &PoolClient, pool: u64, random: u64) {
    let places: Vec<_> = places(pool, random).collect();
    let key = |(object, index, _): &(u64, u32, u64)| client.key(*object, *index);
    let keys: Vec<_> = places.iter().map(key).collect();
    for ((.., place), got) in places.iter().zip(client.get_pages(&keys)) {
        assert!(
            got.is_none_or(|content| content >> 40 << 40 == *place),
            "another page"
        );
    }
}

fn disturb(store: &Arc<Store>) {
    let worker = store.worker().expect("a worker");
    for round in 0..120u32 {
        let mode = [ReleaseMode::Fast, ReleaseMode::Ordered][round as usize % 2];
        let release = Release {
            amount: Bytes(u64::from(1 + round % 5) * BLOCK as u64),
            mode,
            tenant: None,
        };
        worker.release(release, NOW);
        worker.upkeep(Second(3 + round));
        std::thread::yield_now();
    }
}
