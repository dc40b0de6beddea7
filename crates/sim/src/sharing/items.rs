//! Tenants of items: each asks for a key, and stores it if it is not there.

use std::sync::Arc;

use sublet_policy::Policy;
use sublet_policy::mrc::{self, ENTRIES_MAX, ItemAccess, ItemShadow};
use sublet_store::{
    ItemUse, Lookup, MappedMemory, Marks, NewCas, NewItem, PageSettings, ReadKind, Store,
    StoreSettings, TenantFigures, Worker,
};
use sublet_types::{
    Bytes, Expiry, Pages, Second, Snapshot, TenantId, TenantSettings, TenantSnapshot, Weight,
};

use super::{MissCounts, SharingError, TenantTrace, TraceSet, policy, requests, second_of};
use crate::machine::tier_store::StoreTierError;
use crate::rng::mixed;

/// Bytes of a block. It is small, so that a small arena has many blocks.
const BLOCK: usize = 64 << 10;

/// The shortest value, and how many doublings longer the longest is.
const VALUE_MIN: usize = 50;
const DOUBLINGS: u64 = 5;

/// The approximate bytes of an item's key and head.
const HEAD: usize = 12;

/// One in this many blocks belongs to nobody: the index.
const INDEX_ONE_IN: u64 = 24;

/// The most calls of the chores per second.
const CHORES_MAX: u32 = 1000;

/// Replays a set under a policy (`mrc gain=3`). Returns each tenant's counts.
///
/// # Errors
///
/// There is no such policy, or no memory for the store.
pub fn play_items(
    set: &TraceSet,
    written: &str,
    seed: u64,
) -> Result<Vec<MissCounts>, SharingError> {
    let mut play = ItemsRun::of(set, policy(written)?, seed)?;
    let value = vec![7; longest()];
    let mut last = 0;
    for (n, request) in (0..).zip(requests(set)) {
        let now = second_of(n);
        if now.0 != last {
            last = now.0;
            play.second(now);
        }
        let (key, value) = (request.id.to_le_bytes(), &value[..len_of(request.id)]);
        play.request(request.tenant, &key, value, now);
    }
    Ok(play.tenants.iter().map(|tenant| tenant.counts).collect())
}

fn longest() -> usize {
    VALUE_MIN << DOUBLINGS
}

/// The length of a key's value. It is the same each time.
fn len_of(id: u64) -> usize {
    let drawn = mixed(id ^ 0x517e);
    let least = VALUE_MIN << (drawn % DOUBLINGS);
    least + (drawn >> 32) as usize % least
}

/// A tenant and its counts.
struct ItemTenant {
    id: TenantId,
    shadow: ItemShadow,
    counts: MissCounts,
    /// The counts at the last look.
    before: MissCounts,
}

/// A store with a policy in front of it.
struct ItemsRun {
    store: Arc<Store>,
    worker: Worker,
    policy: Box<dyn Policy>,
    tenants: Vec<ItemTenant>,
    notes: Vec<(u64, ItemUse)>,
}

impl ItemsRun {
    fn of(set: &TraceSet, policy: Box<dyn Policy>, seed: u64) -> Result<ItemsRun, SharingError> {
        let store = store(set, seed).map_err(SharingError::Store)?;
        let total = Pages::of(store.limit());
        let tenant = |n: usize| {
            let settings = TenantSettings {
                name: format!("tenant-{n}").parse().expect("a name"),
                weight: Weight::default(),
                floor: None,
                ceiling: None,
            };
            let id = store.add_tenant(settings).map_err(StoreTierError::from)?;
            // Uses count from now on.
            store.drain_item_uses(id, &mut Vec::new());
            Ok(ItemTenant {
                id,
                shadow: ItemShadow::new(Second(0), total, ENTRIES_MAX),
                counts: MissCounts::default(),
                before: MissCounts::default(),
            })
        };
        let tenants: Result<Vec<ItemTenant>, StoreTierError> =
            (0..set.streams.len()).map(tenant).collect();
        Ok(ItemsRun {
            worker: store.worker().map_err(StoreTierError::from)?,
            tenants: tenants?,
            store,
            policy,
            notes: Vec::new(),
        })
    }

