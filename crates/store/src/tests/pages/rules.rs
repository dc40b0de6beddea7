//! One test per rule. The rules are transcendent memory's, as Xen, Linux and the papers state them.
//!
//! Other rules are tested elsewhere: in `shared`, `spilled` and `saved`, G5 in `torn`, T7 in `turnover`, and T8 beside
//! the daemon's log. These have no test:
//!
//! - G6, a hint that is not given;
//! - E5, because nothing is compressed;
//! - the ancestors' bug B4, because delivering a page cannot fail here;
//! - B9, because an object's pages may lie with any lender.

use std::sync::atomic::Ordering;

use sublet_types::{EvictionKind, FreezeState, ReleaseMode, SharedName, ShrinkMode};

use super::*;

fn alone(flags: PoolFlags, blocks: usize) -> (PoolClient, Arc<FaultControls>) {
    let (store, levers) = store(blocks, 2);
    let ann = tenant(&store, "ann", 100);
    (PoolClient::new(&store, ann, flags), levers)
}

/// P1: the page is copied before the reply, and the caller may reuse its buffer.
#[test]
fn r_p1_a_put_copies() {
    let (client, _) = alone(EPHEMERAL, 8);
    let mut buffer = page_of(5);
    let key = client.key(1, 1);
    client
        .worker
        .put_page(client.tenant, key, NOW, |page| page.write(&buffer));
    buffer.fill(0);
    assert_eq!(client.get(1, 1), Some(5));
}

/// P2: a refused put leaves nothing: no page, no count, no frame.
#[test]
fn r_p2_a_refused_put_leaves_nothing() {
    let (client, levers) = alone(PERSISTENT, 8);
    levers.exhausted.store(true, Ordering::Relaxed);
    let before = client.figures();
    assert_eq!(
        client.put(1, 1, 5),
        PutOutcome::Refused(PutRefused::NoMemory)
    );
    let after = client.figures();
    assert_eq!((after.used, after.free), (before.used, before.free));
    assert_eq!(after.tally.puts_refused, 1);
    assert_eq!(client.get(1, 1), None);
    levers.exhausted.store(false, Ordering::Relaxed);
    assert_eq!(client.put(1, 1, 6), PutOutcome::Stored);
}

/// P3: a put on an existing page replaces it, or fails and removes it.
#[test]
fn r_p3_a_put_that_fails_removes_the_old_page() {
    let (store, levers) = store(6, 1);
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, PERSISTENT);
    for index in 0..16 {
        assert_eq!(
            client.put(1, index, 100 + u64::from(index)),
            PutOutcome::Stored
        );
    }
    assert_eq!(
        client.put(1, 3, 7),
        PutOutcome::Replaced,
        "in place, even when all is full"
    );
    assert_eq!(client.get(1, 3), Some(7));
    // All of it goes to disk, so there is no frame for a replacement.
    store.set_target(ann, Some(Bytes::ZERO));
    client.worker.upkeep(Second(3));
    assert_eq!(client.figures().on_disk.0, 16);
    levers.exhausted.store(true, Ordering::Relaxed);
    assert_eq!(
        client.put(1, 4, 8),
        PutOutcome::Refused(PutRefused::AtTarget)
    );
    assert_eq!(
        client.get(1, 4),
        None,
        "the old page must not outlive a put that failed"
    );
    assert_eq!(client.get(1, 5), Some(105));
}

/// G1: a hit in a private ephemeral pool takes the page away.
#[test]
fn r_g1_an_exclusive_get_takes() {
    let (client, _) = alone(EPHEMERAL, 8);
    client.put(1, 1, 5);
    assert_eq!(client.get(1, 1), Some(5));
    assert_eq!(client.get(1, 1), None);
    assert_eq!(client.figures().used.0, 0);
}

/// G3: a hit in a persistent pool leaves the page; it is never evicted, never lost.
#[test]
fn r_g3_persistent_pages_outlive_pressure_and_release() {
    let (store, _) = store(24, 2);
    let ann = tenant(&store, "ann", 100);
    let (kept, lost) = (
        PoolClient::new(&store, ann, PERSISTENT),
        PoolClient::new(&store, ann, EPHEMERAL),
    );
    for index in 0..100 {
        assert!(kept.put(1, index, u64::from(index)).is_stored());
    }
    (0..1000).for_each(|index| {
        lost.put(2, index, 9);
    });
    for mode in [ReleaseMode::Fast, ReleaseMode::Ordered] {
        let release = Release {
            amount: Bytes::gib(1),
            mode,
            tenant: None,
        };
        kept.worker.release(release, NOW);
    }
    assert_eq!(store.figures().held, store.figures().index);
    for index in 0..100 {
        assert_eq!(kept.get(1, index), Some(u64::from(index)));
        assert_eq!(kept.get(1, index), Some(u64::from(index)));
    }
}

