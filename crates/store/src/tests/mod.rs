//! The whole store against oracles.

mod counted;
mod floors;
mod followed;
mod hammer;
mod lent;
mod model;
mod pages;
mod release;
mod shares;

use crate::settings::{PageSettings, StoreSettings};
use std::sync::Arc;

use sublet_types::{Bytes, Expiry, Nanos, Second, ShrinkMode, TenantId, TenantSettings, Weight};

use crate::api::TENANTS_MAX;
use crate::api::*;
use crate::arena::fake::{FakeMemory, FaultControls};
use crate::store::Store;
use crate::worker::Worker;

/// The block size of tests: small, so that much happens in little memory.
pub(crate) const BLOCK: usize = 64 << 10;

pub(crate) fn store(blocks: usize, evicts: bool) -> (Arc<Store>, Arc<FaultControls>) {
    let (heap, levers) = FakeMemory::new(blocks * BLOCK, BLOCK);
    let settings = StoreSettings {
        capacity: Bytes((blocks * BLOCK) as u64),
        limit: Bytes((blocks * BLOCK) as u64),
        item_max: Bytes::mib(1),
        seed: 7,
        evicts,
        pages: PageSettings::default(),
    };
    let store = Store::over(Box::new(heap), BLOCK, settings).expect("memory for a test");
    (store, levers)
}

pub(crate) fn tenant(store: &Store, name: &str, weight: u32) -> TenantId {
    let settings = TenantSettings {
        name: name.parse().expect("a name"),
        weight: Weight(weight),
        floor: None,
        ceiling: None,
    };
    store.add_tenant(settings).expect("added")
}

fn put(
    worker: &Worker,
    tenant: TenantId,
    key: &[u8],
    value: &[u8],
    now: Second,
) -> Result<u64, ItemRefused> {
    put_until(worker, tenant, key, value, Expiry::Never, now)
}

fn put_until(
    worker: &Worker,
    tenant: TenantId,
    key: &[u8],
    value: &[u8],
    expiry: Expiry,
    now: Second,
) -> Result<u64, ItemRefused> {
    let new = NewItem {
        flags: 5,
        expiry,
        marks: Marks::default(),
        cas: NewCas::Reported,
        value: &[value],
    };
    worker.update(tenant, key, now, |entry| entry.store(&new))
}

fn get(worker: &Worker, tenant: TenantId, key: &[u8], now: Second) -> Option<Vec<u8>> {
    let read = worker.read(tenant, key, now, ReadKind::Use, |item| {
        let mut value = Vec::new();
        item.value().copy_to(&mut value);
        value
    });
    match read {
        Lookup::Hit(value) => Some(value),
        Lookup::Miss(_) => None,
    }
}

/// A value that names its key and version in every byte. Its length differs.
fn self_describing(key: u32, version: u32, len: usize) -> Vec<u8> {
    let word = [key.to_le_bytes(), version.to_le_bytes()].concat();
    word.iter().copied().cycle().take(len).collect()
}

const NOW: Second = Second(2);

#[test]
fn what_is_stored_is_read() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let cas = put(&worker, ann, b"k", b"hello", NOW).expect("room");
    let seen = worker.read(ann, b"k", NOW, ReadKind::Use, |item| {
        (item.flags(), item.cas(), item.fetched(), item.value().len())
    });
    assert_eq!(seen, Lookup::Hit((5, cas, false, 5)));
    let fetched = worker.read(ann, b"k", NOW, ReadKind::Peek, |item| item.fetched());
    assert_eq!(fetched, Lookup::Hit(true));
}

