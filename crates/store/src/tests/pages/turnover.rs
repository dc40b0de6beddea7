//! Memory that passes from pages to other pages and to items. Nobody sees what was there, and nobody writes there any
//! more.

use sublet_types::{EvictionKind, Expiry, ReleaseMode};

use super::*;

/// T7: whatever way memory passes from one tenant to another, it shows nothing of its past. No page, item, save file or
/// spill file of the other has a word of it, and neither has what the host gets back.
#[test]
fn r_t7_frames_show_nothing_of_their_past() {
    let ways: [fn(&PoolClient, &PoolClient); 6] = [
        |_, _| {}, // the other's puts displace it
        |hers, _| {
            (0..PAGES_OF_PAST).for_each(|index| assert!(hers.flush(1, index)));
        },
        |hers, _| assert!(hers.flush_object(1)),
        |hers, _| assert!(hers.worker.destroy_pool(hers.tenant, hers.pool, NOW)),
        |hers, _| release_all(hers, ReleaseMode::Fast),
        |hers, kept| {
            release_all(hers, ReleaseMode::Ordered);
            assert!(hers.worker.destroy_pool(hers.tenant, hers.pool, NOW));
            assert!(kept.worker.destroy_pool(kept.tenant, kept.pool, NOW));
            hers.worker.store().remove_tenant(hers.tenant);
        },
    ];
    for (n, way) in ways.into_iter().enumerate() {
        let (store, _) = store(12, 2);
        let (ann, ben) = (tenant(&store, "ann", 1), tenant(&store, "ben", 1000));
        let [hers, kept] = [EPHEMERAL, PERSISTENT].map(|flags| PoolClient::new(&store, ann, flags));
        for index in 0..PAGES_OF_PAST {
            put_past(&hers, index);
            put_past(&kept, index % 40);
        }
        way(&hers, &kept);
        assert!(shows_no_past(&store, ben), "way {n}");
    }
}

/// More pages than the memory of these tests takes.
const PAGES_OF_PAST: u32 = 200;

/// What nobody else may see.
const PAST: [u8; 16] = *b"what ann put her";

fn put_past(client: &PoolClient, index: u32) {
    let key = client.key(1, index);
    client.worker.put_page(client.tenant, key, NOW, |page| {
        page.chunks_exact_mut(PAST.len())
            .for_each(|part| part.copy_from_slice(&PAST));
    });
}

fn release_all(client: &PoolClient, mode: ReleaseMode) {
    let release = Release {
        amount: Bytes::gib(1),
        mode,
        tenant: None,
    };
    client.worker.release(release, NOW);
}

/// Returns whether everything that a tenant can read is its own, whatever it uses the memory for.
fn shows_no_past(store: &Arc<Store>, tenant: TenantId) -> bool {
    let has_past = |bytes: &[u8]| bytes.windows(PAST.len()).any(|part| part == PAST);
    let disk = FakeSpill::new(400);
    let spill = Arc::clone(&disk) as Arc<dyn Spill>;
    let kept = store.create_pool(tenant, PERSISTENT, Some(spill));
    let kept = PoolClient::of(store, tenant, kept.expect("a pool"));
    let pools = [EPHEMERAL, KEEPING].map(|flags| PoolClient::new(store, tenant, flags));
    for client in pools.iter().chain([&kept]) {
        // Keys that were the other's, then its own over and over, alone and in runs.
        for index in 0..60 {
            assert_eq!(client.get(1, index), None);
            client.put(1, index, 7);
            assert!(client.get(1, index).is_none_or(|content| content == 7));
        }
        client.put_run(2, 0, 40, 7000);
        let run = client.get_run(2, 0, 40);
        assert!(run.iter().zip(7..).all(|(content, n)| *content == 1000 * n));
    }
    let mut saved = Vec::new();
    kept.worker.export(tenant, &mut saved).expect("saved");
    release_all(&kept, ReleaseMode::Ordered);
    let mut shown = has_past(&saved) || disk.shows(has_past);
    for n in 0..60u8 {
        let value = vec![n; 9000];
        put_item(&kept.worker, tenant, &[n], &value);
        shown |= item(&kept.worker, tenant, &[n]).is_some_and(|there| there != value);
    }
    !shown
}

fn put_item(worker: &Worker, tenant: TenantId, key: &[u8], value: &[u8]) {
    let new = NewItem {
        flags: 0,
        expiry: Expiry::Never,
        marks: Marks::default(),
        cas: NewCas::Reported,
        value: &[value],
    };
    // Refused or not: what counts is what can be read then.
    let _ = worker.update(tenant, key, NOW, |entry| entry.store(&new));
}

fn item(worker: &Worker, tenant: TenantId, key: &[u8]) -> Option<Vec<u8>> {
    let read = worker.read(tenant, key, NOW, ReadKind::Use, |item| {
        let mut value = Vec::new();
        item.value().copy_to(&mut value);
        value
    });
    match read {
        Lookup::Hit(value) => Some(value),
        Lookup::Miss(_) => None,
    }
}