/// G4: after a miss no hit without a new put, even of a page that was dropped with its block.
#[test]
fn r_g4_a_miss_sticks() {
    let (client, _) = alone(KEEPING, 8);
    client.put(1, 1, 5);
    let release = Release {
        amount: Bytes(BLOCK as u64),
        mode: ReleaseMode::Fast,
        tenant: Some(client.tenant),
    };
    client.worker.release(release, NOW);
    assert_eq!(client.get(1, 1), None);
    // The block comes back for other pages; the old key must not lead into it.
    for index in 0..16 {
        client.put(2, index, 50 + u64::from(index));
    }
    assert_eq!(client.get(1, 1), None);
    assert_eq!(client.put(1, 1, 6), PutOutcome::Stored);
    assert_eq!(client.get(1, 1), Some(6));
}

/// F1, F2: after a flush nothing returns the page. Flushing an absent page succeeds too.
#[test]
fn r_f1_f2_a_flush_is_final_and_can_be_repeated() {
    for flags in [EPHEMERAL, KEEPING, PERSISTENT] {
        let (client, _) = alone(flags, 16);
        for index in [0, 1, 127, 128, 129, 5000, u32::MAX] {
            client.put(7, index, 5);
        }
        assert!(client.flush(7, 1) && client.flush(7, 1) && client.flush(8, 0));
        assert_eq!(client.get(7, 1), None);
        assert!(client.flush_object(7) && client.flush_object(7) && client.flush_object(99));
        for index in [0, 127, 128, 129, 5000, u32::MAX] {
            assert_eq!(client.get(7, index), None, "{index}");
        }
        assert_eq!(client.figures().used.0, 0);
        assert!(client.worker.destroy_pool(client.tenant, client.pool, NOW));
        assert!(!client.flush(7, 1), "the pool is gone");
    }
}

/// F3, B8: a flush needs no memory of the arena. `tests/exhausted.rs` takes the heap away as well.
#[test]
fn r_f3_b8_a_flush_works_without_memory() {
    let (client, levers) = alone(EPHEMERAL, 8);
    (0..64).for_each(|index| {
        client.put(1, index, 5);
    });
    levers.exhausted.store(true, Ordering::Relaxed);
    client.worker.store().set_limit(Bytes::ZERO);
    assert!(client.flush_object(1));
    assert_eq!(client.figures().used.0, 0);
}

/// F4: flushes, gets and replacements work while the tenant is frozen (M1); new pages do not.
#[test]
fn r_f4_m1_a_frozen_tenant_flushes_and_reads() {
    let (client, _) = alone(PERSISTENT, 8);
    client.put(1, 1, 5);
    client.put(1, 2, 6);
    let store = Arc::clone(client.worker.store());
    store.set_freeze_state(client.tenant, FreezeState::Frozen);
    assert_eq!(client.put(1, 3, 7), PutOutcome::Refused(PutRefused::Frozen));
    assert_eq!(client.put(1, 1, 8), PutOutcome::Replaced);
    assert_eq!(client.get(1, 1), Some(8));
    assert!(client.flush(1, 2));
    assert_eq!(client.get(1, 2), None);
    store.set_freeze_state(client.tenant, FreezeState::Thawed);
    assert_eq!(client.put(1, 3, 7), PutOutcome::Stored);
}

/// A tenant that was removed and is added again is not frozen and has the default eviction, whatever it had before.
#[test]
fn a_tenant_that_comes_back_is_as_new() {
    let (client, _) = alone(PERSISTENT, 8);
    let (store, ann) = (Arc::clone(client.worker.store()), client.tenant);
    let settings = store.tenant_settings(ann).expect("there");
    let saved = |client: &PoolClient| {
        let mut bytes = Vec::new();
        client.worker.export(ann, &mut bytes).expect("saved");
        bytes
    };
    let fresh = saved(&client);
    client.put(1, 1, 5);
    store.set_freeze_state(ann, FreezeState::Frozen);
    store.set_eviction(ann, EvictionKind::S3Fifo, NOW);
    client.worker.destroy_pool(ann, client.pool, NOW);
    store.remove_tenant(ann);
    assert_eq!(store.add_tenant(settings), Ok(ann));
    let again = PoolClient::new(&store, ann, PERSISTENT);
    assert_eq!(again.put(1, 1, 5), PutOutcome::Stored);
    assert_eq!(store.tenant_figures(ann).pages.tally.puts, 1);
    assert!(again.flush(1, 1));
    assert_eq!(saved(&again), fresh, "frozen, eviction, pools");
}