#[test]
fn nobody_reads_what_is_not_theirs() {
    let (store, _) = store(16, true);
    let (ann, ben) = (tenant(&store, "ann", 100), tenant(&store, "ben", 100));
    let worker = store.worker().expect("a worker");
    put(&worker, ann, b"k", b"ann's", NOW).expect("room");
    assert_eq!(get(&worker, ben, b"k", NOW), None);
    put(&worker, ben, b"k", b"ben's", NOW).expect("room");
    assert_eq!(get(&worker, ann, b"k", NOW), Some(b"ann's".to_vec()));
    worker.flush(ben, NOW);
    assert_eq!(get(&worker, ann, b"k", NOW), Some(b"ann's".to_vec()));
    assert_eq!(get(&worker, ben, b"k", NOW), None);
}

/// It is known by its name. Nobody else may read what it had, and neither may it.
#[test]
fn a_tenant_that_comes_back_has_nothing_of_what_it_was() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    put(&worker, ann, b"key", b"value", NOW).expect("room");
    store.remove_tenant(ann);
    assert_eq!(tenant(&store, "ann", 100), ann);
    assert_eq!(get(&worker, ann, b"key", NOW), None);
    put(&worker, ann, b"key", b"another", NOW).expect("room");
    assert_eq!(get(&worker, ann, b"key", NOW), Some(b"another".to_vec()));
}

/// The number of tenants at a time is bounded. The number in a daemon's life is not.
#[test]
fn a_place_is_used_again_by_another_who_finds_nothing_there() {
    let (store, _) = store(16, true);
    let worker = store.worker().expect("a worker");
    let named = |n: usize| tenant(&store, &format!("t{n}"), 100);
    let first = named(0);
    put(&worker, first, b"key", b"value", NOW).expect("room");
    let others: Vec<TenantId> = (1..TENANTS_MAX).map(named).collect();
    let settings = |name: &str| TenantSettings {
        name: name.parse().expect("a name"),
        weight: Weight(7),
        floor: None,
        ceiling: None,
    };
    let full = store.add_tenant(settings("more"));
    assert_eq!(full, Err(TenantError::TooMany(TENANTS_MAX)));
    store.remove_tenant(first);
    let held = store.add_tenant(settings("more"));
    assert_eq!(
        held,
        Err(TenantError::TooMany(TENANTS_MAX)),
        "its blocks are on their way"
    );
    while worker.upkeep(NOW) {}

    assert_eq!(store.add_tenant(settings("more")), Ok(first));
    assert_eq!(get(&worker, first, b"key", NOW), None);
    let figures = store.tenant_figures(first);
    assert_eq!(figures.settings, settings("more"));
    assert_eq!(
        (figures.evictions, figures.reclaimed, figures.items),
        (0, 0, 0)
    );
    assert_eq!(store.tenant(&settings("t0").name), None);
    let stale = store.set_tenant(first, settings("t0"));
    assert_eq!(stale, Err(TenantError::Unknown), "who means the one before");
    assert_eq!(store.tenant(&settings("more").name), Some(first));

    // Slots are reused in turn: none while another has been empty for longer.
    for id in &others[..3] {
        store.remove_tenant(*id);
    }
    let again: Vec<_> = ["a", "b", "c"]
        .map(|name| store.add_tenant(settings(name)))
        .into();
    let in_turn: Vec<_> = others[..3].iter().map(|id| Ok(*id)).collect();
    assert_eq!(again, in_turn);
}

#[test]
fn who_is_removed_gives_all_back_though_nobody_shrinks() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    store.set_shrinking(ShrinkMode::Never);
    for key in 0..200u32 {
        put(&worker, ann, &key.to_le_bytes(), &[1; 1000], NOW).expect("room");
    }
    assert!(store.tenant_figures(ann).held.0 > 0);
    store.remove_tenant(ann);
    while worker.upkeep(NOW) {}
    assert_eq!(store.tenant_figures(ann).held, Bytes::ZERO);
}

