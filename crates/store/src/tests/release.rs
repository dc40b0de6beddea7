//! Giving memory back: what goes, what stays, and what the store reports of what is left.

use super::*;
use crate::BlockOrder;

#[test]
fn release_gives_memory_back_and_ordered_keeps_the_hot() {
    use sublet_types::ReleaseMode::{Fast, Ordered};
    for mode in [Ordered, Fast] {
        let (store, levers) = store(256, true);
        let ann = tenant(&store, "ann", 100);
        let worker = store.worker().expect("a worker");
        for key in 0..60_000u32 {
            put(
                &worker,
                ann,
                &key.to_le_bytes(),
                &self_describing(key, 0, 200),
                NOW,
            )
            .expect("room");
        }
        let present: Vec<u32> = (0..60_000u32)
            .filter(|key| {
                worker.read(ann, &key.to_le_bytes(), NOW, ReadKind::Peek, |_| ()) == Lookup::Hit(())
            })
            .collect();
        let hot: Vec<u32> = present.iter().copied().step_by(10).collect();
        for _ in 0..3 {
            for key in &hot {
                get(&worker, ann, &key.to_le_bytes(), NOW);
            }
        }
        let before = levers.populated.load(std::sync::atomic::Ordering::Relaxed);
        store.set_limit(Bytes((128 * BLOCK) as u64));
        let release = Release {
            amount: Bytes((128 * BLOCK) as u64),
            mode,
            tenant: None,
        };
        let released = worker.release(release, NOW);
        let after = levers.populated.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(before - after, 128 * BLOCK, "{mode:?}");
        assert_eq!(released.bytes, Bytes((128 * BLOCK) as u64), "{mode:?}");
        assert_eq!(store.figures().held, Bytes(after as u64), "{mode:?}");
        let kept = hot
            .iter()
            .filter(|key| get(&worker, ann, &key.to_le_bytes(), NOW).is_some())
            .count();
        let share = kept as f64 / hot.len() as f64;
        match mode {
            Ordered => assert!(share > 0.95, "{share}"),
            _ => assert!((0.2..0.9).contains(&share), "{mode:?} {share}"),
        }
        for key in 0..60_000u32 {
            if let Some(value) = get(&worker, ann, &key.to_le_bytes(), NOW) {
                assert_eq!(value, self_describing(key, 0, 200), "{mode:?}");
            }
        }
        while worker.upkeep(NOW) {}
    }
}

