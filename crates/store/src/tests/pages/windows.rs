//! Windows that leave whole.

use std::collections::HashSet;

use proptest::prelude::*;
use sublet_types::{EvictionKind, ReleaseMode, Windows};

use super::*;
use crate::pages::WINDOW_PAGES;

/// Objects, and pages of each: more than the store has room for, and no whole number of windows.
const OBJECTS: u64 = 3;
const PAGES: u32 = 61;

/// A tenant with one pool whose windows leave whole.
fn whole(shards: usize, eviction: EvictionKind) -> (Arc<Store>, Client) {
    let (store, _) = store(6, shards);
    let ann = tenant(&store, "ann", 100);
    store.set_eviction(ann, eviction, NOW);
    let client = Client::new(&store, ann, KEEPING);
    store.set_windows(client.pool, Windows::Whole);
    (store, client)
}

/// What is there, without using it.
fn there(client: &Client) -> HashSet<(u64, u32)> {
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

/// Of what was there before, each window is there still, or gone.
fn is_whole(before: &HashSet<(u64, u32)>, after: &HashSet<(u64, u32)>) -> bool {
    let gone: HashSet<_> = before.difference(after).map(window).collect();
    let mut stayed = before.intersection(after).map(window);
    !stayed.any(|window| gone.contains(&window))
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64, u32),
    Read(u64, u32),
    Release,
    Evict(EvictionKind),
}

/// Single pages, and neighbours as a read ahead puts them, with a little in between.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ahead = |(object, from): (u64, u32)| {
        let pages = from..PAGES.min(from + 16);
        pages.map(|index| Step::Put(object, index)).collect()
    };
    let place = || (0..OBJECTS, 0..PAGES);
    let steps = prop_oneof![
        6 => place().prop_map(|(object, at)| vec![Step::Put(object, at)]),
        4 => place().prop_map(|(object, at)| vec![Step::Read(object, at)]),
        3 => place().prop_map(ahead),
        1 => Just(vec![Step::Release]),
        1 => (0..EvictionKind::ALL.len()).prop_map(|kind| vec![Step::Evict(EvictionKind::ALL[kind].0)]),
    ];
    proptest::collection::vec(steps, 1..100).prop_map(|steps| steps.concat())
}

fn take(step: &Step, store: &Store, client: &Client) {
    match *step {
        Step::Put(object, index) => {
            client.put(object, index, 1);
        }
        Step::Read(object, index) => {
            client.get(object, index);
        }
        Step::Release => {
            let release = Release {
                amount: Bytes(BLOCK as u64),
                mode: ReleaseMode::Ordered,
                tenant: None,
            };
            client.worker.release(release, NOW);
        }
        Step::Evict(kind) => store.set_eviction(client.tenant, kind, NOW),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the eviction, and though an ordered release takes room in between, no window is left half.
    #[test]
    fn no_window_is_left_half(steps in steps(), shards in 1..4usize) {
        let (store, client) = whole(shards, EvictionKind::XS3h);
        for step in &steps {
            let before = there(&client);
            take(step, &store, &client);
            prop_assert!(is_whole(&before, &there(&client)), "{step:?}");
        }
        let figures = store.page_figures(client.tenant);
        prop_assert_eq!(figures.used.0, there(&client).len() as u64);
    }
}

/// With every eviction one more page costs a window, whose frames serve the next ones.
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
            assert_eq!(client.put(8, more, 1), Put::Stored, "{name}");
        }
        assert_eq!(evictions(), u64::from(WINDOW_PAGES), "{name}");
        assert_eq!(client.put(8, 100, 1), Put::Displaced, "{name}");
    }
}

/// A pool of which nothing was said beside one whose windows leave whole.
#[test]
fn other_pools_lose_page_by_page() {
    let (store, client) = whole(1, EvictionKind::Lru);
    let other = Client::new(&store, client.tenant, KEEPING);
    let evictions = || store.page_figures(client.tenant).tally.evictions;
    let mut index = 0;
    while evictions() == 0 {
        other.put(7, index, 1);
        index += 1;
    }
    assert_eq!(evictions(), 1);
    store.set_windows(other.pool, Windows::Whole);
    other.put(7, index, 1);
    // The rest of the first window: its first page has left.
    assert_eq!(evictions(), u64::from(WINDOW_PAGES));
}
