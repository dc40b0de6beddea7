//! The cost of the items engine for one item, beside a plain copy of its bytes.
//!
//! `cargo bench -p sublet-store`

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use sublet_store::{
    ItemRefused, Lookup, Marks, NewCas, NewItem, ReadKind, Store, StoreSettings, Worker,
};
use sublet_types::{Bytes, Expiry, Second, TenantId, TenantSettings, Weight};

const KEYS: u32 = 1_000_000;
const VALUE_BYTES: usize = 100;
const NOW: Second = Second(10);

/// A large odd step visits every key before any a second time, in an order that does not suit memory.
const STEP: u32 = 611_953;

type ItemBenchError = Box<dyn std::error::Error>;

struct ItemBench {
    worker: Worker,
    tenant: TenantId,
    key: u32,
}

impl ItemBench {
    fn new(limit: Bytes) -> Result<ItemBench, ItemBenchError> {
        let store = Store::new(StoreSettings {
            capacity: limit,
            limit,
            item_max: Bytes::mib(1),
            seed: 1,
            evicts: true,
            pages: sublet_store::PageSettings::default(),
        })?;
        let tenant = store.add_tenant(TenantSettings {
            name: "bench".parse()?,
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        })?;
        let mut bench = ItemBench {
            worker: store.worker()?,
            tenant,
            key: 0,
        };
        for _ in 0..KEYS {
            bench.set(KEYS)?;
        }
        Ok(bench)
    }

    /// The next of `keys` keys.
    fn next(&mut self, keys: u32) -> [u8; 30] {
        self.key = (self.key + STEP) % keys;
        let mut name = [b'k'; 30];
        name[..4].copy_from_slice(&self.key.to_le_bytes());
        name
    }

    fn get(&mut self) -> usize {
        let name = self.next(KEYS);
        let mut out = [0; VALUE_BYTES];
        let read = self
            .worker
            .read(self.tenant, &name, NOW, ReadKind::Use, |item| {
                let pieces = item.value().pieces();
                out[..pieces[0].len()].copy_from_slice(pieces[0]);
                pieces[0].len()
            });
        black_box(&out);
        match read {
            Lookup::Hit(bytes) => bytes,
            Lookup::Miss(_) => 0,
        }
    }

    fn set(&mut self, keys: u32) -> Result<u64, ItemRefused> {
        let name = self.next(keys);
        let new = NewItem {
            flags: 0,
            expiry: Expiry::Never,
            marks: Marks::default(),
            cas: NewCas::Fresh,
            value: &[&[b'v'; VALUE_BYTES]],
        };
        self.worker
            .update(self.tenant, &name, NOW, |entry| entry.store(&new))
    }
}

/// A copy of as many items' bytes, and nothing around it.
fn plain_copy(criterion: &mut Criterion) {
    let items = vec![[b'v'; 30 + VALUE_BYTES]; KEYS as usize];
    let mut at = 0;
    criterion.bench_function("plain copy", |bencher| {
        bencher.iter(|| {
            at = (at + STEP) % KEYS;
            black_box(items[at as usize])
        })
    });
}

fn items(criterion: &mut Criterion) {
    let made = ItemBench::new(Bytes::gib(1)).and_then(|roomy| {
        let full = ItemBench::new(Bytes::mib(64))?;
        Ok((roomy, full))
    });
    let Ok((mut roomy, mut full)) = made else {
        eprintln!("no memory for a store");
        return;
    };
    let mut group = criterion.benchmark_group("items");
    group.throughput(Throughput::Elements(1));
    group.bench_function("get that hits", |bencher| bencher.iter(|| roomy.get()));
    group.bench_function("get that hits, 32 under one pin", |bencher| {
        bencher.iter(|| batch(&mut roomy))
    });
    group.bench_function("set", |bencher| bencher.iter(|| roomy.set(KEYS)));
    group.bench_function("set that evicts", |bencher| bencher.iter(|| full.set(KEYS)));
    group.finish();
}

/// 32 gets at once. Compare with 32 times one.
fn batch(bench: &mut ItemBench) -> usize {
    let names: [[u8; 30]; 32] = std::array::from_fn(|_| bench.next(KEYS));
    bench.worker.pinned(|| {
        let hit = |name: &&[u8; 30]| {
            let read = bench
                .worker
                .read(bench.tenant, *name, NOW, ReadKind::Use, |item| {
                    black_box(item.value().len())
                });
            matches!(read, Lookup::Hit(_))
        };
        names.iter().filter(hit).count()
    })
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    plain_copy(&mut criterion);
    items(&mut criterion);
    criterion.final_summary();
}
