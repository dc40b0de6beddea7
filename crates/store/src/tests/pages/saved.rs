//! Save and restore.

use sublet_types::{EvictionKind, FreezeState, ReleaseMode, SharedName};

use super::*;

fn save(client: &PoolClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    let saved = client.worker.export(client.tenant, &mut bytes);
    saved.expect("saved");
    bytes
}

type RestoreResult = Result<Vec<(SavedPool, PoolId)>, RestoreError>;

/// A fresh store, and the result of a restore into it.
fn restore(bytes: &[u8]) -> (Arc<Store>, TenantId, RestoreResult) {
    let (store, _) = store(64, 3);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let mut spill = |_: &SavedPool| Some(FakeSpill::new(4096) as Arc<dyn Spill>);
    let restored = worker.import(ann, bytes, NOW, RestoredPools::All, &mut spill);
    (store, ann, restored)
}

fn with_pages(count: u32) -> PoolClient {
    let (store, _) = store(64, 2);
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, PERSISTENT);
    for index in 0..count {
        assert!(
            client
                .put(u64::from(index % 3), index, u64::from(index))
                .is_stored()
        );
    }
    client
}

/// M2, B2: every persistent page comes back exactly once, also with one page per pool, and with some of them on disk.
#[test]
fn r_m2_b2_every_page_comes_back_exactly_once() {
    let counts = [0, 1, 2, PAGES_MAX];
    let (store, ann) = small_store();
    let worker = store.worker().expect("a worker");
    for count in counts {
        let disk = FakeSpill::new(PAGES_MAX as usize);
        let pool = store.create_pool(ann, PERSISTENT, Some(disk));
        let pool = pool.expect("a pool");
        for n in 0..count {
            let (key, content) = (key(pool, n), content_of_page(pool.slot, n));
            let put = worker.put_page(ann, key, NOW, |page| page.copy_from_slice(&content));
            assert_eq!(put, PutOutcome::Stored);
        }
    }
    let half = Release {
        amount: Bytes(u64::from(PAGES_MAX) * STAMP as u64 / 2),
        mode: ReleaseMode::Ordered,
        tenant: None,
    };
    worker.release(half, NOW);
    assert!(store.page_figures(ann).on_disk.0 > 0);
    let mut bytes = Vec::new();
    let saved = worker.export(ann, &mut bytes).expect("saved");
    assert_eq!(saved, counts.iter().map(|count| u64::from(*count)).sum());

    let (store, ann) = small_store();
    let worker = store.worker().expect("a worker");
    let mut spill = |_: &SavedPool| Some(FakeSpill::new(PAGES_MAX as usize) as Arc<dyn Spill>);
    let restored = worker.import(ann, &bytes[..], NOW, RestoredPools::All, &mut spill);
    let restored = restored.expect("restored");
    assert_eq!(restored.len(), counts.len());
    for ((pool, id), count) in restored.into_iter().zip(counts) {
        assert_eq!(pool.flags, PERSISTENT);
        for n in 0..count + 5 {
            let mut content = None;
            let got = worker.get_page(ann, key(id, n), NOW, |page| content = Some(page.to_vec()));
            let there = (n < count).then(|| content_of_page(pool.number, n).to_vec());
            assert_eq!((got == GetOutcome::Hit, content), (there.is_some(), there));
        }
    }
    let figures = store.page_figures(ann);
    assert_eq!(figures.used.0 + figures.on_disk.0, saved, "and no others");
}

/// The most pages of a pool that rule M2 asks for.
const PAGES_MAX: u32 = 100_000;

/// Bytes of a page that is no more than a stamp.
const STAMP: usize = 16;

/// A store of such pages, with room for more of them than a test has.
fn small_store() -> (Arc<Store>, TenantId) {
    let (store, _) = store_of(64, 3, STAMP);
    let ann = tenant(&store, "ann", 100);
    (store, ann)
}

/// The key of page `n` of a pool. Objects have all sizes, dense and sparse.
fn key(pool: PoolId, n: u32) -> PageKey {
    let index = if n % 3 == 2 { n * 1000 } else { n };
    PageKey {
        pool,
        object: ObjectId(u64::from(n % 3)),
        index: PageIndex(index),
    }
}

fn content_of_page(pool: u32, n: u32) -> [u8; STAMP] {
    let mut content = [0; STAMP];
    content[..4].copy_from_slice(&pool.to_le_bytes());
    content[4..8].copy_from_slice(&n.to_le_bytes());
    content[8..].copy_from_slice(&(u64::from(n) * 0x9e37_79b9).to_le_bytes());
    content
}

