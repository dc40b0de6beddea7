//! What no tenant loses to others if several ask at once or for much at a time. The counts of what it gave must be
//! right too.

use std::sync::Barrier;

use super::pages::{EPHEMERAL, PoolClient};
use super::*;
use crate::arena::UnwrittenPage;

const BLOCKS: usize = 96;

/// Blocks of the floor.
const FLOOR: usize = 24;

const ROUNDS: u32 = 8;

const SMALL_PAGE: usize = 128;

/// A tenant with a floor that holds nearly everything, as items. All others take from it.
fn rich(store: &Arc<Store>, worker: &Worker) -> TenantId {
    let rich = guarded(store);
    for n in 0..2 * (BLOCKS * BLOCK / 1000) as u32 {
        put(worker, rich, &n.to_le_bytes(), &[1; 900], NOW).expect("room");
    }
    rich
}

fn guarded(store: &Arc<Store>) -> TenantId {
    let settings = TenantSettings {
        name: "rich".parse().expect("a name"),
        weight: Weight(1),
        floor: Some(Bytes((FLOOR * BLOCK) as u64)),
        ceiling: None,
    };
    store.add_tenant(settings).expect("added")
}

fn held(store: &Store, tenant: TenantId) -> usize {
    store.tenant_figures(tenant).held.0 as usize / BLOCK
}

/// Puts small pages, so that emptying a block takes long enough for others to come meanwhile.
fn put_small(client: &PoolClient, objects: std::ops::Range<u64>) {
    for object in objects {
        let fill = |page: &mut UnwrittenPage<'_>| pages::unlike(page);
        client
            .worker
            .put_page(client.tenant, client.key(object, 0), NOW, fill);
    }
}

#[test]
fn many_who_ask_at_once_take_no_block_of_a_floor() {
    for round in 0..ROUNDS {
        let (store, _) = pages::store_of(BLOCKS, 4, SMALL_PAGE);
        let rich = PoolClient::new(&store, guarded(&store), EPHEMERAL);
        put_small(&rich, 0..(BLOCKS * BLOCK / SMALL_PAGE) as u64);
        assert!(held(&store, rich.tenant) > FLOOR + 40);
        let poor: Vec<PoolClient> = (0..4)
            .map(|n| PoolClient::new(&store, tenant(&store, &format!("poor-{n}"), 100), EPHEMERAL))
            .collect();
        let start = Barrier::new(poor.len());
        std::thread::scope(|scope| {
            for client in &poor {
                let (start, client) = (&start, client.again());
                scope.spawn(move || {
                    start.wait();
                    put_small(&client, 0..15_000);
                });
            }
        });
        assert!(held(&store, rich.tenant) >= FLOOR, "round {round}");
        // On a busy machine some tenants made do with what they had while a thread held blocks back. So each puts once
        // more, one after the other.
        poor.iter()
            .for_each(|client| put_small(client, 15_000..30_000));
        assert_eq!(held(&store, rich.tenant), FLOOR, "round {round}");
    }
}

#[test]
fn a_value_of_many_blocks_takes_none_of_a_floor() {
    for blocks in 2..15 {
        let (store, _) = store(BLOCKS, true);
        let worker = store.worker().expect("a worker");
        let rich = rich(&store, &worker);
        let poor = tenant(&store, "poor", 100);
        let value = vec![7; blocks * BLOCK];
        for n in 0..100_u32 {
            let _ = put(&worker, poor, &n.to_le_bytes(), &value, NOW);
            let held = held(&store, rich);
            assert!(held >= FLOOR, "{blocks} blocks, {n}: {held}");
        }
        assert!(held(&store, rich) < FLOOR + 4, "{blocks} blocks");
    }
}

/// Half of what is evicted is kept. The segments that it is copied to do not count as given.
#[test]
fn what_a_tenant_gave_is_what_it_has_less_and_another_more() {
    let (store, _) = store(BLOCKS, true);
    let worker = store.worker().expect("a worker");
    let rich = rich(&store, &worker);
    let poor = tenant(&store, "poor", 100);
    for n in (0..2 * (BLOCKS * BLOCK / 1000) as u32).step_by(2) {
        get(&worker, rich, &n.to_le_bytes(), NOW);
    }
    let before = held(&store, rich);
    for n in 0..1500_u32 {
        put(&worker, poor, &n.to_le_bytes(), &[2; 2000], NOW).expect("room");
        let (rich, poor) = (store.tenant_figures(rich), store.tenant_figures(poor));
        let less = before as i64 - rich.held.0 as i64 / BLOCK as i64;
        let gave = (rich.gave.0 / BLOCK as u64) as i64;
        // A segment of survivors for which nothing was given up yet.
        assert!((0..=1).contains(&(gave - less.max(0))), "{gave} {less}");
        assert_eq!(rich.gave, poor.got);
    }
    assert!(store.tenant_figures(rich).gave.0 > 20 * BLOCK as u64);
}

/// One tenant puts items, the other pages. Each takes from the other in turn, because they hold about as much.
#[test]
fn what_goes_to_and_fro_between_items_and_pages_is_told_as_it_went() {
    let (store, _) = pages::store(BLOCKS, 4);
    let worker = store.worker().expect("a worker");
    let items = tenant(&store, "items", 100);
    let pages = PoolClient::new(&store, tenant(&store, "pages", 100), EPHEMERAL);
    let stands = || {
        [items, pages.tenant].map(|tenant| {
            let figures = store.tenant_figures(tenant);
            let blocks = |bytes: Bytes| (bytes.0 / BLOCK as u64) as i64;
            [figures.held, figures.gave, figures.got].map(blocks)
        })
    };
    let mut before = None;
    for n in 0..60_000_u32 {
        put(&worker, items, &n.to_le_bytes(), &[2; 1500], NOW).expect("room");
        pages.put(n.into(), 0, n.into());
        if n < 10_000 {
            continue; // memory is free at first
        }
        let now = stands();
        let first = *before.get_or_insert(now);
        for (first, now) in first.iter().zip(&now) {
            let more = now[0] - first[0];
            let net = (now[2] - first[2]) - (now[1] - first[1]);
            assert!(
                (more - net).abs() <= 3,
                "{n}: {more} more, {net} by what is told"
            );
        }
    }
    println!("{:?} {:?}", before, stands());
}