/// A tenant that gets the number of a removed one reports how old its pages are from its first eviction on.
#[test]
fn who_comes_back_tells_its_age_at_its_first_eviction() {
    let (store, _) = store(16, 2);
    let evict = |ann: TenantId| {
        let client = PoolClient::new(&store, ann, EPHEMERAL);
        let before = client.figures().tally.evictions;
        let puts = (0..).take_while(|object| {
            client.put(*object, 0, 1);
            client.figures().tally.evictions < before + 200
        });
        puts.for_each(drop);
    };
    let ann = tenant(&store, "ann", 100);
    (0..10).for_each(|_| evict(ann));
    store.remove_tenant(ann);
    let oldest = || store.tenants.get(ann).expect("there").tails.oldest();
    assert_eq!(tenant(&store, "ann", 100), ann);
    assert_eq!(oldest(), 0, "nothing went yet");
    evict(ann);
    assert_ne!(oldest(), 0);
}

/// Unless an eviction is chosen by name, a tenant's pools decide which one is effective. Its pages are not lost for
/// that.
#[test]
fn pools_that_keep_pages_choose_the_eviction() {
    let (client, _) = alone(EPHEMERAL, 8);
    let (store, ann) = (Arc::clone(client.worker.store()), client.tenant);
    let chosen = || (store.eviction(ann), store.ruling_eviction(ann));
    let auto = |ruling| (EvictionKind::Auto, ruling);
    assert_eq!(chosen(), auto(EvictionKind::AdaptiveMq));
    assert!((0..8).all(|index| client.put(1, index, 5).is_stored()));
    PoolClient::new(&store, ann, PERSISTENT);
    assert_eq!(chosen(), auto(EvictionKind::AdaptiveMq));
    let keeper = PoolClient::new(&store, ann, KEEPING);
    assert_eq!(chosen(), auto(EvictionKind::XS3h));
    assert!((0..8).all(|index| client.get(1, index) == Some(5)));
    store.set_eviction(ann, EvictionKind::Lru, NOW);
    assert_eq!(chosen(), (EvictionKind::Lru, EvictionKind::Lru));
    store.set_eviction(ann, EvictionKind::Auto, NOW);
    assert_eq!(chosen(), auto(EvictionKind::XS3h));
    let settings = store.tenant_settings(ann).expect("there");
    keeper.worker.destroy_pool(ann, keeper.pool, NOW);
    store.remove_tenant(ann);
    assert_eq!(store.add_tenant(settings), Ok(ann));
    assert_eq!(chosen(), auto(EvictionKind::AdaptiveMq));
}

/// The tenant that is charged for a shared pool has a pool that keeps pages that are read.
#[test]
fn who_is_charged_for_a_shared_pool_has_one_that_keeps() {
    let (client, _) = alone(EPHEMERAL, 8);
    let (store, ann) = (Arc::clone(client.worker.store()), client.tenant);
    let name = SharedName(7);
    assert_eq!(store.allow_sharing(name, ann, vec![ann]), Ok(()));
    assert_eq!(store.ruling_eviction(ann), EvictionKind::XS3h);
}

/// F5: a pool's number may be reused. Its old handle leads nowhere.
#[test]
fn r_f5_old_handles_do_not_alias() {
    let (client, _) = alone(EPHEMERAL, 8);
    client.put(1, 1, 5);
    let store = Arc::clone(client.worker.store());
    assert!(client.worker.destroy_pool(client.tenant, client.pool, NOW));
    let again = PoolClient::new(&store, client.tenant, EPHEMERAL);
    assert_eq!(again.pool.slot, client.pool.slot);
    assert_eq!(again.get(1, 1), None);
    assert_eq!(client.put(1, 1, 6), PutOutcome::Refused(PutRefused::NoPool));
    let got = client
        .worker
        .get_page(client.tenant, client.key(1, 1), NOW, |_| {
            panic!("not its page")
        });
    assert_eq!(got, GetOutcome::NoPool);
    assert!(!client.worker.destroy_pool(client.tenant, client.pool, NOW));
}

