//! Reading figures waits for nobody.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sublet_types::Pages;

use super::super::put;
use super::*;
use crate::arena::{BlockList, PageKind};

/// The time that a look may take if nothing holds it up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `then` while a walk holds every list. Each list has a block.
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

/// Reads the figures in a thread of its own, which ends although the caller holds its locks.
fn read_figures(store: &Arc<Store>) -> AllFigures {
    let (tell, told) = mpsc::channel();
    let looker = Arc::clone(store);
    thread::spawn(move || {
        looker.floors();
        let _ = tell.send(looker.all_figures());
    });
    told.recv_timeout(PATIENCE).expect("it waited")
}

/// Holds every lock that a put, a get, an eviction or a release takes: shards, lists of blocks, full segments, the
/// index and the arena's free list. It also holds the lock for giving shards another eviction.
#[test]
fn a_look_waits_for_no_lock_of_puts_gets_and_releases() {
    let (store, _) = store(256, 8);
    let names = ["ann", "ben", "cid"];
    let tenants = names.map(|name| tenant(&store, name, 100));
    for tenant in tenants {
        let client = PoolClient::new(&store, tenant, EPHEMERAL);
        let kept = PoolClient::new(&store, tenant, PERSISTENT);
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
    let tenant_pages: Vec<_> = all
        .iter()
        .map(|one| store.pages.tenant_pages(one))
        .collect();
    let parts = || {
        all.iter()
            .map(|one| &store.items.tenant_items(one).segments)
    };
    let of_pages = tenant_pages
        .iter()
        .flat_map(|one| [PageKind::Ephemeral, PageKind::Persistent].map(|kind| one.list(kind)));
    let lists: Vec<&BlockList> = of_pages.chain(parts().map(|part| part.all())).collect();
    let mut looked = 0;
    holding(&store, &lists, &mut || {
        let _evictions: Vec<_> = tenant_pages.iter().map(|one| one.hold_eviction()).collect();
        let shards = tenant_pages.iter().flat_map(|one| one.shards());
        let _shards: Vec<_> = shards.map(|shard| shard.lock()).collect();
        let _rings: Vec<_> = parts()
            .map(|part| part.try_lock_full(&store.arena))
            .collect();
        let _index: Vec<_> = store.items.tables().map(|table| table.hold()).collect();
        let _stock = store.arena.hold();
        assert_eq!(read_figures(&store), before);
        looked += 1;
    });
    assert_eq!(looked, 1);
}
