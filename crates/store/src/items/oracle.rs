//! Runs eviction beside a plain model of it, step by step. The model has segments as lists of keys, ticks that do not
//! wrap, and no bits.

use std::collections::{BTreeMap, HashMap, VecDeque};

use proptest::prelude::*;
use sublet_types::{Expiry, Second, TenantId};

use super::merge::{EvictionGoal, Evictor};
use crate::api::{Lookup, Marks, NewCas, NewItem, ReadKind};
use crate::pinned_thread::PinnedThread;
use crate::tests::{BLOCK, store, tenant};
use crate::worker::Worker;

const NOW: Second = Second(2);
const BLOCK_BYTES: u64 = BLOCK as u64;

/// Where records begin in a block.
const BEGIN: u64 = 8;

/// Bytes of a record besides its value: head and key.
const AROUND: u64 = 4 + 4;

/// The most bytes that may die in a segment. It is then never so sparse that it is worked through early.
const DEAD_MAX: u64 = BLOCK_BYTES / 4;

struct ModelItem {
    segment: u32,
    place: usize,
    len: u64,
    /// The tick of its last hit.
    hit: Option<u64>,
}

#[derive(Default)]
struct ModelSegment {
    records: Vec<(u32, u64)>,
    filled: u64,
    dead: u64,
}

#[derive(Default)]
struct EvictionModel {
    entries: HashMap<u32, ModelItem>,
    segments: HashMap<u32, ModelSegment>,
    names: u32,
    full: VecDeque<u32>,
    open: Option<u32>,
    target: Option<u32>,
    source: Option<(u32, usize)>,
    /// Parts of a tick, in 2^24ths. Coarser parts would fall behind the engine's by a tick now and then.
    parts: u64,
    spread: BTreeMap<i64, u64>,
    seen: u64,
    kept: u64,
    hit: u64,
    /// `None` before a segment was seen.
    bar: Option<i64>,
}

/// Four levels for each doubling.
fn level(space_time: u64) -> i64 {
    let doublings = (space_time as f64).log2().floor();
    let rest = space_time as f64 / doublings.exp2() - 1.0;
    doublings as i64 * 4 + (rest * 4.0).floor() as i64
}

impl EvictionModel {
    fn tick(&self) -> u64 {
        self.parts >> 24
    }

    fn opened(&mut self) -> u32 {
        self.names += 1;
        let filled = BEGIN;
        self.segments.insert(
            self.names,
            ModelSegment {
                filled,
                ..ModelSegment::default()
            },
        );
        self.parts += (8 << 24) / self.segments.len() as u64;
        self.names
    }

    /// Appends to the segment of `of`, or to a new one if that is full.
    fn append(&mut self, of: Option<u32>, key: u32, len: u64, hit: Option<u64>) -> u32 {
        let fits = |name: &u32| self.segments[name].filled + len <= BLOCK_BYTES;
        let name = of.filter(fits).unwrap_or_else(|| {
            self.full.extend(of);
            self.opened()
        });
        let segment = self.segments.get_mut(&name).expect("it is open");
        let place = segment.records.len();
        segment.records.push((key, len));
        segment.filled += len;
        let entry = ModelItem {
            segment: name,
            place,
            len,
            hit,
        };
        self.entries.insert(key, entry);
        name
    }

    /// Returns whether the record of a key may die.
    fn may_die(&self, key: u32) -> bool {
        let fits = |entry: &ModelItem| self.segments[&entry.segment].dead + entry.len <= DEAD_MAX;
        self.entries.get(&key).is_none_or(fits)
    }

    /// Returns whether a record of a key may be replaced. In a segment that is older than its own it would be written
    /// twice, so that its cas unique rises.
    fn may_change(&self, key: u32) -> bool {
        let is_older = |entry: &ModelItem| Some(entry.segment) <= self.open;
        self.may_die(key) && self.entries.get(&key).is_none_or(is_older)
    }

    fn kill(&mut self, key: u32) -> Option<ModelItem> {
        let entry = self.entries.remove(&key)?;
        let segment = self.segments.get_mut(&entry.segment).expect("it is there");
        segment.dead += entry.len;
        Some(entry)
    }