/// T1: what cannot be promised is refused when the pool is made.
#[test]
fn r_t1_wrong_pools_are_refused() {
    let (store, _) = store(8, 1);
    let ann = tenant(&store, "ann", 100);
    let shared = PoolFlags {
        shared: true,
        ..EPHEMERAL
    };
    let both = PoolFlags {
        persistent: true,
        ..shared
    };
    assert_eq!(
        store.create_pool(ann, PERSISTENT, None),
        Err(CreatePoolError::NoSpill)
    );
    assert_eq!(
        store.create_pool(ann, shared, None),
        Err(CreatePoolError::NameAndFlag)
    );
    assert_eq!(
        store.create_pool(ann, both, None),
        Err(CreatePoolError::SharedPersistent)
    );
    assert_eq!(
        store.create_pool(TenantId(9), EPHEMERAL, None),
        Err(CreatePoolError::NoTenant)
    );
}

/// T3: handles are checked as unsigned numbers, and each tenant has its own.
#[test]
fn r_t3_nobody_reaches_anothers_pool() {
    let (store, _) = store(8, 1);
    let (ann, ben) = (tenant(&store, "ann", 100), tenant(&store, "ben", 100));
    let hers = PoolClient::new(&store, ann, EPHEMERAL);
    hers.put(1, 1, 5);
    let thief = PoolClient::of(&store, ben, hers.pool);
    assert_eq!(thief.put(1, 1, 6), PutOutcome::Refused(PutRefused::NoPool));
    assert!(!thief.flush(1, 1) && !thief.flush_object(1));
    assert!(!thief.worker.destroy_pool(ben, hers.pool, NOW));
    for slot in [hers.pool.slot + 1, u32::MAX, 1 << 31] {
        let pool = PoolId { slot, ..hers.pool };
        let lost = PoolClient::of(&store, ann, pool);
        assert_eq!(lost.put(1, 1, 6), PutOutcome::Refused(PutRefused::NoPool));
    }
    assert_eq!(hers.get(1, 1), Some(5));
}

/// T5, F1: what a pool held is free once the pool was ended, many times over.
#[test]
fn r_t5_nothing_leaks_with_pools() {
    let (store, _) = store(8, 2);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    for round in 0..20_000u64 {
        let pool = store.create_pool(ann, EPHEMERAL, None).expect("a pool");
        let key = PageKey {
            pool,
            object: ObjectId(round),
            index: PageIndex(round as u32),
        };
        assert!(
            worker
                .put_page(ann, key, NOW, |page| page.fill(1))
                .is_stored()
        );
        assert!(worker.destroy_pool(ann, pool, NOW));
    }
    assert_eq!(store.page_figures(ann).used.0, 0);
    assert!(store.pools(ann).is_empty());
}

/// T6: persistent pages are charged at the put. A tenant at its target cannot put even one.
#[test]
fn r_t6_at_its_target_a_tenant_puts_no_persistent_page() {
    let (client, _) = alone(PERSISTENT, 16);
    let store = Arc::clone(client.worker.store());
    store.set_target(client.tenant, Some(Bytes(2 * BLOCK as u64)));
    let puts = (0..100).map(|index| client.put(1, index, 5));
    assert_eq!(puts.filter(|put| put.is_stored()).count(), 32);
    store.set_target(client.tenant, Some(Bytes::ZERO));
    assert_eq!(
        client.put(2, 1, 5),
        PutOutcome::Refused(PutRefused::AtTarget)
    );
}

/// E1: only ephemeral pages are evicted.
#[test]
fn r_e1_persistent_pages_are_not_evicted() {
    let (store, _) = store(8, 1);
    let ann = tenant(&store, "ann", 100);
    let (kept, lost) = (
        PoolClient::new(&store, ann, PERSISTENT),
        PoolClient::new(&store, ann, EPHEMERAL),
    );
    (0..32).for_each(|index| assert!(kept.put(1, index, 5).is_stored()));
    (0..500).for_each(|index| assert!(lost.put(2, index, 6).is_stored()));
    assert!(lost.figures().tally.evictions > 300);
    assert_eq!(lost.figures().tally.spilled, 0);
    (0..32).for_each(|index| assert_eq!(kept.get(1, index), Some(5)));
}

