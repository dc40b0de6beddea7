//! Rings in front of the store itself.

use std::sync::Arc;

use sublet_client::ring::{Client, GetOutcome, Key, PutOutcome, Refusal};
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::{
    Bytes, ObjectId, PageIndex, PoolFlags, PoolId, SharedName, TenantId, TenantSettings, Weight,
};

use super::fair::soon;
use crate::backend::Backend;
use crate::ring::Settings;
use crate::ring::serve::{Group, RingService, bind, start};
use crate::tenancy::{Clock, Ledger};

/// A store, a tenant of it, and its rings.
pub(super) struct Node {
    folder: tempfile::TempDir,
    store: Arc<Store>,
    tenant: TenantId,
    running: Option<RingService>,
}

impl Node {
    pub(super) fn start() -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::new(StoreSettings {
            capacity: Bytes::mib(64),
            limit: Bytes::mib(64),
            item_max: Bytes::mib(1),
            seed: 7,
            evicts: true,
            pages: PageSettings::default(),
        });
        let store = store.expect("memory for a small store");
        let settings = TenantSettings {
            name: "default".parse().expect("a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        };
        let tenant = store.add_tenant(settings).expect("the first tenant");
        let listener = bind(&folder.path().join("ring"), 0o600).expect("a socket");
        let group = Arc::new(Group::new(tenant, Settings::default()));
        let backend = Backend {
            store: Arc::clone(&store),
            clock: Clock::start(),
            ledger: Arc::new(Ledger::default()),
        };
        let failed = Arc::new(|| panic!("serving failed"));
        let running = start(vec![(group, listener)], 1, &backend, None, failed);
        Node {
            folder,
            store,
            tenant,
            running: Some(running.expect("it serves")),
        }
    }

    pub(super) fn connect(&self) -> Client {
        Client::connect(self.folder.path().join("ring")).expect("connected")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

fn key(pool: PoolId, index: u32) -> Key {
    Key {
        pool,
        object: ObjectId(1),
        index: PageIndex(index),
    }
}

#[test]
fn pages_reach_the_store_and_come_back_once() {
    let node = Node::start();
    let mut client = node.connect();
    let pool = client.create_pool(PoolFlags::default(), None);
    let pool = pool.expect("a pool");
    assert_eq!(client.put(key(pool, 1), &[1; 4096]), Ok(PutOutcome::Stored));
    assert_eq!(
        client.put(key(pool, 1), &[2; 4096]),
        Ok(PutOutcome::Replaced)
    );
    let mut pages = [[0; 4096]; 2];
    let run = client.get_run(key(pool, 1), &mut pages).expect("answered");
    assert_eq!((run.bits(), pages[0]), (1, [2; 4096]));
    assert_eq!(
        client.get(key(pool, 1), &mut pages[0]),
        Ok(GetOutcome::Miss)
    );
    client.put(key(pool, 3), &[3; 4096]).expect("stored");
    client.flush_object(pool, ObjectId(1)).expect("flushed");
    assert_eq!(
        client.get(key(pool, 3), &mut pages[0]),
        Ok(GetOutcome::Miss)
    );
    drop(client);
    soon("the pool is gone", || {
        node.store.pools(node.tenant).is_empty()
    });
}

#[test]
fn shared_pools_need_leave_and_outlive_connections() {
    let node = Node::start();
    let shared = PoolFlags {
        shared: true,
        ..PoolFlags::default()
    };
    let name = SharedName(9);
    let mut client = node.connect();
    let denied = client.create_pool(shared, Some(name)).expect_err("denied");
    assert_eq!(denied, Refusal::NotPermitted.into());
    let allowed = node
        .store
        .allow_sharing(name, node.tenant, vec![node.tenant]);
    allowed.expect("room for a name");
    for n in 0..100u32 {
        let mut client = node.connect();
        let pool = client.create_pool(shared, Some(name)).expect("joined");
        let mut page = [0; 4096];
        let before = client.get(key(pool, 0), &mut page).expect("answered");
        assert_eq!(before == GetOutcome::Hit, n > 0);
        client.put(key(pool, 0), &[n as u8; 4096]).expect("stored");
    }
    assert!(
        node.store.pools(node.tenant).len() <= 2,
        "one handle for all"
    );
}

#[test]
fn more_pages_than_fit_harm_nobody() {
    let node = Node::start();
    let mut client = node.connect();
    let pool = client.create_pool(PoolFlags::default(), None);
    let pool = pool.expect("a pool");
    for n in 0..30_000u32 {
        let mut page = [n as u8; 4096];
        page[..4].copy_from_slice(&n.to_le_bytes());
        client.put(key(pool, n), &page).expect("answered");
    }
    let mut hits = 0;
    for n in 0..30_000u32 {
        let mut page = [0; 4096];
        if client.get(key(pool, n), &mut page) == Ok(GetOutcome::Hit) {
            assert_eq!(page[..4], n.to_le_bytes());
            hits += 1;
        }
    }
    assert!((1000..30_000).contains(&hits), "{hits} hits");
}