    fn put(&mut self, key: u32, len: u64) {
        // A hot key stays hot when it is written, as long as a slot can tell.
        let hit = self.kill(key).and_then(|old| old.hit);
        self.open = Some(self.append(self.open, key, len, hit));
        let tick = self.tick();
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.hit = hit.filter(|hit| tick - hit < 39);
        }
    }

    fn get(&mut self, key: u32) -> bool {
        let tick = self.tick();
        let entry = self.entries.get_mut(&key);
        entry.map(|entry| entry.hit = Some(tick)).is_some()
    }

    fn evict(&mut self, aim: EvictionGoal) {
        let (mut worked, mut freed) = (0, 0);
        while worked < aim.worked && freed < aim.freed {
            let Some((name, at)) = self.source.or(self.full.front().map(|name| (*name, 0))) else {
                return;
            };
            let Some(&(key, len)) = self.segments[&name].records.get(at) else {
                self.source = None;
                return self.give_up(name);
            };
            let alive = self
                .entries
                .get(&key)
                .filter(|entry| (entry.segment, entry.place) == (name, at));
            let hit = alive.map(|entry| entry.hit);
            let is_kept = hit.is_some_and(|hit| self.keeps(key, len, hit));
            worked += len;
            freed += if is_kept { 0 } else { len };
            self.source = Some((name, at + 1));
        }
    }

    /// Returns whether a record survives, and so is copied.
    fn keeps(&mut self, key: u32, len: u64, hit: Option<u64>) -> bool {
        let age = hit.map(|hit| self.tick() - hit);
        let level = level((age.unwrap_or(128) + 1) * len);
        *self.spread.entry(level).or_default() += len;
        self.seen += len;
        self.hit += if hit.is_some() { len } else { 0 };
        let fits = 2 * (self.kept + len) <= self.seen;
        let below = match self.bar {
            None => true,
            Some(bar) => level < bar || (level == bar && fits),
        };
        self.entries.remove(&key);
        if !below || (hit.is_none() && self.hit < len) {
            return false;
        }
        self.hit -= if hit.is_none() { len } else { 0 };
        self.kept += len;
        let hit = hit.filter(|_| age < Some(39));
        self.target = Some(self.append(self.target, key, len, hit));
        true
    }

    fn give_up(&mut self, name: u32) {
        self.full.retain(|other| *other != name);
        self.segments.remove(&name);
        let mut below = 0;
        let over = self.spread.iter().find(|(_, bytes)| {
            below += **bytes;
            below > self.seen / 2
        });
        self.bar = over.map(|(level, _)| *level);
        if self.seen > 32 * BLOCK_BYTES {
            self.seen /= 2;
            self.kept /= 2;
            self.hit /= 2;
            self.spread.values_mut().for_each(|bytes| *bytes /= 2);
        }
    }
}

/// The engine and its model.
struct EngineAndModel {
    worker: Worker,
    ann: TenantId,
    model: EvictionModel,
}

impl EngineAndModel {
    fn new() -> EngineAndModel {
        let (store, _) = store(256, true);
        EngineAndModel {
            worker: store.worker().expect("a worker"),
            ann: tenant(&store, "ann", 100),
            model: EvictionModel::default(),
        }
    }

    fn put(&mut self, key: u32, value: u64) {
        if !self.model.may_change(key) {
            return;
        }
        let new = NewItem {
            flags: 0,
            expiry: Expiry::Never,
            marks: Marks::default(),
            cas: NewCas::Fresh,
            value: &[&vec![7; value as usize]],
        };
        let stored = self
            .worker
            .update(self.ann, &key.to_le_bytes(), NOW, |entry| entry.store(&new));
        stored.expect("room for all that the model lets in");
        self.model.put(key, value + AROUND);
    }

    fn remove(&mut self, key: u32) {
        if self.model.may_die(key) {
            let removed = self
                .worker
                .update(self.ann, &key.to_le_bytes(), NOW, |entry| entry.remove());
            removed.expect("a removal needs no room");
            self.model.kill(key);
        }
    }

    fn read(&self, key: u32, reading: ReadKind) -> bool {
        let read = self
            .worker
            .read(self.ann, &key.to_le_bytes(), NOW, reading, |_| ());
        read == Lookup::Hit(())
    }