/// E2, B1: with weights 1 to 3 and both tenants pushing, the shares are 25 and 75 %. Others use an idle share, and it
/// comes back.
#[test]
fn r_e2_b1_shares_follow_weights() {
    shares_follow_weights(1, |client, object, index| {
        client.put(object, index, 1);
    });
}

#[test]
fn r_e2_b1_shares_follow_weights_where_runs_are_put() {
    shares_follow_weights(4, |client, object, index| {
        client.put_run(object, index, 4, 1);
    });
}

/// `put` puts `run` pages of an object from an index on.
fn shares_follow_weights(run: u32, put: impl Fn(&PoolClient, u64, u32)) {
    let (store, _) = store(104, 2);
    let (light, heavy) = (tenant(&store, "light", 100), tenant(&store, "heavy", 300));
    let (light, heavy) = (
        PoolClient::new(&store, light, EPHEMERAL),
        PoolClient::new(&store, heavy, EPHEMERAL),
    );
    let share = |client: &PoolClient| {
        let held = |client: &PoolClient| client.figures().held_ephemeral.0 as f64;
        held(client) / (held(&light) + held(&heavy))
    };
    let indices = |count: u32| (0..count).step_by(run as usize);
    indices(4000).for_each(|index| put(&light, 1, index));
    assert!(share(&light) > 0.99, "nobody else wants it");
    indices(4000).for_each(|index| put(&heavy, 1, index));
    assert!(share(&heavy) > 0.5, "who has nothing gets its first block");
    for index in indices(20_000) {
        put(&light, 2, index);
        put(&heavy, 2, index);
    }
    assert!((share(&heavy) - 0.75).abs() < 0.05, "{}", share(&heavy));
    indices(8000).for_each(|index| put(&light, 3, index));
    assert!(
        (share(&heavy) - 0.75).abs() < 0.05,
        "who is ahead does not get more by pushing"
    );
}

/// E3: a target below what is held is reached, down to nothing.
#[test]
fn r_e3_a_lowered_target_is_reached() {
    for flags in [EPHEMERAL, KEEPING, PERSISTENT] {
        let (client, _) = alone(flags, 40);
        let store = Arc::clone(client.worker.store());
        (0..500).for_each(|index| assert!(client.put(1, index, 5).is_stored()));
        for (second, blocks) in [(3, 20), (4, 5), (5, 0)] {
            store.set_target(client.tenant, Some(Bytes(blocks * BLOCK as u64)));
            while client.worker.upkeep(Second(second)) {}
            let figures = client.figures();
            let held = figures.held_ephemeral.0 + figures.held_persistent.0;
            assert!(held <= blocks * 16, "{flags:?}: {figures:?}");
        }
    }
}

/// The papers' way: a tenant over its target keeps what it has until it flushes.
#[test]
fn told_never_to_shrink_the_store_leaves_a_tenant_what_it_has() {
    let (client, _) = alone(EPHEMERAL, 40);
    let store = Arc::clone(client.worker.store());
    (0..300).for_each(|index| {
        client.put(1, index, 5);
    });
    store.set_shrinking(ShrinkMode::Never);
    store.set_target(client.tenant, Some(Bytes::ZERO));
    while client.worker.upkeep(Second(3)) {}
    assert_eq!(client.figures().used.0, 300);
    store.set_shrinking(ShrinkMode::Active);
    while client.worker.upkeep(Second(4)) {}
    assert_eq!(client.figures().used.0, 0);
}

/// E4: a put at capacity evicts at most a few pages, however large the object.
#[test]
fn r_e4_a_put_at_capacity_does_a_bounded_work() {
    for kind in EvictionKind::ALL.map(|(kind, ..)| kind) {
        let (client, _) = alone(EPHEMERAL, 40);
        let store = Arc::clone(client.worker.store());
        store.set_eviction(client.tenant, kind, NOW);
        (0..600).for_each(|index| {
            client.put(1, index, 5);
        });
        for index in 600..2000 {
            let before = client.figures().tally.evictions;
            assert!(client.put(1, index, 5).is_stored());
            let evicted = client.figures().tally.evictions - before;
            assert!(evicted <= 1, "{kind}: {evicted} at once");
        }
    }
}

