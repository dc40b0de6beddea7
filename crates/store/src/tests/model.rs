//! A `HashMap` beside the store. Whatever the store says it has must be what the map has. If memory suffices, the store
//! must have all of it. Faults: no memory, release in the middle, clock jumps, flushes.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use sublet_types::ReleaseMode;

use super::counted::assert_counted;
use super::*;

#[derive(Clone, Debug)]
enum ItemStep {
    Put {
        key: u8,
        len: usize,
        ttl: Option<u32>,
    },
    Get {
        key: u8,
    },
    Cas {
        key: u8,
        len: usize,
    },
    Touch {
        key: u8,
        ttl: Option<u32>,
    },
    Append {
        key: u8,
        len: usize,
    },
    Remove {
        key: u8,
    },
    Flush,
    Clock {
        secs: u32,
    },
    Release {
        blocks: u64,
        mode: usize,
    },
    Limit {
        blocks: u64,
    },
    Exhaust {
        exhausted: bool,
    },
    Churn {
        items: u16,
    },
    Upkeep,
}

fn steps() -> impl Strategy<Value = Vec<ItemStep>> {
    let len = prop_oneof![6 => 0usize..300, 2 => 0usize..20_000, 1 => 20_000usize..200_000];
    let ttl = proptest::option::of(0u32..100);
    let step = prop_oneof![
        8 => (any::<u8>(), len.clone(), ttl.clone()).prop_map(|(key, len, ttl)| ItemStep::Put { key, len, ttl }),
        8 => any::<u8>().prop_map(|key| ItemStep::Get { key }),
        3 => (any::<u8>(), 0usize..500).prop_map(|(key, len)| ItemStep::Cas { key, len }),
        2 => (any::<u8>(), ttl).prop_map(|(key, ttl)| ItemStep::Touch { key, ttl }),
        2 => (any::<u8>(), len).prop_map(|(key, len)| ItemStep::Append { key, len }),
        3 => any::<u8>().prop_map(|key| ItemStep::Remove { key }),
        1 => Just(ItemStep::Flush),
        2 => (0u32..50).prop_map(|secs| ItemStep::Clock { secs }),
        1 => (1u64..32, 0usize..2).prop_map(|(blocks, mode)| ItemStep::Release { blocks, mode }),
        1 => (4u64..64).prop_map(|blocks| ItemStep::Limit { blocks }),
        1 => any::<bool>().prop_map(|exhausted| ItemStep::Exhaust { exhausted }),
        2 => (1u16..600).prop_map(|items| ItemStep::Churn { items }),
        2 => Just(ItemStep::Upkeep),
    ];
    proptest::collection::vec(step, 1..120)
}

struct ModelValue {
    value: Vec<u8>,
    expiry: Expiry,
    cas: u64,
}

/// The store and the map side by side.
struct StoreAndMap {
    store: Arc<Store>,
    levers: Arc<FaultControls>,
    worker: Worker,
    ann: TenantId,
    map: HashMap<u8, ModelValue>,
    now: Second,
    version: u32,
    churned: u32,
    /// Whether the store was ever short of memory, so that it may have evicted.
    was_short: bool,
}

impl StoreAndMap {
    fn new(blocks: usize) -> StoreAndMap {
        let (store, levers) = store(blocks, true);
        let ann = tenant(&store, "ann", 100);
        StoreAndMap {
            worker: store.worker().expect("a worker"),
            store,
            levers,
            ann,
            map: HashMap::new(),
            now: NOW,
            version: 0,
            churned: 0,
            was_short: false,
        }
    }

    fn value(&mut self, key: u8, len: usize) -> Vec<u8> {
        self.version += 1;
        self_describing(u32::from(key), self.version, len)
    }

    fn expiry(&self, ttl: Option<u32>) -> Expiry {
        ttl.map_or(Expiry::Never, |ttl| Expiry::At(Second(self.now.0 + ttl)))
    }

    fn expire(&mut self) {
        let now = self.now;
        self.map.retain(|_, kept| !kept.expiry.is_past(now));
    }

    fn learn(&mut self, key: u8, value: Vec<u8>, expiry: Expiry, stored: Result<u64, ItemRefused>) {
        match stored {
            Ok(cas) => {
                self.map.insert(key, ModelValue { value, expiry, cas });
            }
            Err(_) => self.was_short = true,
        }
        self.expire();
    }

    fn apply(&mut self, step: &ItemStep) {
        match *step {
            ItemStep::Put { key, len, ttl } => {
                let (value, expiry) = (self.value(key, len), self.expiry(ttl));
                let stored = put_until(&self.worker, self.ann, &[key], &value, expiry, self.now);
                self.learn(key, value, expiry, stored);
            }
            ItemStep::Get { key } => self.check(key),
            ItemStep::Cas { key, len } => self.cas(key, len),
            ItemStep::Touch { key, ttl } => self.touch(key, ttl),
            ItemStep::Append { key, len } => self.append(key, len),
            ItemStep::Remove { key } => {
                let there = self.worker.update(self.ann, &[key], self.now, |entry| {
                    let there = entry.current().is_some();
                    entry.remove();
                    there
                });
                let known = self.map.remove(&key).is_some();
                self.agree(key, there == Ok(true), known);
            }
            ItemStep::Flush => {
                self.worker.flush(self.ann, self.now);
                self.map.clear();
            }
            ItemStep::Clock { secs } => {
                self.now.0 += secs;
                self.expire();
            }
            ItemStep::Release { blocks, mode } => self.release(blocks, mode),
            ItemStep::Limit { blocks } => {
                self.store.set_limit(Bytes(blocks * BLOCK as u64));
                self.was_short = true;
            }
            ItemStep::Exhaust { exhausted } => {
                self.levers.exhausted.store(exhausted, Ordering::Relaxed);
                self.was_short |= exhausted;
            }
            ItemStep::Churn { items } => self.churn(items),
            ItemStep::Upkeep => while self.worker.upkeep(self.now) {},
        }
    }