    fn request(&mut self, tenant: usize, key: &[u8], value: &[u8], now: Second) {
        let tenant = &mut self.tenants[tenant];
        tenant.counts.gets += 1;
        let read = self.worker.read(tenant.id, key, now, ReadKind::Use, |_| ());
        if matches!(read, Lookup::Hit(())) {
            return;
        }
        tenant.counts.misses += 1;
        let new = NewItem {
            flags: 0,
            expiry: Expiry::Never,
            marks: Marks::default(),
            cas: NewCas::Fresh,
            value: &[value],
        };
        // It was refused for want of memory, so the next get for it will miss.
        let _ = self
            .worker
            .update(tenant.id, key, now, |entry| entry.store(&new));
    }

    /// Does the chores and lets the policy decide.
    fn second(&mut self, now: Second) {
        let has_more = |_: &u32| self.worker.upkeep(now);
        (0..CHORES_MAX).take_while(has_more).for_each(drop);
        let snapshot = self.snapshot(now);
        for target in self.policy.decide(&snapshot).targets.tenants {
            let bytes = |pages: Option<Pages>| pages.map(|pages| pages.bytes());
            self.store.set_target(target.id, bytes(target.pages));
            self.store
                .set_guard(target.id, bytes(target.guard), target.giving);
        }
    }

    fn snapshot(&mut self, now: Second) -> Snapshot {
        let figures = self.store.figures();
        let total = Pages::of(figures.limit - figures.index - figures.reserve);
        let all = self.store.tenants();
        let mut tenants = Vec::with_capacity(all.len());
        for (tenant, figures) in self.tenants.iter_mut().zip(&all) {
            self.store.drain_item_uses(tenant.id, &mut self.notes);
            tenants.push(tenant.sample(figures, &mut self.notes, total, now));
        }
        Snapshot {
            at: now,
            total,
            free: Pages::of(figures.free),
            tenants,
        }
    }
}

impl ItemTenant {
    fn sample(
        &mut self,
        figures: &TenantFigures,
        notes: &mut Vec<(u64, ItemUse)>,
        total: Pages,
        now: Second,
    ) -> TenantSnapshot {
        for (hash, what) in notes.drain(..) {
            match what {
                ItemUse::Stored(bytes) => self.shadow.feed(hash, ItemAccess::Stored(bytes)),
                ItemUse::Get => self.shadow.feed(hash, ItemAccess::Get),
                ItemUse::Removed => self.shadow.feed(hash, ItemAccess::Gone),
                ItemUse::Evicted => {}
            }
        }
        let before = std::mem::replace(&mut self.before, self.counts);
        let (gets, puts) = (
            self.counts.gets - before.gets,
            self.counts.misses - before.misses,
        );
        let curve = self.shadow.close(now, gets, total);
        let stretch = figures.held.0 as f64 / figures.used.0.max(1) as f64;
        TenantSnapshot {
            id: self.id,
            weight: figures.settings.weight,
            floor: None,
            ceiling: None,
            held: Pages::of(figures.held),
            used: Pages::of(figures.used),
            target: figures.target.map(Pages::of),
            puts,
            puts_succeeded: puts,
            puts_ever: self.counts.misses,
            puts_failed_ever: 0,
            gets,
            hits: gets - puts,
            flushes: 0,
            shared: Pages(0),
            curve: Some(mrc::stretched(&curve, stretch.clamp(1.0, 1.5))),
        }
    }
}

/// A store that has room for the set's share of all its items.
fn store(set: &TraceSet, seed: u64) -> Result<Arc<Store>, StoreTierError> {
    let bytes_of = |stream: &TenantTrace| -> u64 {
        let ids = stream.different();
        ids.iter().map(|id| (len_of(*id) + HEAD) as u64).sum()
    };
    let all: u64 = set.streams.iter().map(bytes_of).sum();
    let items = (all as f64 * set.percent / 100.0) as u64;
    let blocks = items.div_ceil(BLOCK as u64);
    let limit = Bytes((blocks + blocks / INDEX_ONE_IN + 3) * BLOCK as u64);
    let settings = StoreSettings {
        capacity: limit,
        limit,
        item_max: Bytes(BLOCK as u64 / 4),
        seed,
        evicts: true,
        pages: PageSettings::default(),
    };
    let memory = MappedMemory::reserve(limit.0 as usize, BLOCK)?;
    let store = Store::over(Box::new(memory), BLOCK, settings);
    store.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory).into())
}