const NAME: SharedName = SharedName(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);

fn allow_sharing(store: &Arc<Store>, member: TenantId) {
    let account = tenant(store, "account", 100);
    store
        .allow_sharing(NAME, account, vec![member])
        .expect("allowed");
}

/// M2, B3: settings come back: pools with their flags and names, the eviction, and the freeze state.
#[test]
fn r_m2_b3_settings_come_back() {
    let client = with_pages(5);
    let store = Arc::clone(client.worker.store());
    allow_sharing(&store, client.tenant);
    store
        .create_pool(client.tenant, KEEPING, None)
        .expect("a pool");
    store.join_pool(client.tenant, NAME).expect("a sharer");
    for (kind, ..) in EvictionKind::ALL {
        store.set_eviction(client.tenant, kind, NOW);
        for frozen in [false, true] {
            store.set_freeze_state(client.tenant, frozen.into());
            settings_come_back(&save(&client), frozen);
        }
    }
}

fn settings_come_back(saved: &[u8], frozen: bool) {
    let (store, _) = store(64, 3);
    let ann = tenant(&store, "ann", 100);
    allow_sharing(&store, ann);
    let worker = store.worker().expect("a worker");
    let mut spill = |_: &SavedPool| Some(FakeSpill::new(4096) as Arc<dyn Spill>);
    let restored = worker.import(ann, saved, NOW, RestoredPools::All, &mut spill);
    let pools = restored.expect("restored");
    let promised: Vec<_> = pools.iter().map(|(p, _)| (p.flags, p.shared)).collect();
    let shared = PoolFlags {
        shared: true,
        ..KEEPING
    };
    let expected = [(PERSISTENT, None), (KEEPING, None), (shared, Some(NAME))];
    assert_eq!(promised, expected);
    let again = PoolClient::of(&store, ann, pools[0].1);
    assert_eq!(again.put(9, 9, 9).is_stored(), !frozen);
    assert!(again.flush(9, 9));
    assert_eq!(again.get(0, 0), Some(0));
    let grants = worker.check_save(saved).expect("a good file").grants;
    store.set_eviction(ann, grants.eviction, NOW);
    // Frozen, eviction and the number of pools, and as many pages.
    let saved_again = save(&again);
    assert_eq!(saved_again[..42], saved[..42]);
    assert_eq!(saved_again.len(), saved.len());
}

/// M2: pools come in the order in which their program made them, wherever in the table they were. That is how the
/// program finds them again.
#[test]
fn r_m2_pools_come_back_in_the_order_of_their_making() {
    let (store, _) = store(64, 2);
    let ann = tenant(&store, "ann", 100);
    let made = || PoolClient::new(&store, ann, PERSISTENT);
    let passing = made();
    let pools = [made(), {
        passing.worker.destroy_pool(ann, passing.pool, NOW);
        made()
    }];
    assert!(pools[1].pool.slot < pools[0].pool.slot, "in its place");
    for (pool, content) in pools.iter().zip([1, 2]) {
        pool.put(1, 1, content);
    }
    let (store, ann, restored) = restore(&save(&pools[0]));
    for ((_, pool), content) in restored.expect("restored").iter().zip([1, 2]) {
        assert_eq!(PoolClient::of(&store, ann, *pool).get(1, 1), Some(content));
    }
}

/// M2: the tenant that is charged for a shared pool takes none of it along. Its own pages come back.
#[test]
fn r_m2_a_shared_pool_is_not_its_account_s() {
    let client = with_pages(5);
    let store = Arc::clone(client.worker.store());
    let ben = tenant(&store, "ben", 100);
    store
        .allow_sharing(NAME, client.tenant, vec![ben])
        .expect("allowed");
    let sharer = PoolClient::of(&store, ben, store.join_pool(ben, NAME).expect("a sharer"));
    assert!(sharer.put(1, 1, 1).is_stored());
    let (_, _, restored) = restore(&save(&client));
    assert_eq!(restored.expect("restored").len(), 1);
}

/// A tenant may not be a sharer where its pages come back. It must not be taken for one that leaves.
#[test]
fn only_pools_with_pages_are_made_where_that_is_asked_for() {
    let client = with_pages(5);
    allow_sharing(client.worker.store(), client.tenant);
    let joined = client.worker.store().join_pool(client.tenant, NAME);
    joined.expect("a sharer");
    let saved = save(&client);
    assert!(restore(&saved).2.is_err(), "not allowed there");
    let (store, _) = store(64, 3);
    let ann = tenant(&store, "ann", 100);
    let mut spill = |_: &SavedPool| Some(FakeSpill::new(4096) as Arc<dyn Spill>);
    let worker = store.worker().expect("a worker");
    let wanted = RestoredPools::Persistent;
    let restored = worker.import(ann, &saved[..], NOW, wanted, &mut spill);
    assert_eq!(restored.expect("restored").len(), 1);
}

