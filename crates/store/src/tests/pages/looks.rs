//! Whoever looks waits for nobody.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sublet_types::Pages;

use super::super::put;
use super::*;
use crate::arena::{BlockList, PageKind};

/// So long a look may take where nothing holds it up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `then` while every list is held by somebody who walks it. Each has a block.
fn holding(store: &Store, lists: &[&BlockList], then: &mut dyn FnMut()) {
    let Some((list, rest)) = lists.split_first() else {
        return then();
    };
    let mut is_first = true;
    list.walk_all(&store.arena, |_| {
        if std::mem::take(&mut is_first) {
            holding(store, rest, then);
        }
    });
    assert!(!is_first, "a list without a block holds nobody up");
}

/// A look in a thread of its own, which ends although the caller holds whatever it holds.
fn look(store: &Arc<Store>) -> AllFigures {
    let (tell, told) = mpsc::channel();
    let looker = Arc::clone(store);
    thread::spawn(move || {
        looker.floors();
        let _ = tell.send(looker.all_figures());
    });
    told.recv_timeout(PATIENCE).expect("it waited")
}

/// With every lock held that a put, a get, an eviction or a release takes: shards, lists of blocks, rings of segments, the index, the
/// arena's free list, and what is held while shards are given another eviction.
#[test]
fn a_look_waits_for_no_lock_of_puts_gets_and_releases() {
    let (store, _) = store(256, 8);
    let names = ["ann", "ben", "cid"];
    let tenants = names.map(|name| tenant(&store, name, 100));
    for tenant in tenants {
        let client = Client::new(&store, tenant, EPHEMERAL);
        let kept = Client::new(&store, tenant, PERSISTENT);
        for index in 0..100 {
            client.put(1, index, 5);
            kept.put(1, index, 6);
        }
        put(&client.worker, tenant, b"key", &[1; 100], NOW).expect("room");
    }
    let before = store.all_figures();
    assert_eq!(before.pools.len(), 6);
    assert!(before.pools.iter().all(|pool| pool.pages == Pages(100)));
    let all: Vec<_> = tenants
        .iter()
        .filter_map(|id| store.tenants.get(*id))
        .collect();
    let holdings: Vec<_> = all.iter().map(|one| store.pages.holdings(one)).collect();
    let parts = || all.iter().map(|one| &store.items.part(one).segments);
    let of_pages = holdings
        .iter()
        .flat_map(|one| [PageKind::Ephemeral, PageKind::Persistent].map(|kind| one.list(kind)));
    let lists: Vec<&BlockList> = of_pages.chain(parts().map(|part| part.all())).collect();
    let mut looked = 0;
    holding(&store, &lists, &mut || {
        let _evictions: Vec<_> = holdings.iter().map(|one| one.hold_eviction()).collect();
        let shards = holdings.iter().flat_map(|one| one.shards());
        let _shards: Vec<_> = shards.map(|shard| shard.lock()).collect();
        let _rings: Vec<_> = parts().map(|part| part.try_ring(&store.arena)).collect();
        let _index: Vec<_> = store.items.tables().map(|table| table.hold()).collect();
        let _stock = store.arena.hold();
        assert_eq!(look(&store), before);
        looked += 1;
    });
    assert_eq!(looked, 1);
}
