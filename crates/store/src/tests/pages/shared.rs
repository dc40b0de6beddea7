//! Pools that several tenants share.

use sublet_types::SharedName;

use super::*;

const NAME: SharedName = SharedName(7);

fn sharers() -> (Arc<Store>, [TenantId; 4]) {
    let (store, _) = store(16, 2);
    let names = ["account", "ann", "ben", "cid"];
    let tenants = names.map(|name| tenant(&store, name, 100));
    let members = vec![tenants[1], tenants[2]];
    store
        .allow_sharing(NAME, tenants[0], members)
        .expect("allowed");
    (store, tenants)
}

fn join(store: &Arc<Store>, tenant: TenantId) -> PoolClient {
    let pool = store.join_pool(tenant, NAME).expect("a member");
    PoolClient::of(store, tenant, pool)
}

/// Pages that two or more tenants share.
fn shared_pages(store: &Store, account: TenantId) -> u64 {
    let shared = store.all_figures().shared_pages();
    shared.get(&account).map_or(0, |pages| pages.0)
}

/// T2: no tenant shares a pool without permission, and no pool is silently made private.
#[test]
fn r_t2_sharing_is_denied_unless_allowed() {
    let (store, [account, ann, _, cid]) = sharers();
    assert_eq!(store.join_pool(cid, NAME), Err(CreatePoolError::NotAllowed));
    assert_eq!(
        store.join_pool(account, NAME),
        Err(CreatePoolError::NotAllowed)
    );
    assert_eq!(
        store.join_pool(ann, SharedName(8)),
        Err(CreatePoolError::NotAllowed)
    );
    assert!(store.pools(cid).is_empty());
}

/// G2: a hit keeps the page, and the other sharer hits too. The page is charged to the pool's account.
#[test]
fn r_g2_sharers_hit_the_same_page() {
    let (store, [account, ann, ben, _]) = sharers();
    let (hers, his) = (join(&store, ann), join(&store, ben));
    hers.put(1, 1, 5);
    for _ in 0..3 {
        assert_eq!((hers.get(1, 1), his.get(1, 1)), (Some(5), Some(5)));
    }
    his.put(1, 1, 6);
    assert_eq!(hers.get(1, 1), Some(6));
    assert_eq!(store.page_figures(account).used.0, 1);
    assert_eq!(store.page_figures(ann).used.0, 0);
    assert_eq!(shared_pages(&store, account), 1);
    let own = store
        .create_pool(account, PoolFlags::default(), None)
        .expect("a pool");
    PoolClient::of(&store, account, own).put(1, 1, 7);
    assert_eq!(
        shared_pages(&store, account),
        1,
        "its own are nobody else's"
    );
    drop(his);
}

/// T4: a sharer that leaves takes along the objects that it touched last. The last one takes everything. This holds in
/// each order.
#[test]
fn r_t4_leaving_takes_what_one_touched_last() {
    for first in [0, 1] {
        let (store, [account, ann, ben, _]) = sharers();
        let clients = [join(&store, ann), join(&store, ben)];
        let (leaver, stayer) = (&clients[first], &clients[1 - first]);
        leaver.put(1, 1, 5);
        leaver.put(2, 1, 5);
        stayer.put(3, 1, 6);
        stayer.get(2, 1);
        assert!(leaver.worker.destroy_pool(leaver.tenant, leaver.pool, NOW));
        assert_eq!(stayer.get(1, 1), None, "the leaver touched it last");
        assert_eq!((stayer.get(2, 1), stayer.get(3, 1)), (Some(5), Some(6)));
        assert_eq!(leaver.put(9, 1, 1), PutOutcome::Refused(PutRefused::NoPool));
        assert!(stayer.worker.destroy_pool(stayer.tenant, stayer.pool, NOW));
        assert_eq!(store.page_figures(account).used.0, 0);
        let again = join(&store, ann);
        assert_eq!(again.get(3, 1), None, "the pool begins anew");
    }
}

/// A pool with more objects than are tracked forgets everything when a sharer leaves, and serves on.
#[test]
fn more_objects_than_are_followed_all_go_with_a_sharer() {
    let (store, [account, ann, ben, _]) = sharers();
    let (hers, his) = (join(&store, ann), join(&store, ben));
    for object in 0..70_000 {
        hers.put(object, 1, 5);
    }
    his.put(80_000, 1, 6);
    assert!(hers.worker.destroy_pool(ann, hers.pool, NOW));
    assert_eq!(store.page_figures(account).used.0, 0);
    his.put(1, 1, 7);
    assert_eq!(his.get(1, 1), Some(7));
}

/// B5, B10: sharers that come and go leave neither pages nor handles behind.
#[test]
fn b5_b10_nothing_is_left_of_who_left() {
    let (store, [account, ann, ben, _]) = sharers();
    for round in 0..500u64 {
        let (hers, his) = (join(&store, ann), join(&store, ben));
        hers.put(round, 1, 1);
        his.put(round + 1, 2, 2);
        let order = [&hers, &his];
        for client in [order[round as usize % 2], order[1 - round as usize % 2]] {
            assert!(client.worker.destroy_pool(client.tenant, client.pool, NOW));
        }
        assert_eq!(store.page_figures(account).used.0, 0);
    }
    assert!(store.pools(account).is_empty() && store.pools(ann).is_empty());
}