/// Whole blocks go in the caller's order, the first ones first.
#[test]
fn blocks_go_in_an_order_of_the_callers_own() {
    const KEYS: u32 = 20_000;
    let (store, _) = store(256, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    for key in 0..KEYS {
        let value = self_describing(key, 0, 200);
        put(&worker, ann, &key.to_le_bytes(), &value, NOW).expect("room");
    }
    let amount = store.figures().held - Bytes((40 * BLOCK) as u64);
    let youngest_first: BlockOrder = |blocks, _random| blocks.sort_by_key(|block| !block.age);
    let released = worker.release_by(youngest_first, amount, NOW);
    assert_eq!(released.bytes, amount);
    let is_kept = |key: &u32| get(&worker, ann, &key.to_le_bytes(), NOW).is_some();
    let kept = (0..KEYS).take_while(is_kept).count() as u32;
    assert!(kept > 0 && kept < KEYS, "{kept}");
    assert_eq!((kept..KEYS).find(is_kept), None);
}

/// If all memory is one pool, a tenant must know the age of what it would lose next: of what is there, not of what
/// went. Wherever its bar lies, that age is between an eighth of a turnover and five turnovers, the age of the oldest
/// segment.
#[test]
fn the_age_of_what_goes_next_is_that_of_what_is_left() {
    use sublet_types::ReleaseMode::{Fast, Ordered};
    let (store, _) = store(64, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let arena = &store.arena;
    let oldest = || store.tenants.get(ann).expect("ann").tails.oldest();
    let own = || arena.blocks().filter(|(_, block)| block.is_owned_by(ann));
    let born = |block: &crate::arena::Block| block.born.load(std::sync::atomic::Ordering::Relaxed);
    for mode in [Fast, Ordered] {
        for key in 0..6000u32 {
            put(&worker, ann, &key.to_le_bytes(), &[7; 600], NOW).expect("room");
            get(&worker, ann, &(key / 2).to_le_bytes(), NOW);
        }
        while own().count() > 0 {
            let amount = Bytes((7 * BLOCK) as u64);
            let tenant = Some(ann);
            worker.release(
                Release {
                    amount,
                    mode,
                    tenant,
                },
                NOW,
            );
            let Some(left) = own().map(|(_, block)| born(block)).min() else {
                assert_eq!(oldest(), 0, "{mode:?}");
                break;
            };
            let turnover = arena.clock() - left;
            let age = crate::tails::BEGINNING + arena.clock() - oldest();
            let reported = turnover / 8..=turnover * 5;
            assert!(reported.contains(&age), "{mode:?}: {age} of {reported:?}");
        }
    }
}

#[test]
fn who_has_no_pages_left_is_not_told_to_be_as_old_as_they_were() {
    let (store, _) = pages::store(40, 4);
    let client = pages::PoolClient::new(&store, tenant(&store, "ann", 100), pages::EPHEMERAL);
    let oldest = || {
        let ann = store.tenants.get(client.tenant);
        ann.expect("ann").tails.oldest()
    };
    for n in 0..2000 {
        client.put(n / 16, n as u32 % 16, n);
    }
    assert_ne!(oldest(), 0);
    let release = Release {
        amount: store.limit(),
        mode: sublet_types::ReleaseMode::Fast,
        tenant: Some(client.tenant),
    };
    client.worker.release(release, NOW);
    assert_eq!(oldest(), 0);
}

/// Of four kinds side by side, the expired items go. When they are gone, the large ones that were never hit go.
#[test]
fn an_ordered_release_takes_the_expired_and_then_what_has_most_space_time() {
    const EACH: u32 = 2_800;
    let (store, _) = store(256, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let kinds = [
        ("expired", 2_000),
        ("hit", 500),
        ("large", 2_000),
        ("small", 500),
    ];
    let key = |kind: &str, n: u32| format!("{kind} {n}").into_bytes();
    for n in 0..EACH {
        for (kind, len) in kinds {
            let expiry = match kind {
                "expired" => Expiry::At(Second(NOW.0 + 5)),
                _ => Expiry::Never,
            };
            put_until(&worker, ann, &key(kind, n), &vec![7; len], expiry, NOW).expect("room");
        }
    }
    (0..EACH).for_each(|n| assert!(get(&worker, ann, &key("hit", n), NOW).is_some()));
    let later = Second(NOW.0 + 10);
    let kept_after_release = |blocks: usize| {
        let amount = Bytes((blocks * BLOCK) as u64);
        store.set_limit(store.figures().held - amount);
        let release = Release {
            amount,
            mode: sublet_types::ReleaseMode::Ordered,
            tenant: None,
        };
        assert_eq!(worker.release(release, later).bytes, amount);
        kinds.map(|(kind, _)| {
            let there = |n: &u32| {
                let peek = worker.read(ann, &key(kind, *n), later, ReadKind::Peek, |_| ());
                peek == Lookup::Hit(())
            };
            (0..EACH).filter(there).count() as u32
        })
    };
    let [_, others @ ..] = kept_after_release(64);
    assert_eq!(others, [EACH; 3]);
    let [expired, hit, large, small] = kept_after_release(64);
    assert!(
        expired == 0 && hit == EACH && small == EACH && large < EACH,
        "{large} large ones"
    );
}

/// Only chance tells them apart, and it lets as many stay as there is room for.
#[test]
fn an_ordered_release_of_items_that_were_all_hit_at_once_keeps_what_fits() {
    let (store, _) = store(256, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let key = |n: u32| n.to_le_bytes();
    let mut last = 0;
    while store.figures().held.0 < 200 * BLOCK as u64 {
        put(&worker, ann, &key(last), &[7; 2_000], NOW).expect("room");
        last += 1;
    }
    let hit = |n: &u32| n.is_multiple_of(4);
    let gets = (0..last).filter(hit);
    gets.for_each(|n| assert!(get(&worker, ann, &key(n), NOW).is_some()));
    let release = Release {
        amount: Bytes((180 * BLOCK) as u64),
        mode: sublet_types::ReleaseMode::Ordered,
        tenant: None,
    };
    store.set_limit(store.figures().held - release.amount);
    assert_eq!(worker.release(release, NOW).bytes, release.amount);
    let there = |n: &u32| {
        let peek = worker.read(ann, &key(*n), NOW, ReadKind::Peek, |_| ());
        peek == Lookup::Hit(())
    };
    let (hit, cold): (Vec<u32>, Vec<u32>) = (0..last).filter(there).partition(hit);
    let room = last / 10;
    assert!(hit.len() as u32 > room * 3 / 4, "{} of {room}", hit.len());
    assert!(cold.len() as u32 <= room / 4, "{} of {room}", cold.len());
}

#[test]
fn a_small_ordered_release_copies_little_however_much_is_held() {
    let (store, _) = store(256, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    // A tenth of each block stays empty, so copying everything together would make room too.
    for key in 0..3000u32 {
        let value = self_describing(key, 0, 6000);
        put(&worker, ann, &key.to_le_bytes(), &value, NOW).expect("room");
    }
    let held = store.figures().held;
    let amount = Bytes((8 * BLOCK) as u64);
    store.set_limit(held - amount);
    let release = Release {
        amount,
        mode: sublet_types::ReleaseMode::Ordered,
        tenant: None,
    };
    let released = worker.release(release, NOW);
    assert_eq!(released.bytes, amount);
    // Twice as much. What stays free in its blocks may take another one.
    let most = amount * 2 + Bytes(BLOCK as u64);
    assert!(released.bytes_kept <= most, "{released:?}");
}