/// E4: nor does it remove everything that dropped blocks left.
#[test]
fn r_e4_a_put_after_a_fast_release_does_a_bounded_work() {
    let (client, _) = alone(EPHEMERAL, 400);
    let store = Arc::clone(client.worker.store());
    (0..6000).for_each(|index| _ = client.put(1, index, 5));
    let release = Release {
        amount: Bytes((390 * BLOCK) as u64),
        mode: ReleaseMode::Fast,
        tenant: None,
    };
    store.set_limit(Bytes((8 * BLOCK) as u64));
    client.worker.release(release, NOW);
    let left = || {
        let tenant = store.tenants.get(client.tenant).expect("there");
        let shards = store.pages.tenant_pages(tenant).shards().len();
        let of_shard = |n| store.pages.keys_of(tenant, n, |_| true).len();
        (0..shards).map(of_shard).sum::<usize>()
    };
    let mut before = left();
    assert!(before > 5000, "{before}");
    let mut stored = 0;
    for index in 6000..6400 {
        stored += u32::from(client.put(1, index, 5).is_stored());
        let after = left();
        assert!(before < after + 600, "{} at once", before - after);
        before = after;
    }
    assert!(
        stored > 350 && before < 200,
        "{stored} stored, {before} left"
    );
}

/// What the directory takes per page, for objects of every density.
#[test]
fn the_directory_keeps_to_its_bytes_a_page() {
    const PAGES: u64 = 1 << 15;
    type PlaceOf = fn(u64) -> (u64, u32);
    let places: [(&str, f64, PlaceOf); 5] = [
        ("dense objects of 512 pages", 8.5, |n| {
            (n / 512, (n % 512) as u32)
        }),
        ("files of 8 pages", 16.0, |n| (n / 8, (n % 8) as u32)),
        ("files of 3 pages", 16.0, |n| (n / 3, (n % 3) as u32)),
        ("one page an object", 16.0, |n| (n, 0)),
        ("one object, scattered", 16.0, |n| {
            (1, (n * 0x9e37_79b1) as u32)
        }),
    ];
    for (name, most, place) in places {
        let (client, _) = alone(EPHEMERAL, PAGES as usize / 16 + 16);
        for n in 0..PAGES {
            let (object, index) = place(n);
            assert_eq!(client.put(object, index, n), PutOutcome::Stored);
        }
        let overhead = client.worker.store().page_overhead();
        let bytes = overhead.directory as f64 / PAGES as f64;
        assert!(bytes <= most, "{name}: {bytes}");
        assert!(overhead.ghosts as f64 / PAGES as f64 <= 16.0, "{name}");
    }
}

/// With eviction by file, a file that keeps coming and going does not make the store forget another file's past.
#[test]
fn a_files_past_outlives_its_last_page() {
    let (client, _) = alone(EPHEMERAL, 8);
    let store = Arc::clone(client.worker.store());
    store.set_eviction(client.tenant, EvictionKind::File, NOW);
    client.put(1, 0, 5);
    assert_eq!(client.get(1, 0), Some(5));
    for _ in 0..5000 {
        client.put(2, 0, 6);
        assert_eq!(client.get(2, 0), Some(6));
    }
    client.put(1, 0, 7);
    (10..1000).for_each(|file| {
        client.put(file, 0, file);
    });
    assert_eq!(client.get(10, 0), None, "nobody ever asked for it");
    assert_eq!(client.get(1, 0), Some(7));
}

/// Puts 220 pages, and returns those that remain. `ask` asks for the first ones while there is still room.
fn survivors(kind: EvictionKind, ask: impl Fn(&PoolClient, u32)) -> Vec<u32> {
    let (client, _) = alone(KEEPING, 12);
    let store = client.worker.store();
    store.set_eviction(client.tenant, kind, NOW);
    let put = |index| assert!(client.put(1, index, 5).is_stored());
    (0..150).for_each(put);
    for index in (0..20).cycle().take(100) {
        ask(&client, index);
    }
    (150..220).for_each(put);
    let has = |index: &u32| has_page(&client, *index);
    (0..220).filter(has).collect()
}

fn has_page(client: &PoolClient, index: u32) -> bool {
    let key = client.key(1, index);
    client.worker.has_page(client.tenant, key, NOW)
}