#[test]
fn a_miss_says_why_once() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let look = |key: &[u8], now| worker.read(ann, key, now, ReadKind::Use, |_| ());
    put_until(&worker, ann, b"short", b"v", Expiry::At(Second(5)), NOW).expect("room");
    put(&worker, ann, b"long", b"v", NOW).expect("room");
    assert_eq!(look(b"short", Second(4)), Lookup::Hit(()));
    assert_eq!(look(b"short", Second(5)), Lookup::Miss(Absence::Expired));
    assert_eq!(look(b"short", Second(5)), Lookup::Miss(Absence::Unknown));
    worker.flush(ann, NOW);
    assert_eq!(look(b"long", NOW), Lookup::Miss(Absence::Flushed));
    assert_eq!(look(b"long", NOW), Lookup::Miss(Absence::Unknown));
    put(&worker, ann, b"after", b"v", NOW).expect("room");
    assert_eq!(look(b"after", NOW), Lookup::Hit(()));
}

#[test]
fn large_values_come_back_whole_and_go_whole() {
    let (store, _) = store(64, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    for len in [BLOCK / 4 - 64, BLOCK / 4, BLOCK, 1_000_000] {
        let value = self_describing(1, len as u32, len);
        put(&worker, ann, b"large", &value, NOW).expect("room");
        assert!(
            get(&worker, ann, b"large", NOW) == Some(value),
            "lost one of {len} bytes"
        );
    }
    put(&worker, ann, b"large", b"small", NOW).expect("room");
    let figures = store.tenant_figures(ann);
    assert_eq!(
        figures.items, 1,
        "the chunks went with the value that they were of"
    );
    assert_eq!(
        put(&worker, ann, b"large", &vec![0; 1 << 20], NOW),
        Err(ItemRefused::TooLarge)
    );
    assert_eq!(get(&worker, ann, b"large", NOW), Some(b"small".to_vec()));
}

#[test]
fn without_eviction_nothing_is_lost_and_what_is_deleted_makes_room() {
    let (store, _) = store(16, false);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let value = self_describing(1, 1, 1000);
    let mut stored = 0u32;
    while put(&worker, ann, &stored.to_le_bytes(), &value, NOW).is_ok() {
        stored += 1;
        assert!(stored < 16 * 65, "more than there is memory for");
    }
    assert!(stored > 8 * 60, "only {stored} stored");
    for key in 0..stored {
        assert!(
            get(&worker, ann, &key.to_le_bytes(), NOW).is_some(),
            "lost {key}"
        );
    }
    for key in (0..stored).step_by(2) {
        worker
            .update(ann, &key.to_le_bytes(), NOW, |entry| entry.remove())
            .expect("removed");
    }
    for key in (0..stored / 2).step_by(2) {
        put(&worker, ann, &key.to_le_bytes(), &value, NOW).expect("room again");
    }
    for key in (1..stored).step_by(2) {
        assert!(
            get(&worker, ann, &key.to_le_bytes(), NOW).is_some(),
            "lost {key}"
        );
    }
}

#[test]
fn what_is_read_often_survives() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let hot: Vec<[u8; 5]> = (0..100u8).map(|n| [b'h', b'o', b't', 0, n]).collect();
    for key in &hot {
        put(&worker, ann, key, &[1; 200], NOW).expect("room");
    }
    for cold in 0..100_000u32 {
        put(&worker, ann, &cold.to_le_bytes(), &[2; 200], NOW).expect("room");
        if cold % 10 == 0 {
            get(&worker, ann, &hot[cold as usize / 10 % 100], NOW);
        }
    }
    let kept = hot
        .iter()
        .filter(|key| get(&worker, ann, *key, NOW).is_some())
        .count();
    assert_eq!(kept, 100);
    let figures = store.tenant_figures(ann);
    assert!(figures.evictions > 80_000 && figures.evicted_unfetched <= figures.evictions);
}

