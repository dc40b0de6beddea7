//! Save and restore.

use sublet_types::{EvictionKind, ReleaseMode};

use super::*;

struct Saved {
    bytes: Vec<u8>,
    pages: u64,
}

fn save(client: &Client) -> Saved {
    let mut bytes = Vec::new();
    let pages = client
        .worker
        .save(client.tenant, &mut bytes)
        .expect("saved");
    Saved { bytes, pages }
}

type Restored = Result<Vec<(SavedPool, PoolId)>, RestoreError>;

/// A fresh store, and what a restore into it came to.
fn restore(bytes: &[u8]) -> (Arc<Store>, TenantId, Restored) {
    let (store, _) = store(64, 3);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let mut spill = |_: &SavedPool| Some(Disk::new(4096) as Arc<dyn Spill>);
    let restored = worker.restore(ann, bytes, NOW, &mut spill);
    (store, ann, restored)
}

fn with_pages(count: u32) -> Client {
    let (store, _) = store(64, 2);
    let ann = tenant(&store, "ann", 100);
    let client = Client::new(&store, ann, PERSISTENT);
    for index in 0..count {
        assert!(
            client
                .put(u64::from(index % 3), index, u64::from(index))
                .is_stored()
        );
    }
    client
}

/// M2, B2: every persistent page exactly once, with one page to a pool, too; some of them on disk.
#[test]
fn r_m2_b2_every_page_comes_back_exactly_once() {
    for count in [0, 1, 2, 700] {
        let client = with_pages(count);
        let release = Release {
            amount: Bytes(u64::from(count / 32) * BLOCK as u64),
            mode: ReleaseMode::Ordered,
            tenant: None,
        };
        client.worker.release(release, NOW);
        let saved = save(&client);
        assert_eq!(saved.pages, u64::from(count));
        let (store, ann, restored) = restore(&saved.bytes);
        let (pool, id) = restored.expect("restored")[0];
        assert_eq!(pool.flags, PERSISTENT);
        let again = Client::of(&store, ann, id);
        for index in 0..count {
            assert_eq!(
                again.get(u64::from(index % 3), index),
                Some(u64::from(index))
            );
        }
        assert_eq!(
            again.figures().used.0 + again.figures().on_disk.0,
            u64::from(count)
        );
    }
}

/// B3: what was set comes back as it was set.
#[test]
fn b3_settings_come_back() {
    let client = with_pages(5);
    let store = Arc::clone(client.worker.store());
    store
        .create_pool(client.tenant, KEEPING, None)
        .expect("a pool");
    store.set_eviction(client.tenant, EvictionKind::Sieve, NOW);
    store.freeze(client.tenant, true);
    let (store, ann, restored) = restore(&save(&client).bytes);
    let pools = restored.expect("restored");
    let flags: Vec<PoolFlags> = pools.iter().map(|(pool, _)| pool.flags).collect();
    assert_eq!(flags, [PERSISTENT, KEEPING]);
    let again = Client::of(&store, ann, pools[0].1);
    assert_eq!(again.put(9, 9, 9), Put::Refused(PutRefused::Frozen));
    assert_eq!(again.get(0, 0), Some(0));
    let mut bytes = Vec::new();
    again.worker.save(ann, &mut bytes).expect("saved");
    assert_eq!(bytes.len(), save(&client).bytes.len());
}

/// M4, B6: a stream that was cut or changed anywhere is refused, and nothing of it is there.
#[test]
fn r_m4_b6_a_damaged_stream_is_refused() {
    let saved = save(&with_pages(3)).bytes;
    for cut in (0..saved.len()).step_by(61).chain([saved.len() - 1]) {
        let (store, ann, restored) = restore(&saved[..cut]);
        let error = restored.expect_err("cut");
        assert!(
            matches!(error, RestoreError::Truncated(at) if at == cut as u64),
            "{error}"
        );
        assert!(store.pools(ann).is_empty());
    }
    for at in (0..saved.len()).step_by(37).chain([saved.len() - 1]) {
        let mut changed = saved.clone();
        changed[at] ^= 0x10;
        let (store, ann, restored) = restore(&changed);
        assert!(restored.is_err(), "byte {at}");
        assert!(store.pools(ann).is_empty());
        assert_eq!(store.page_figures(ann).used.0, 0);
    }
    let mut longer = saved;
    longer.push(0);
    assert!(matches!(restore(&longer).2, Err(RestoreError::Trailing(_))));
}
