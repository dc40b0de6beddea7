use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;
use sublet_types::{Bytes, Second};

use super::*;
use crate::arena::BlockOwner;
use crate::arena::fake::FakeMemory;
use crate::items::slot::RecordAddress;

const BLOCK: usize = 64 << 10;

/// Items are identified by their places. Their hashes are kept beside.
#[derive(Default)]
struct TestResolver(HashMap<Slot, u64>);

impl std::hash::Hash for Slot {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl SlotResolver for TestResolver {
    fn hash_of(&self, slot: Slot) -> Option<u64> {
        self.0.get(&slot).copied()
    }

    fn is_stale(&self, slot: Slot) -> bool {
        !self.0.contains_key(&slot)
    }
}

fn arena(blocks: usize) -> Arena {
    let (heap, _) = FakeMemory::new(blocks * BLOCK, BLOCK);
    Arena::new(Box::new(heap), BLOCK, Bytes((blocks * BLOCK) as u64))
}

fn block(arena: &Arena) -> Option<BlockId> {
    while arena.grow() == Ok(true) {}
    arena.allocate(BlockOwner::None, 0, Second(2))
}

fn table(arena: &Arena) -> Table {
    Table::new(arena, block(arena).expect("a block"), 64)
}

fn mixed(n: u32) -> u64 {
    u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(n) << 52)
}

fn slot_of(n: u32, hash: u64) -> Slot {
    Slot::new(hash, RecordAddress::new(BlockId(n / 1000), 8 + n % 1000, 0))
}

fn insert(arena: &Arena, table: &Table, resolver: &mut TestResolver, n: u32, hash: u64) {
    let slot = slot_of(n, hash);
    let grows = table
        .lock(hash)
        .insert(arena, hash, slot, resolver, || block(arena))
        .expect("blocks enough");
    resolver.0.insert(slot, hash);
    if grows {
        table
            .split(arena, resolver, || block(arena))
            .expect("blocks enough");
    }
}

fn holds(table: &Table, resolver: &TestResolver, n: u32, hash: u64) -> bool {
    let is_it = |slot: Slot| slot == slot_of(n, hash) && !resolver.is_stale(slot);
    table.find(hash, |slot| is_it(slot).then_some(())).is_some()
}

#[test]
fn it_grows_one_bucket_at_a_time_and_keeps_all() {
    let arena = arena(64);
    let (table, mut resolver) = (table(&arena), TestResolver::default());
    for n in 0..100_000 {
        insert(&arena, &table, &mut resolver, n, mixed(n));
    }
    assert!(table.buckets() > 15_000, "{} buckets", table.buckets());
    assert!((0..100_000).all(|n| holds(&table, &resolver, n, mixed(n))));
    // The last block is not full yet.
    let bytes = (table.blocks() - 1) as f64 * BLOCK as f64 / 100_000.0;
    assert!(bytes < 12.0, "{bytes} bytes per item in full blocks");
}

#[test]
fn it_shrinks_again_and_gives_its_blocks_up() {
    let arena = arena(64);
    let (table, mut resolver) = (table(&arena), TestResolver::default());
    for n in 0..40_000 {
        insert(&arena, &table, &mut resolver, n, mixed(n));
    }
    let large = table.blocks();
    resolver
        .0
        .retain(|slot, _| slot.record_address().at % 16 == 0);
    for bucket in 0..table.buckets() {
        table.sweep(bucket, &resolver);
    }
    assert_eq!(table.occupied(), resolver.0.len() as u64);
    while table.is_sparse() {
        table
            .merge(&arena, &resolver, || block(&arena))
            .expect("blocks enough");
    }
    assert!(
        large >= 8 && table.blocks() <= 3,
        "{} of {large} blocks",
        table.blocks()
    );
    assert!(
        resolver
            .0
            .iter()
            .all(|(slot, hash)| table.find(*hash, |s| (s == *slot).then_some(())).is_some())
    );
}

#[test]
fn readers_never_miss_what_is_there_while_it_grows_and_shrinks() {
    let arena = arena(64);
    let (table, mut resolver) = (table(&arena), TestResolver::default());
    for n in 0..3000 {
        insert(&arena, &table, &mut resolver, n, mixed(n));
    }
    let stop = AtomicBool::new(false);
    // How often the reader has looked for every key.
    let passes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let pin = arena.epochs().enroll().expect("a slot");
            while !stop.load(Ordering::Relaxed) {
                for n in 0..3000 {
                    arena.epochs().pin(&pin);
                    assert!(holds(&table, &resolver, n, mixed(n)), "missed {n}");
                    arena.epochs().unpin(&pin);
                }
                passes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut rounds = 0;
        while (rounds < 20 || passes.load(Ordering::Relaxed) < 2) && !reader.is_finished() {
            for _ in 0..2000 {
                table
                    .split(&arena, &resolver, || block(&arena))
                    .expect("blocks enough");
            }
            for _ in 0..2000 {
                table
                    .merge(&arena, &resolver, || block(&arena))
                    .expect("blocks enough");
            }
            rounds += 1;
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("no miss");
    });
}

proptest! {
    #[test]
    fn it_holds_what_a_map_holds(
        steps in proptest::collection::vec((0u32..2000, 0u8..10, any::<bool>()), 1..3000),
        collide in any::<bool>(),
    ) {
        let arena = arena(64);
        let (table, mut resolver) = (table(&arena), TestResolver::default());
        // Colliding hashes make long chains.
        let hash_of = |n: u32| if collide { mixed(n) & !0x3f00 | 7 } else { mixed(n) };
        for (n, what, grow) in steps {
            let hash = hash_of(n);
            let slot = slot_of(n, hash);
            let there = resolver.0.contains_key(&slot);
            prop_assert_eq!(holds(&table, &resolver, n, hash), there);
            match what {
                0..=5 if !there => {
                    let inserted = table.lock(hash).insert(&arena, hash, slot, &resolver, || block(&arena));
                    if inserted.is_ok() {
                        resolver.0.insert(slot, hash);
                    }
                }
                6..=7 if there => {
                    let mut held = table.lock(hash);
                    let (cell, ()) = held.find(hash, |s| (s == slot).then_some(())).expect("there");
                    held.remove(cell);
                    resolver.0.remove(&slot);
                }
                8 => {
                    // Its block was dropped, so the slot is stale from now on.
                    resolver.0.remove(&slot);
                    table.sweep(u64::from(n) % table.buckets(), &resolver);
                }
                _ if grow => table.split(&arena, &resolver, || block(&arena)).expect("blocks enough"),
                _ => table.merge(&arena, &resolver, || block(&arena)).expect("blocks enough"),
            }
        }
        for (slot, hash) in &resolver.0 {
            prop_assert!(table.find(*hash, |s| (s == *slot).then_some(())).is_some());
        }
    }
}

#[test]
fn chains_need_the_units_that_they_are_said_to_need() {
    for slots in 0..100 {
        let capacity = |units: usize| {
            if units == 0 {
                8
            } else {
                7 + 3 * (units - 1) + 4
            }
        };
        let units = units_for(slots);
        assert!(capacity(units) >= slots, "{slots}");
        assert!(units == 0 || capacity(units - 1) < slots, "{slots}");
    }
}