#[test]
fn a_told_cas_lasts_until_the_value_changes() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let cas_of = |key: &[u8]| worker.read(ann, key, NOW, ReadKind::Use, |item| item.cas());
    let plain = NewItem {
        flags: 0,
        expiry: Expiry::Never,
        marks: Marks::default(),
        cas: NewCas::Fresh,
        value: &[b"value"],
    };
    worker
        .update(ann, b"k", NOW, |entry| entry.store(&plain))
        .expect("room");
    let Lookup::Hit(reported) = cas_of(b"k") else {
        panic!("just stored");
    };
    for cold in 0..50_000u32 {
        put(&worker, ann, &cold.to_le_bytes(), &[2; 200], NOW).expect("room");
        if cold % 100 == 0 {
            assert_eq!(
                cas_of(b"k"),
                Lookup::Hit(reported),
                "moved {cold} items later"
            );
        }
    }
    worker
        .update(ann, b"k", NOW, |entry| entry.store(&plain))
        .expect("room");
    let Lookup::Hit(newer) = cas_of(b"k") else {
        panic!("just stored");
    };
    assert!(newer > reported);
}

#[test]
fn a_cas_that_must_be_written_hides_nothing_that_follows() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let keys: Vec<[u8; 2]> = (0..200u8).map(|n| [b'k', n]).collect();
    let new = |cas| NewItem {
        flags: 0,
        expiry: Expiry::Never,
        marks: Marks::default(),
        cas,
        value: &[b"value"],
    };
    for cas in [NewCas::Is(1 << 60), NewCas::Fresh] {
        for key in &keys {
            worker
                .update(ann, key, NOW, |entry| entry.store(&new(cas)))
                .expect("room");
        }
    }
    for cold in 0..50_000u32 {
        put(&worker, ann, &cold.to_le_bytes(), &[2; 200], NOW).expect("room");
        get(&worker, ann, &keys[cold as usize % keys.len()], NOW);
    }
    let there = keys
        .iter()
        .filter(|key| get(&worker, ann, *key, NOW).is_some());
    assert_eq!(there.count(), keys.len());
}

