//! Compares what the store logs about its sample with what it holds.

use std::collections::{HashMap, HashSet};

use super::pages::{self, EPHEMERAL, KEEPING, PoolClient};
use super::*;
use crate::api::SampledUse;
use crate::items::{Entry, ItemUse};

/// Random numbers that are the same in every run.
struct TestRandom(u64);

impl TestRandom {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % most
    }
}

/// Three quarters of the keys exceed the room. The entry of a store tells which key a hash belongs to.
#[test]
fn a_followed_item_is_there_exactly_if_the_notes_say_so() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let (mut names, mut here) = (HashMap::new(), HashSet::new());
    let (mut random, mut notes, mut evicted) = (TestRandom(3), Vec::new(), 0);
    store.drain_item_uses(ann, &mut notes);
    for n in 0..24_000_u64 {
        let key = random.below(12_000).to_le_bytes();
        let turn = random.below(10);
        match turn {
            0 => drop(worker.update(ann, &key, NOW, |entry| entry.remove())),
            1..5 => drop(get(&worker, ann, &key, NOW)),
            _ => drop(put(&worker, ann, &key, &[7; 150], NOW).expect("room")),
        }
        store.drain_item_uses(ann, &mut notes);
        for (hash, what) in notes.drain(..) {
            assert!(hash.is_multiple_of(SAMPLE_ONE_IN));
            match what {
                ItemUse::Stored(bytes) => {
                    assert!((158..180).contains(&bytes), "{bytes}");
                    assert_eq!(*names.entry(hash).or_insert(key), key, "{n}");
                    here.insert(hash);
                }
                ItemUse::Removed => assert!(here.remove(&hash) && turn == 0, "{n}"),
                ItemUse::Evicted => {
                    evicted += 1;
                    assert!(here.remove(&hash), "it was there: {n}");
                }
                ItemUse::Get => assert!(names.get(&hash).is_none_or(|name| *name == key)),
            }
        }
    }
    let figures = store.tenant_figures(ann);
    assert!(evicted > 100 && figures.evictions > 1500);
    // 12,000 puts are of 7,600 keys.
    let (followed, ought) = (names.len() as f64, 7600.0 / 16.0);
    assert!((followed / ought - 1.0).abs() < 0.15, "{followed}");
    for (hash, key) in names {
        let read = worker.read(ann, &key, NOW, ReadKind::Peek, |_| ());
        assert_eq!(read == Lookup::Hit(()), here.contains(&hash), "{key:?}");
    }
}

/// Gets that also change the item (get and touch) are updates. Both those that find it and those that do not count.
#[test]
fn a_use_in_an_update_is_asked_for_too() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let (mut notes, mut asked) = (Vec::new(), [0, 0]);
    store.drain_item_uses(ann, &mut notes);
    for n in 0..2000_u64 {
        let is_there = n % 2 == 0;
        if is_there {
            put(&worker, ann, &n.to_le_bytes(), &[7; 150], NOW).expect("room");
        }
        worker
            .update(ann, &n.to_le_bytes(), NOW, |entry| entry.record_use())
            .expect("it needs no room");
        store.drain_item_uses(ann, &mut notes);
        let uses = notes
            .drain(..)
            .filter(|(_, what)| *what == ItemUse::Get)
            .count();
        asked[usize::from(is_there)] += uses;
    }
    // One in sixteen of a thousand each.
    assert!(
        asked.iter().all(|uses| (30..100).contains(uses)),
        "{asked:?}"
    );
}

/// A reader that stores what it did not find (`mg` with vivify) has missed it, and has used what it stored.
#[test]
fn what_is_stored_where_it_was_asked_for_in_vain_is_a_miss_and_used() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let new = NewItem {
        flags: 0,
        expiry: Expiry::At(Second(NOW.0 + 5)),
        marks: Marks::default(),
        cas: NewCas::Fresh,
        value: &[b"value"],
    };
    let mut notes = Vec::new();
    store.drain_item_uses(ann, &mut notes);
    for (n, now) in (0..1000_u64).flat_map(|n| [(n, NOW), (n, Second(NOW.0 + 10))]) {
        let make = |entry: &mut Entry<'_>| {
            assert!(entry.current().is_none());
            entry.record_use();
            entry.store(&new);
        };
        worker
            .update(ann, &n.to_le_bytes(), now, make)
            .expect("room");
        store.drain_item_uses(ann, &mut notes);
        let uses: Vec<ItemUse> = notes.drain(..).map(|(_, what)| what).collect();
        assert!(
            matches!(uses[..], [] | [ItemUse::Get, ItemUse::Stored(_)]),
            "{uses:?}"
        );
        let fetched = worker.read(ann, &n.to_le_bytes(), NOW, ReadKind::Peek, |item| {
            item.fetched()
        });
        assert_eq!(fetched, Lookup::Hit(true));
    }
    assert_eq!(store.tenant_figures(ann).expired_unfetched, 0);
}

/// Before the first drain, nothing is logged and the log takes no memory.
#[test]
fn nothing_is_noted_until_somebody_drains() {
    let (store, _) = store(16, true);
    let ann = tenant(&store, "ann", 100);
    let worker = store.worker().expect("a worker");
    let mut notes = Vec::new();
    let mut noted = || {
        for key in 0..1000_u32 {
            put(&worker, ann, &key.to_le_bytes(), &[7; 50], NOW).expect("room");
        }
        store.drain_item_uses(ann, &mut notes);
        notes.drain(..).count()
    };
    assert_eq!(noted(), 0);
    assert!(noted() > 30);
}

/// Only a put, a get that takes the page away or leaves it, and an eviction happen to a page here.
fn check_pages(flags: sublet_types::PoolFlags) {
    let (store, _) = pages::store(40, 4);
    let client = PoolClient::new(&store, pages::tenant(&store, "ann", 100), flags);
    let (mut names, mut here) = (HashMap::new(), HashSet::new());
    let (mut random, mut notes, mut evicted) = (TestRandom(5), Vec::new(), 0);
    for n in 0..20_000 {
        let page = random.below(2000);
        let (object, index) = (page / 16, page as u32 % 16);
        match random.below(3) {
            0 => drop(client.get(object, index)),
            _ => drop(client.put(object, index, page)),
        }
        store.drain_samples(client.tenant, &mut notes);
        for (hash, what) in notes.drain(..) {
            match what {
                SampledUse::Put => {
                    assert_eq!(*names.entry(hash).or_insert(page), page, "{n}");
                    here.insert(hash);
                }
                SampledUse::Get => drop(here.remove(&hash)),
                SampledUse::Evict => {
                    evicted += 1;
                    assert!(here.remove(&hash), "it was there: {n}");
                }
                SampledUse::GetKeeping => {}
                SampledUse::Flush => panic!("nobody flushes"),
            }
        }
    }
    assert!(evicted > 100, "{evicted}");
    for (hash, page) in names {
        let got = client.get(page / 16, page as u32 % 16);
        assert_eq!(got.is_some(), here.contains(&hash), "{page}");
    }
}

#[test]
fn a_followed_page_is_there_exactly_if_the_notes_say_so() {
    check_pages(EPHEMERAL);
    check_pages(KEEPING);
}