    fn agree(&self, key: u8, there: bool, known: bool) {
        assert!(known || !there, "{key} came back from nowhere");
        assert!(
            there || !known || self.was_short,
            "{key} was lost though there was room"
        );
    }

    fn check(&mut self, key: u8) {
        let read = get(&self.worker, self.ann, &[key], self.now);
        self.agree(key, read.is_some(), self.map.contains_key(&key));
        match (read, self.map.get(&key)) {
            (Some(value), Some(kept)) => assert!(value == kept.value, "another value of {key}"),
            (None, _) => {
                self.map.remove(&key);
            }
            (Some(_), None) => unreachable!("agreed above"),
        }
    }

    fn cas(&mut self, key: u8, len: usize) {
        self.check(key);
        let read = self
            .worker
            .read(self.ann, &[key], self.now, ReadKind::Peek, |item| {
                item.cas()
            });
        let Lookup::Hit(cas) = read else {
            return;
        };
        assert_eq!(cas, self.map[&key].cas, "a told cas of {key} changed");
        let value = self.value(key, len);
        let stored = put(&self.worker, self.ann, &[key], &value, self.now);
        if let Ok(newer) = stored {
            assert!(newer > cas, "the cas of {key} went back");
        }
        self.learn(key, value, Expiry::Never, stored);
    }

    fn touch(&mut self, key: u8, ttl: Option<u32>) {
        self.check(key);
        let expiry = self.expiry(ttl);
        let touched = self.worker.update(self.ann, &[key], self.now, |entry| {
            let item = entry.current()?;
            let pieces = item.value().pieces().to_vec();
            let (flags, marks) = (item.flags(), item.marks());
            Some(entry.store(&NewItem {
                flags,
                expiry,
                marks,
                cas: NewCas::Keep,
                value: &pieces,
            }))
        });
        match (touched, self.map.get_mut(&key)) {
            (Ok(Some(cas)), Some(kept)) => {
                assert_eq!(cas, kept.cas, "a touch changed the cas of {key}");
                kept.expiry = expiry;
            }
            (Ok(Some(_)), None) => panic!("touched {key}, which was not there"),
            (Ok(None), _) => {
                self.map.remove(&key);
            }
            (Err(_), _) => self.was_short = true,
        }
        self.expire();
    }

    fn append(&mut self, key: u8, len: usize) {
        self.check(key);
        let more = self.value(key, len);
        let appended = self.worker.update(self.ann, &[key], self.now, |entry| {
            let item = entry.current()?;
            let mut pieces = item.value().pieces().to_vec();
            pieces.push(&more);
            let (flags, expiry, marks) = (item.flags(), item.expiry(), item.marks());
            Some(entry.store(&NewItem {
                flags,
                expiry,
                marks,
                cas: NewCas::Reported,
                value: &pieces,
            }))
        });
        match appended {
            Ok(Some(cas)) => {
                let kept = self
                    .map
                    .get_mut(&key)
                    .expect("appended to what was not there");
                kept.value.extend_from_slice(&more);
                kept.cas = cas;
            }
            Ok(None) => {
                self.map.remove(&key);
            }
            Err(ItemRefused::TooLarge) => {}
            Err(ItemRefused::NoMemory) => self.was_short = true,
        }
    }

    fn release(&mut self, blocks: u64, mode: usize) {
        self.was_short = true;
        let mode = [ReleaseMode::Ordered, ReleaseMode::Fast][mode];
        let before = self.store.figures().held;
        let release = Release {
            amount: Bytes(blocks * BLOCK as u64),
            mode,
            tenant: None,
        };
        let released = self.worker.release(release, self.now);
        assert_eq!(before - released.bytes, self.store.figures().held);
        self.levers_agree();
    }

    /// Fills and empties segments with other keys.
    fn churn(&mut self, items: u16) {
        self.was_short = true;
        for _ in 0..items {
            self.churned += 1;
            let key = [&b"churn"[..], &self.churned.to_le_bytes()].concat();
            let _ = put(&self.worker, self.ann, &key, &[3; 1000], self.now);
        }
    }

    fn levers_agree(&self) {
        let populated = self.levers.populated.load(Ordering::Relaxed) as u64;
        assert_eq!(
            self.store.figures().held,
            Bytes(populated),
            "held is not what is populated"
        );
    }

    fn check_all(&mut self) {
        for key in 0..=u8::MAX {
            self.check(key);
        }
        self.levers_agree();
        assert_counted(&self.store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_store_says_what_the_map_says(steps in steps(), blocks in 12usize..80) {
        let mut pair = StoreAndMap::new(blocks);
        // Small arenas evict. Only with room for everything may nothing be lost.
        pair.was_short = blocks < 70;
        for step in &steps {
            pair.apply(step);
        }
        pair.check_all();
        pair.worker.flush(pair.ann, pair.now);
        let figures = pair.store.tenant_figures(pair.ann);
        prop_assert_eq!((figures.items, figures.used), (0, Bytes::ZERO));
    }
}