#[test]
fn what_expired_beside_living_items_is_found_by_the_chores() {
    let (store, _) = store(64, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    for key in 0..2000u32 {
        let expiry = match key % 2 {
            0 => Expiry::Never,
            _ => Expiry::At(Second(NOW.0 + 5)),
        };
        put_until(&worker, ann, &key.to_le_bytes(), b"value", expiry, NOW).expect("room");
    }
    assert_eq!(store.tenant_figures(ann).items, 2000);
    for second in 1..60 {
        while worker.upkeep(Second(NOW.0 + second)) {}
    }
    assert_eq!(store.tenant_figures(ann).items, 1000);
    assert_eq!(store.tenant_figures(ann).reclaimed, 1000);
}

#[test]
fn a_ceiling_holds_and_a_lowered_one_soon() {
    let (store, _) = store(256, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let fill = || {
        for key in 0..3000u32 {
            let value = self_describing(key, 0, 6000);
            put(&worker, ann, &key.to_le_bytes(), &value, NOW).expect("room");
        }
    };
    for blocks in [128, 40] {
        let mut settings = store.tenant_settings(ann).expect("a tenant");
        settings.ceiling = Some(Bytes((blocks * BLOCK) as u64));
        let ceiling = settings.ceiling.expect("just set");
        store.set_tenant(ann, settings).expect("set");
        while worker.upkeep(NOW) {}
        assert!(store.tenant_figures(ann).held <= ceiling);
        fill();
        assert!(store.tenant_figures(ann).held <= ceiling);
        let last = 2999u32.to_le_bytes();
        assert_eq!(
            get(&worker, ann, &last, NOW),
            Some(self_describing(2999, 0, 6000))
        );
    }
}

#[test]
fn what_is_written_over_again_and_again_takes_no_more_memory() {
    let (store, _) = store(512, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    for round in 0..400u32 {
        for key in 0..50u32 {
            let value = self_describing(key, round, 6000);
            put(&worker, ann, &key.to_le_bytes(), &value, NOW).expect("room");
        }
    }
    // 50 items of 6000 bytes are 5 blocks; 20,000 of them would be all 512.
    let held = store.figures().held.0 / BLOCK as u64;
    assert!(held < 64, "{held} blocks");
    for key in 0..50u32 {
        let value = get(&worker, ann, &key.to_le_bytes(), NOW);
        assert_eq!(value, Some(self_describing(key, 399, 6000)));
    }
}

#[test]
fn what_is_dead_is_used_again_before_more_memory_is() {
    let (store, _) = store(512, true);
    while store.populate() {}
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let mut stored = 0;
    for round in 0..20u32 {
        let now = Second(NOW.0 + 10 * round);
        let expiry = Expiry::At(Second(now.0 + 5));
        for key in 0..100u32 {
            let key = [round.to_le_bytes(), key.to_le_bytes()].concat();
            put_until(&worker, ann, &key, &[7; 6000], expiry, now).expect("room");
            stored += 1;
        }
        if round % 8 == 4 {
            worker.flush(ann, now);
        }
    }
    // A hundred items are ten blocks; all of them would be two hundred.
    let figures = store.tenant_figures(ann);
    let held = figures.held.0 / BLOCK as u64;
    assert!(held < 24, "{held} blocks");
    assert_eq!(figures.reclaimed + figures.items, stored, "{figures:?}");
    assert_eq!(figures.expired_unfetched, figures.reclaimed);
}

/// An observer of a full store sees something go with each put. Memory is not freed far ahead of its use.
#[test]
fn each_put_into_a_full_cache_evicts_as_much_as_it_wrote() {
    let (store, _) = store(256, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let filling = 256 * BLOCK as u32 / 1000;
    let mut before = 0;
    for key in 0..4 * filling {
        put(&worker, ann, &key.to_le_bytes(), &[7; 1000], NOW).expect("room");
        let evictions = store.tenant_figures(ann).evictions;
        if key > 2 * filling {
            assert_ne!(evictions, before, "{key}");
        }
        before = evictions;
    }
    let evictions = u64::from(4 * filling) - store.tenant_figures(ann).items;
    assert_eq!(before, evictions);
}

#[test]
fn who_listens_hears_of_every_eviction() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let listener = store.listen(ann).expect("a tenant of this store");
    let mut gone = std::collections::HashSet::new();
    let mut missed_in_all = 0;
    for key in 0..50_000u32 {
        put(&worker, ann, &key.to_le_bytes(), &[2; 200], NOW).expect("room");
        let (heard, missed) = listener.drain();
        missed_in_all += missed;
        for evicted in heard {
            assert_eq!((evicted.value_len, evicted.fetched), (200, false));
            assert!(get(&worker, ann, &evicted.key, NOW).is_none());
            assert!(gone.insert(evicted.key), "told twice");
        }
    }
    let evictions = store.tenant_figures(ann).evictions;
    assert_eq!(gone.len() as u64 + missed_in_all, evictions);
    assert!(evictions > 10_000);
}

#[test]
fn a_value_in_chunks_is_one_item() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let large = vec![7; 100_000];
    put(&worker, ann, b"large", &large, NOW).expect("room");
    assert_eq!(store.tenant_figures(ann).items, 1);
    for key in 0..1000u32 {
        put(&worker, ann, &key.to_le_bytes(), &large, NOW).expect("room");
    }
    let figures = store.tenant_figures(ann);
    assert!(figures.items + figures.evictions <= 1001, "{figures:?}");
    assert!(figures.evictions > 900, "{figures:?}");
}

#[test]
fn what_is_written_over_a_dead_item_reclaims_it() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    put(&worker, ann, b"key", b"flushed", NOW).expect("room");
    store.worker().expect("a worker").flush(ann, NOW);
    put(&worker, ann, b"key", b"alive", NOW).expect("room");
    put(&worker, ann, b"key", b"alive again", NOW).expect("room");
    let figures = store.tenant_figures(ann);
    assert_eq!(
        (figures.reclaimed, figures.expired_unfetched, figures.items),
        (1, 1, 1)
    );
}

#[test]
fn a_flush_that_was_put_off_takes_what_was_stored_before_its_moment() {
    let (store, _) = store(32, true);
    let (ann, ben) = (tenant(&store, "ann", 100), tenant(&store, "ben", 100));
    let [worker, other] = [(); 2].map(|()| store.worker().expect("a worker"));
    let (soon, due) = (Nanos(999), Nanos(1000));
    let at = |moment| worker.flush_if_due(ann, moment, NOW);
    put(&worker, ann, b"before", b"1", NOW).expect("room");
    put(&worker, ben, b"k", b"another's", NOW).expect("room");
    worker.defer_flush(ann, due);
    assert!(other.has_deferred_flush(ann) && !other.has_deferred_flush(ben));
    put(&worker, ann, b"meanwhile", b"2", NOW).expect("room");
    at(soon);
    assert!(get(&worker, ann, b"before", NOW).is_some());
    other.flush_if_due(ann, due, NOW);
    put(&worker, ann, b"after", b"3", NOW).expect("room");
    at(Nanos(5000));
    let left = [&b"before"[..], b"meanwhile", b"after"].map(|key| get(&worker, ann, key, NOW));
    assert_eq!(left, [None, None, Some(b"3".to_vec())]);
    assert_eq!(get(&worker, ben, b"k", NOW), Some(b"another's".to_vec()));
    assert!(!worker.has_deferred_flush(ann));
}

#[test]
fn a_flush_that_was_put_off_gives_way_to_a_later_word() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    worker.defer_flush(ann, Nanos(1000));
    worker.defer_flush(ann, Nanos(2000));
    put(&worker, ann, b"k", b"v", NOW).expect("room");
    worker.flush_if_due(ann, Nanos(1999), NOW);
    assert!(get(&worker, ann, b"k", NOW).is_some());
    worker.flush(ann, NOW);
    assert!(
        !worker.has_deferred_flush(ann),
        "at once takes the place of later"
    );
    worker.defer_flush(ann, Nanos(1000));
    store.remove_tenant(ann);
    assert_eq!(tenant(&store, "ann", 100), ann);
    assert!(
        !worker.has_deferred_flush(ann),
        "who comes back has put nothing off"
    );
}