/// M2, B3: so does what the tenant was granted, for its owner to grant again.
#[test]
fn r_m2_b3_grants_are_in_the_file() {
    let client = with_pages(1);
    let store = client.worker.store();
    let granted = |floor, ceiling| {
        let settings = TenantSettings {
            weight: Weight(70),
            floor,
            ceiling,
            ..store.tenant_settings(client.tenant).expect("it is there")
        };
        store.set_tenant(client.tenant, settings).expect("granted");
        let facts = client.worker.check_save(&save(&client)[..]);
        facts.expect("a good file").grants
    };
    for (floor, ceiling) in [
        (None, None),
        (Some(Bytes(3 << 20)), None),
        (None, Some(Bytes(9 << 20))),
        (Some(Bytes(3 << 20)), Some(Bytes(9 << 20))),
    ] {
        let weight = Weight(70);
        let limits = SavedLimits {
            weight,
            floor,
            ceiling,
        };
        let expected = SavedGrants {
            eviction: EvictionKind::default(),
            gone: None,
            limits: Some(limits),
        };
        assert_eq!(granted(floor, ceiling), expected);
    }
}

/// M4: a version that is not read is refused by its number, and the message names those that are read.
#[test]
fn r_m4_another_version_is_refused() {
    let saved = save(&with_pages(1));
    for (version, age) in [(0, "an older"), (3, "a newer")] {
        let mut other = saved.clone();
        other[8] = version;
        let (store, ann, restored) = restore(&other);
        let error = restored.expect_err("another version").to_string();
        let said = format!(
            "{age} Sublet wrote the save file: it has version {version}, and this Sublet reads versions 1 and 2"
        );
        assert!(error.contains(&said), "{error}");
        assert!(store.pools(ann).is_empty());
    }
}

/// Saves of the previous release and of this one are restored. See `tests/golden/README.md`.
#[test]
fn a_save_of_each_version_that_is_read_comes_back() {
    let limits = SavedLimits {
        weight: Weight(70),
        floor: None,
        ceiling: None,
    };
    let golden: [(&[u8], _); 2] = [
        (include_bytes!("../../../tests/golden/save-1"), None),
        (include_bytes!("../../../tests/golden/save-2"), Some(limits)),
    ];
    for (bytes, limits) in golden {
        let (store, ann) = small_store();
        let worker = store.worker().expect("a worker");
        let facts = worker.check_save(bytes).expect("it is read");
        let eviction = EvictionKind::Lru;
        assert_eq!(
            facts.grants,
            SavedGrants {
                eviction,
                gone: None,
                limits
            }
        );
        let mut spill = |_: &SavedPool| Some(FakeSpill::new(64) as Arc<dyn Spill>);
        let made = worker.import(ann, bytes, NOW, RestoredPools::All, &mut spill);
        let made = made.expect("it is read");
        let flags: Vec<PoolFlags> = made.iter().map(|(pool, _)| pool.flags).collect();
        assert_eq!(flags, [PERSISTENT, KEEPING]);
        assert_eq!(facts.pages, 3);
        for n in 0..3 {
            let key = golden_key(made[0].1, n);
            let got = worker.get_page(ann, key, NOW, |page| assert_eq!(page, [n + 1; STAMP]));
            assert_eq!(got, GetOutcome::Hit);
        }
        assert!(store.is_frozen(ann));
    }
}

/// An export today equals the newest golden file. A change of a byte requires another version of the format.
#[test]
fn what_is_exported_is_the_golden_file_of_today() {
    let (store, _) = store_of(8, 2, STAMP);
    let ann = tenant(&store, "ann", 70);
    let pool = store.create_pool(ann, PERSISTENT, Some(FakeSpill::new(64)));
    let pool = pool.expect("a pool");
    store.create_pool(ann, KEEPING, None).expect("a pool");
    store.set_eviction(ann, EvictionKind::Lru, NOW);
    let worker = store.worker().expect("a worker");
    for n in 0..3 {
        let put = worker.put_page(ann, golden_key(pool, n), NOW, |page| {
            page.write(&[n + 1; STAMP])
        });
        assert_eq!(put, PutOutcome::Stored);
    }
    store.set_freeze_state(ann, FreezeState::Frozen);
    let mut bytes = Vec::new();
    worker.export(ann, &mut bytes).expect("exported");
    if let Some(path) = std::env::var_os("SUBLET_WRITE_GOLDEN") {
        std::fs::write(path, &bytes).expect("written");
    }
    assert_eq!(bytes, include_bytes!("../../../tests/golden/save-2"));
}

