//! Windows that leave whole.

use std::collections::HashSet;

use proptest::prelude::*;
use sublet_types::{EvictionKind, ReleaseMode, WindowEviction};

use super::*;
use crate::pages::WINDOW_PAGES;

/// Objects, and pages of each. There are more than the store has room for, and no whole number of windows.
const OBJECTS: u64 = 3;
const PAGES: u32 = 61;

/// A tenant with one pool whose windows leave whole.
fn whole(shards: usize, eviction: EvictionKind) -> (Arc<Store>, PoolClient) {
    let (store, _) = store(6, shards);
    let ann = tenant(&store, "ann", 100);
    store.set_eviction(ann, eviction, NOW);
    let client = PoolClient::new(&store, ann, KEEPING);
    store.set_windows(client.pool, WindowEviction::Whole);
    (store, client)
}

/// What is there, without using it.
fn there(client: &PoolClient) -> HashSet<(u64, u32)> {
    let all = (0..OBJECTS).flat_map(|object| (0..PAGES).map(move |index| (object, index)));
    let has = |place: &(u64, u32)| {
        let key = client.key(place.0, place.1);
        client.worker.has_page(client.tenant, key, NOW)
    };
    all.filter(has).collect()
}

fn window(place: &(u64, u32)) -> (u64, u32) {
    (place.0, place.1 / WINDOW_PAGES)
}

/// Returns whether each window that was there before is still there or gone as a whole.
fn is_whole(before: &HashSet<(u64, u32)>, after: &HashSet<(u64, u32)>) -> bool {
    let gone: HashSet<_> = before.difference(after).map(window).collect();
    let mut stayed = before.intersection(after).map(window);
    !stayed.any(|window| gone.contains(&window))
}

#[derive(Clone, Debug)]
enum WindowStep {
    Put(u64, u32),
    Read(u64, u32),
    Release,
    Evict(EvictionKind),
}

/// Single pages, and neighbours as reading ahead puts them, with gaps in between.
fn steps() -> impl Strategy<Value = Vec<WindowStep>> {
    let ahead = |(object, from): (u64, u32)| {
        let pages = from..PAGES.min(from + 16);
        pages.map(|index| WindowStep::Put(object, index)).collect()
    };
    let place = || (0..OBJECTS, 0..PAGES);
    let steps = prop_oneof![
        6 => place().prop_map(|(object, at)| vec![WindowStep::Put(object, at)]),
        4 => place().prop_map(|(object, at)| vec![WindowStep::Read(object, at)]),
        3 => place().prop_map(ahead),
        1 => Just(vec![WindowStep::Release]),
        1 => (0..EvictionKind::ALL.len()).prop_map(|kind| vec![WindowStep::Evict(EvictionKind::ALL[kind].0)]),
    ];
    proptest::collection::vec(steps, 1..100).prop_map(|steps| steps.concat())
}

fn apply(step: &WindowStep, store: &Store, client: &PoolClient) {
    match *step {
        WindowStep::Put(object, index) => {
            client.put(object, index, 1);
        }
        WindowStep::Read(object, index) => {
            client.get(object, index);
        }
        WindowStep::Release => {
            let release = Release {
                amount: Bytes(BLOCK as u64),
                mode: ReleaseMode::Ordered,
                tenant: None,
            };
            client.worker.release(release, NOW);
        }
        WindowStep::Evict(kind) => store.set_eviction(client.tenant, kind, NOW),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No window is left half, whatever the eviction, even if an ordered release takes room in between.
    #[test]
    fn no_window_is_left_half(steps in steps(), shards in 1..4usize) {
        let (store, client) = whole(shards, EvictionKind::XS3h);
        for step in &steps {
            let before = there(&client);
            apply(step, &store, &client);
            prop_assert!(is_whole(&before, &there(&client)), "{step:?}");
        }
        let figures = store.page_figures(client.tenant);
        prop_assert_eq!(figures.used.0, there(&client).len() as u64);
    }
}

/// With every eviction, one more page costs a window. Its frames serve the next pages.
#[test]
fn a_window_goes_for_a_page_and_leaves_room_for_a_window() {
    for (kind, name, _) in EvictionKind::ALL {
        let (store, client) = whole(1, kind);
        let mut index = 0;
        while store.page_figures(client.tenant).tally.evictions == 0 {
            client.put(7, index, 1);
            index += 1;
        }
        let evictions = || store.page_figures(client.tenant).tally.evictions;
        assert_eq!(evictions(), u64::from(WINDOW_PAGES), "{name}");
        for more in 1..WINDOW_PAGES {
            assert_eq!(client.put(8, more, 1), PutOutcome::Stored, "{name}");
        }
        assert_eq!(evictions(), u64::from(WINDOW_PAGES), "{name}");
        assert_eq!(client.put(8, 100, 1), PutOutcome::Displaced, "{name}");
    }
}

/// A pool with default windows beside one whose windows leave whole.
#[test]
fn other_pools_lose_page_by_page() {
    let (store, client) = whole(1, EvictionKind::Lru);
    let other = PoolClient::new(&store, client.tenant, KEEPING);
    let evictions = || store.page_figures(client.tenant).tally.evictions;
    let mut index = 0;
    while evictions() == 0 {
        other.put(7, index, 1);
        index += 1;
    }
    assert_eq!(evictions(), 1);
    store.set_windows(other.pool, WindowEviction::Whole);
    other.put(7, index, 1);
    // The rest of the first window: its first page has left.
    assert_eq!(evictions(), u64::from(WINDOW_PAGES));
}