/// A frame of a dropped block is not written any more, though it waits to be swept. The block's new tenant keeps what
/// it put.
#[test]
fn pages_that_move_together_leave_what_was_dropped_to_others() {
    let (store, _) = store(24, 1);
    let [ann, ben] = ["ann", "ben"].map(|name| tenant(&store, name, 100));
    let client = PoolClient::new(&store, ann, EPHEMERAL);
    let release = |mode| {
        let amount = Bytes(BLOCK as u64);
        let tenant = Some(ann);
        client.worker.release(
            Release {
                amount,
                mode,
                tenant,
            },
            NOW,
        )
    };
    (0..48).for_each(|index| assert!(client.put(1, index, u64::from(index)).is_stored()));
    for index in (0..48).step_by(3) {
        assert_eq!(client.get(1, index), Some(u64::from(index)));
    }
    assert_eq!(release(ReleaseMode::Fast).bytes.0, BLOCK as u64);
    // All that is free, and so what ann had.
    for n in 0..20u8 {
        put_item(&client.worker, ben, &[n], &[n; 50_000]);
    }
    release(ReleaseMode::Ordered);
    for n in 0..20u8 {
        let there = item(&client.worker, ben, &[n]);
        assert!(there.is_some_and(|value| value == [n; 50_000]), "item {n}");
    }
    for index in 0..48 {
        let there = client.get(1, index);
        assert!(there.is_none_or(|content| content == u64::from(index)));
    }
}

/// By file: a page that went with its block was not flushed. A flush would have made its file worth less.
#[test]
fn what_is_dropped_is_not_held_against_its_file() {
    let (store, _) = store(24, 1);
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, KEEPING);
    store.set_eviction(ann, EvictionKind::File, NOW);
    (0..48).for_each(|index| assert!(client.put(1, index, 7).is_stored()));
    (32..48).for_each(|index| assert_eq!(client.get(1, index), Some(7)));
    (0..16).for_each(|index| assert!(client.put(2, index, 7).is_stored()));
    (0..14).for_each(|index| assert_eq!(client.get(2, index), Some(7)));
    (0..8).for_each(|index| assert!(client.flush(2, index)));
    // The two blocks that nobody has read.
    let amount = Bytes(2 * BLOCK as u64);
    let release = Release {
        amount,
        mode: ReleaseMode::Fast,
        tenant: Some(ann),
    };
    assert_eq!(client.worker.release(release, NOW).pages_lost.0, 32);
    while client.worker.upkeep(NOW) {}
    store.set_target(ann, Some(amount));
    (0..12).for_each(|index| assert!(client.put(3, index, 7).is_stored()));
    assert_eq!(client.figures().tally.evictions, 4);
    assert!((32..48).all(|index| client.get(1, index) == Some(7)));
}

/// Pages and items of two tenants in one arena, while random blocks go. What a tenant reads is what it put there.
#[test]
fn pages_and_items_take_turns_and_keep_what_is_theirs() {
    for seed in 0..30 {
        take_turns(seed);
    }
}

/// Keys of each client.
const PLACES: u32 = 240;

fn take_turns(seed: u64) {
    let (store, _) = store(48, 1 + seed as usize % 2);
    let tenants = ["ann", "ben"].map(|name| tenant(&store, name, 100));
    let clients: Vec<PoolClient> = tenants
        .into_iter()
        .flat_map(|tenant| [EPHEMERAL, KEEPING, PERSISTENT].map(|flags| (tenant, flags)))
        .map(|(tenant, flags)| PoolClient::new(&store, tenant, flags))
        .collect();
    let mut random = seed | 1 << 40;
    for step in 0..3000u32 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let n = (random >> 50) as usize % clients.len();
        let (client, place) = (&clients[n], (random >> 20) as u32 % PLACES);
        let content = |place: u32| (n as u64) << 40 | u64::from(place) << 24;
        let key = [n as u8, place as u8];
        // For a while everything happens, then pages only leave, then items only come. Blocks go all the time.
        let lot = match (seed + u64::from(step / 60)) % 3 {
            0 => random % 128,
            1 => 30 + random % 42,
            _ => 70 + random % 57,
        };
        match lot {
            0..=29 => (place..PLACES.min(place + 12)).for_each(|place| {
                client.put(1, place, content(place) | u64::from(step));
            }),
            30..=49 => assert!(client.flush(1, place)),
            50..=69 => {
                let seen = client.get(1, place).map(|content| content >> 24 << 24);
                assert!(
                    seen.is_none_or(|seen| seen == content(place)),
                    "{seed} {step}"
                );
            }
            70..=71 | 124..=126 => {
                use ReleaseMode::{Fast, Ordered};
                let release = Release {
                    amount: Bytes((1 + (random >> 12) % 3) * BLOCK as u64),
                    mode: [Fast, Ordered][(random >> 5) as usize % 2],
                    tenant: Some(client.tenant).filter(|_| random >> 10 & 3 > 0),
                };
                client.worker.release(release, NOW);
            }
            72..=109 => {
                let value = key.repeat(100 + (random >> 44) as usize % 4000);
                put_item(&client.worker, client.tenant, &key, &value);
            }
            110..=123 => {
                let value = item(&client.worker, client.tenant, &key).unwrap_or_default();
                assert!(value.chunks(2).all(|part| part == key), "{seed} {step}");
            }
            _ => _ = client.worker.upkeep(NOW),
        }
        if step % 50 == 0 {
            assert_eq!(items_of(&clients), store.figures().items, "{seed} {step}");
        }
    }
}

/// The items that are found. Each names its tenant.
fn items_of(clients: &[PoolClient]) -> u64 {
    let places = (0..PLACES as u8).flat_map(|place| (0..clients.len()).map(move |n| (n, place)));
    let found = places.filter_map(|(n, place)| {
        let value = item(&clients[n].worker, clients[n].tenant, &[n as u8, place])?;
        assert!(value.chunks(2).all(|part| part == [n as u8, place]));
        Some(())
    });
    found.count() as u64
}