    /// Returns whether both have the key, which both must agree on.
    fn get(&mut self, key: u32) -> bool {
        let hit = self.read(key, ReadKind::Use);
        assert_eq!(hit, self.model.get(key), "key {key}");
        hit
    }

    fn evict(&mut self, aim: EvictionGoal) {
        let items = self.worker.items();
        let ann = items.tenants.get(self.ann).expect("ann");
        self.worker.pinned(|| {
            let mut full = items
                .tenant_items(ann)
                .segments
                .try_lock_full(&items.arena)
                .expect("nobody else");
            Evictor::new(items, ann, &mut full, self.worker.pin_slot(), NOW).evict(aim);
        });
        self.model.evict(aim);
    }

    /// Evicts, a little at a time, until at most this many segments are left.
    fn evict_to(&mut self, segments: usize, (worked, freed): (u64, u64)) {
        let aim = EvictionGoal {
            worked,
            freed,
            blocks: 1,
        };
        while self.model.segments.len() > segments {
            self.evict(aim);
        }
    }

    fn compare(&self, keys: u32) {
        for key in 0..keys {
            let there = self.model.entries.contains_key(&key);
            assert_eq!(self.read(key, ReadKind::Peek), there, "key {key}");
        }
        let held = self.worker.store().tenant_figures(self.ann).held.0;
        assert_eq!(held, self.model.segments.len() as u64 * BLOCK_BYTES);
    }
}

/// Random numbers from a seed (splitmix64).
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Small numbers far more often than large ones.
    fn skewed(&mut self, bound: u64) -> u64 {
        let bound = self.below(bound) + 1;
        let bound = self.below(bound) + 1;
        self.below(bound)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Few segments or more, one size or many, popular keys that stay or move, with overwrites and removals. A few keys
    /// are asked for once and then written again and again. So eviction reaches them only when their hit is long past.
    #[test]
    fn what_survives_is_what_the_model_says(
        seed in any::<u64>(), steps in 1u32..6_000, segments in 6usize..24,
        is_one_size in any::<bool>(), moves in any::<bool>(), step_bytes in (100u64..100_000, 100u64..50_000),
    ) {
        const KEYS: u32 = 1_200;
        const WRITTEN: u32 = 4;
        const PHASE: u32 = 1_500;
        let mut dice = SeededRandom(seed);
        let mut pair = EngineAndModel::new();
        for step in 0..steps {
            let from = if moves { step / 8 } else { 0 };
            let key = (from + dice.skewed(u64::from(KEYS)) as u32) % KEYS;
            match dice.below(20) {
                0 => pair.put(key, 3_000),
                1 => pair.remove(key),
                2 => {
                    let phase = step / PHASE;
                    let key = KEYS + phase * WRITTEN + dice.below(u64::from(WRITTEN)) as u32;
                    match step % PHASE < 150 && pair.get(key) {
                        true => {}
                        false => pair.put(key, 300),
                    }
                }
                _ if pair.get(key) => {}
                _ if is_one_size => pair.put(key, 3_000),
                _ => pair.put(key, 20 + dice.skewed(8_000)),
            }
            pair.evict_to(segments, step_bytes);
            if step % 500 == 0 {
                pair.compare(2 * KEYS);
            }
        }
        pair.compare(2 * KEYS);
    }
}

/// A disk's recorded requests, if the public trace is there. Each block is an item with a size of its own.
#[test]
fn a_recorded_sequence_leaves_what_the_model_says() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/traces/cloudPhysicsIO.vscsi"
    );
    let Ok(bytes) = std::fs::read(file) else {
        eprintln!("skipped: there is no {file}");
        return;
    };
    let (records, _) = bytes.as_chunks::<32>();
    let mut numbers = HashMap::new();
    let mut pair = EngineAndModel::new();
    for record in &records[..60_000] {
        let block = u64::from_le_bytes(*record[16..].first_chunk().expect("16 bytes"));
        let next = numbers.len() as u32;
        let key = *numbers.entry(block).or_insert(next);
        if !pair.get(key) {
            pair.put(key, 20 + SeededRandom(block).skewed(8_000));
        }
        pair.evict_to(48, (6_000, 1_500));
    }
    pair.compare(numbers.len() as u32);
}