/// A look is not a use. It finds what a get would, removes nothing, counts nothing and changes no eviction.
#[test]
fn a_look_at_a_page_is_no_use_of_it() {
    let (client, _) = alone(EPHEMERAL, 8);
    client.put(1, 1, 5);
    let before = client.figures();
    assert!(has_page(&client, 1) && has_page(&client, 1) && !has_page(&client, 2));
    assert_eq!(client.figures().tally, before.tally);
    assert_eq!(client.get(1, 1), Some(5));
    assert!(!has_page(&client, 1), "a get took it");

    for (kind, name, _) in EvictionKind::ALL {
        let left_alone = survivors(kind, |_, _| {});
        assert!((1..220).contains(&left_alone.len()), "{name}: some left");
        let looked_at = survivors(kind, |client, index| assert!(has_page(client, index)));
        assert_eq!(looked_at, left_alone, "{name}");
        let used = survivors(kind, |client, index| {
            assert_eq!(client.get(1, index), Some(5));
        });
        // All pages of one file are equally useful to this kind.
        if kind != EvictionKind::File {
            assert_ne!(used, left_alone, "{name}: a use is heard");
        }
    }
}

/// Bookkeeping: sums agree at every moment, and everything is zero at the end.
#[test]
fn counts_add_up() {
    let (client, _) = alone(EPHEMERAL, 8);
    for index in 0..500 {
        client.put(1, index, 5);
        client.get(1, index / 2);
        let figures = client.figures();
        let tally = figures.tally;
        assert_eq!(tally.puts, u64::from(index) + 1);
        let left = tally.hits + tally.evictions + figures.used.0;
        assert_eq!(
            tally.puts, left,
            "what came is there, was got, or was evicted"
        );
    }
    client.worker.destroy_pool(client.tenant, client.pool, NOW);
    assert_eq!(client.figures().used.0, 0);
}

#[test]
fn a_run_is_as_many_single_verbs() {
    let (store, _) = store(24, 3);
    let client = PoolClient::new(&store, tenant(&store, "ann", 100), KEEPING);
    let puts = client.put_run(1, 10, 40, 5000);
    assert!(puts.iter().all(|put| put.is_stored()), "{puts:?}");
    assert_eq!(client.get(1, 49), Some(5000 + 39 * 1000));
    assert!(client.flush(1, 30));
    let expected: Vec<u64> = (0..20).map(|n| 5000 + n * 1000).collect();
    assert_eq!(client.get_run(1, 10, 40), expected, "up to the gap");
    assert_eq!(client.get_run(1, 31, 40).len(), 19, "up to the end");
    assert_eq!(client.get_run(1, 30, 5), []);
    assert_eq!(client.get_run(1, 10, 0), []);
    assert_eq!(client.figures().tally.hits, 1 + 20 + 19);
}

/// Pages there are gathered in a leaf, and later scattered, without a step beyond the last number.
#[test]
fn the_last_extent_of_an_object_fills_and_empties_as_any_other() {
    let (store, _) = store(24, 1);
    let client = PoolClient::new(&store, tenant(&store, "ann", 100), EPHEMERAL);
    let indices = || u32::MAX - 127..=u32::MAX;
    for index in indices() {
        assert!(client.put(1, index, u64::from(index) << 16).is_stored());
    }
    for index in indices() {
        assert_eq!(client.get(1, index), Some(u64::from(index) << 16));
    }
}

#[test]
fn a_run_ends_with_the_last_index() {
    let (store, _) = store(24, 3);
    let client = PoolClient::new(&store, tenant(&store, "ann", 100), KEEPING);
    let puts = client.put_run(1, u32::MAX - 1, 4, 5000);
    let refused = PutOutcome::Refused(PutRefused::NoPool);
    assert!(puts[..2].iter().all(|put| put.is_stored()));
    assert_eq!(puts[2..], [refused, refused]);
    assert_eq!(client.get_run(1, u32::MAX - 1, 4), [5000, 6000]);
    assert_eq!(client.get(1, 0), None, "it does not wrap");
}

#[test]
fn a_run_of_nobodys_pool_is_refused_page_by_page() {
    let (store, _) = store(24, 3);
    let client = PoolClient::new(&store, tenant(&store, "ann", 100), EPHEMERAL);
    assert!(client.worker.destroy_pool(client.tenant, client.pool, NOW));
    let puts = client.put_run(1, 0, 20, 5000);
    assert_eq!(puts, [PutOutcome::Refused(PutRefused::NoPool); 20]);
    assert_eq!(client.get_run(1, 0, 20), []);
}