fn golden_key(pool: PoolId, n: u8) -> PageKey {
    PageKey {
        pool,
        object: ObjectId(u64::from(n % 2)),
        index: PageIndex(u32::from(n)),
    }
}

/// M4, B6: a stream that was cut or changed anywhere is refused, and nothing of it is stored.
#[test]
fn r_m4_b6_a_damaged_stream_is_refused() {
    let saved = save(&with_pages(3));
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

/// M4: a value that this version does not know is refused with its byte position, though every checksum holds.
#[test]
fn r_m4_what_a_newer_version_wrote_is_refused() {
    let saved = save(&with_pages(3));
    let head = 42 + 21;
    let unknown = [
        (16, 2),        // frozen
        (17, 200),      // eviction
        (18, 0),        // weight
        (46, 1 | 8),    // flags of the first pool
        (46, 1 | 0x80), // flags of the first pool
        (46, 2),        // shared, without a name
        (47, 9),        // a name, of a pool that is not shared
    ];
    for (at, value) in unknown {
        let mut changed = saved.clone();
        changed[at] = value;
        let sum = xxhash_rust::xxh3::xxh3_128(&changed[..head]).to_le_bytes();
        changed[head..head + 16].copy_from_slice(&sum);
        let (store, ann, restored) = restore(&changed);
        let error = restored.expect_err("unknown");
        let place = if at == 47 { 46 } else { at as u64 };
        assert!(
            matches!(error, RestoreError::Unknown(named) if named == place),
            "{at}: {error}"
        );
        assert!(store.pools(ann).is_empty());
    }
}

/// M1, M4: each page is there once. A file is refused if it has a page twice, or a page of a pool that keeps none.
#[test]
fn r_m4_a_page_that_comes_twice_or_has_no_pool_is_refused() {
    let saved = save(&with_pages(2));
    let (head, record) = (42 + 21 + 16, 17 + 4096 + 16);
    let first = &saved[head..head + record];
    let twice = [&saved[..head], first, first].concat();
    let (store, ann, restored) = restore(&twice);
    assert!(
        matches!(restored, Err(RestoreError::Repeated(at)) if at == (head + record) as u64),
        "{restored:?}"
    );
    assert!(store.pools(ann).is_empty());
    assert_eq!(store.page_figures(ann).used.0, 0);

    let mut ephemeral = saved.clone();
    ephemeral[46] = 0;
    let sum = xxhash_rust::xxh3::xxh3_128(&ephemeral[..42 + 21]).to_le_bytes();
    ephemeral[42 + 21..head].copy_from_slice(&sum);
    let (store, ann, restored) = restore(&ephemeral);
    assert!(
        matches!(restored, Err(RestoreError::UnknownPool(_))),
        "{restored:?}"
    );
    assert!(store.pools(ann).is_empty());
}

/// Pages of an object come in order. A restore that enters them in the order of the directory's own hashes, into a
/// store with the same seed, takes quadratic time.
#[test]
fn a_file_has_an_objects_pages_in_their_order() {
    let saved = save(&with_pages(500));
    let (head, record) = (42 + 21 + 16, 17 + PAGE + 16);
    let pages = saved[head..].chunks_exact(record).take(500);
    let places = pages.map(|page| {
        let object = u64::from_le_bytes(page[5..13].try_into().expect("eight bytes"));
        let index = u32::from_le_bytes(page[13..17].try_into().expect("four bytes"));
        (object, index)
    });
    let places: Vec<(u64, u32)> = places.collect();
    assert_eq!(places.len(), 500);
    let disordered = places
        .windows(2)
        .find(|two| two[0].0 == two[1].0 && two[0].1 > two[1].1);
    assert_eq!(disordered, None);
}

/// A check of a file finds what a restore would, without restoring.
#[test]
fn a_check_finds_what_a_restore_would() {
    let saved = save(&with_pages(40));
    let (store, _) = store(4, 1);
    let facts = store.worker().expect("a worker").check_save(&saved[..]);
    let facts = facts.expect("a good file");
    assert_eq!((facts.pages, facts.pools.len()), (40, 1));
    assert_eq!(facts.pools[0].flags, PERSISTENT);
    let worker = store.worker().expect("a worker");
    for cut in (0..saved.len()).step_by(611) {
        let error = worker.check_save(&saved[..cut]).expect_err("cut");
        assert!(matches!(error, RestoreError::Truncated(at) if at == cut as u64));
    }
    let mut changed = saved;
    changed[5000] ^= 1;
    let error = worker.check_save(&changed[..]).expect_err("changed");
    assert!(matches!(error, RestoreError::Damaged(_)), "{error}");
}

/// More pages than memory holds come back all the same. The rest goes to the spill file.
#[test]
fn a_file_larger_than_memory_is_restored() {
    let saved = save(&with_pages(700));
    let (store, _) = store(6, 2);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let mut spill = |_: &SavedPool| Some(FakeSpill::new(4096) as Arc<dyn Spill>);
    let restored = worker.import(ann, &saved[..], NOW, RestoredPools::All, &mut spill);
    let (_, id) = restored.expect("restored")[0];
    let again = PoolClient::of(&store, ann, id);
    assert!(again.figures().on_disk.0 > 500, "{:?}", again.figures());
    for index in 0..700 {
        let got = again.get(u64::from(index % 3), index);
        assert_eq!(got, Some(u64::from(index)));
    }
}

/// While a slow file blocks, no block is held back and no shard is locked.
#[test]
fn a_save_holds_up_nobody() {
    struct SlowWriter<'a>(&'a PoolClient, u32, u64);
    impl std::io::Write for SlowWriter<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let release = Release {
                amount: Bytes(BLOCK as u64),
                mode: ReleaseMode::Ordered,
                tenant: None,
            };
            let other = self.0.worker.store().worker().expect("a worker");
            self.2 += other.release(release, NOW).bytes.0;
            assert!(self.0.put(9, self.1, 1).is_stored());
            self.1 += 1;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let client = with_pages(200);
    let store = Arc::clone(client.worker.store());
    let worker = store.worker().expect("a worker");
    let mut slow = SlowWriter(&client, 0, 0);
    worker.export(client.tenant, &mut slow).expect("saved");
    assert!(slow.1 > 200);
    let blocks = slow.2 / BLOCK as u64;
    assert!(blocks > 100, "{blocks} blocks left while it was saved");
}