/// Many threads find the moment past at once. Each goes on only when everything that was stored before is gone.
#[test]
fn nobody_goes_on_before_a_due_flush_is_done() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let setter = store.worker().expect("a worker");
    for round in 1..=300 {
        let due = Nanos(round);
        put(&setter, ann, b"old", b"v", NOW).expect("room");
        setter.defer_flush(ann, due);
        std::thread::scope(|scope| {
            for n in 0..3u8 {
                let store = &store;
                scope.spawn(move || {
                    let worker = store.worker().expect("a worker");
                    worker.flush_if_due(ann, due, NOW);
                    assert_eq!(get(&worker, ann, b"old", NOW), None, "{round}");
                    put(&worker, ann, &[n], b"new", NOW).expect("room");
                    worker.flush_if_due(ann, due, NOW);
                    assert!(get(&worker, ann, &[n], NOW).is_some(), "{round}");
                });
            }
        });
    }
}

#[test]
fn a_flushed_item_says_so_while_nobody_needs_its_room() {
    let (store, _) = store(32, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    put(&worker, ann, b"key", b"value", NOW).expect("room");
    worker.flush(ann, NOW);
    let soon = Second(NOW.0 + 2);
    while worker.upkeep(soon) {}
    assert_eq!(store.tenant_figures(ann).items, 0);
    assert!(store.tenant_figures(ann).held > Bytes::ZERO);
    let read = |now| worker.read(ann, b"key", now, ReadKind::Use, |_| ());
    assert_eq!(read(soon), Lookup::Miss(Absence::Flushed));
    let later = Second(NOW.0 + 60);
    while worker.upkeep(later) {}
    assert_eq!(store.tenant_figures(ann).held, Bytes::ZERO);
    assert_eq!(read(later), Lookup::Miss(Absence::Unknown));
}