/// A tenant that its owner froze during a restore stays frozen, whatever the file says.
#[test]
fn a_restore_thaws_nobody() {
    let saved = save(&with_pages(0));
    let (store, _) = store(64, 3);
    let ann = tenant(&store, "ann", 100);
    store.set_freeze_state(ann, FreezeState::Frozen);
    let worker = store.worker().expect("a worker");
    let mut spill = |_: &SavedPool| Some(FakeSpill::new(4096) as Arc<dyn Spill>);
    let restored = worker.import(ann, &saved[..], NOW, RestoredPools::All, &mut spill);
    assert_eq!(restored.expect("restored").len(), 1);
    assert!(store.is_frozen(ann));
}

/// If a pool is ended during a save and another has its slot by then, the save fails. It has nothing of the other pool.
#[test]
fn a_save_has_nothing_of_a_pool_that_came_after_it_began() {
    struct PoolEndingWriter<'a> {
        old: &'a PoolClient,
        new: Option<PoolClient>,
        bytes: Vec<u8>,
    }
    impl std::io::Write for PoolEndingWriter<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.bytes.extend_from_slice(bytes);
            if self.new.is_none() && bytes.len() > PAGE {
                let store = self.old.worker.store();
                let worker = store.worker().expect("a worker");
                worker.destroy_pool(self.old.tenant, self.old.pool, NOW);
                let new = PoolClient::new(store, self.old.tenant, PERSISTENT);
                assert_eq!(new.pool.slot, self.old.pool.slot);
                for index in 0..30 {
                    assert!(new.put(7, index, 1000).is_stored());
                }
                self.new = Some(new);
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let old = with_pages(0);
    for index in 0..30 {
        assert!(old.put(7, index, u64::from(index)).is_stored());
    }
    let worker = old.again().worker;
    let mut out = PoolEndingWriter {
        old: &old,
        new: None,
        bytes: Vec::new(),
    };
    let failed = worker
        .export(old.tenant, &mut out)
        .expect_err("it has ended");
    assert!(failed.get_ref().is_some_and(|why| why.is::<PoolEnded>()));
    assert!(restore(&out.bytes).2.is_err());
    let has = |content: u64| out.bytes.windows(PAGE).any(|seen| seen == page_of(content));
    assert!(out.bytes.len() > PAGE && !has(1000));
}
