//! Tenants of items: each asks for a key, and stores it if it is not there.

use std::sync::Arc;

use sublet_policy::Policy;
use sublet_policy::mrc::{self, ENTRIES_MAX, ItemAccess, WeighedShadow};
use sublet_store::{
    ItemUse, Lookup, Mapped, Marks, NewCas, NewItem, PageSettings, Reading, Store, StoreSettings,
    TenantFigures, Worker,
};
use sublet_types::{
    Bytes, Expiry, Pages, Second, Snapshot, TenantId, TenantSettings, TenantSnapshot, Weight,
};

use super::{Asked, Set, SharingError, Stream, policy, requests, second_of};
use crate::chance::mixed;
use crate::machine::tier_store::StoreTierError;

/// Bytes of a block: so that a small arena has many.
const BLOCK: usize = 64 << 10;

/// The shortest value, and how many doublings longer the longest is.
const VALUE_MIN: usize = 50;
const DOUBLINGS: u64 = 5;

/// What an item's key and head take about.
const HEAD: usize = 12;

/// Blocks that are nobody's, for each so many: the index.
const INDEX_ONE_IN: u64 = 24;

/// Calls of the chores in a second, at the most.
const CHORES_MAX: u32 = 1000;

/// Plays a set under a policy (`mrc gain=3`). What each tenant came to.
///
/// # Errors
///
/// No such policy; no memory for the store.
pub fn play_items(set: &Set, written: &str, seed: u64) -> Result<Vec<Asked>, SharingError> {
    let mut play = Play::of(set, policy(written)?, seed)?;
    let value = vec![7; longest()];
    let mut last = 0;
    for (n, request) in (0..).zip(requests(set)) {
        let now = second_of(n);
        if now.0 != last {
            last = now.0;
            play.second(now);
        }
        let (key, value) = (request.id.to_le_bytes(), &value[..len_of(request.id)]);
        play.ask(request.tenant, &key, value, now);
    }
    Ok(play.tenants.iter().map(|tenant| tenant.asked).collect())
}

fn longest() -> usize {
    VALUE_MIN << DOUBLINGS
}

/// The length of a key's value: the same each time.
fn len_of(id: u64) -> usize {
    let drawn = mixed(id ^ 0x517e);
    let least = VALUE_MIN << (drawn % DOUBLINGS);
    least + (drawn >> 32) as usize % least
}

/// A tenant and what is known of it.
struct Tenant {
    id: TenantId,
    shadow: WeighedShadow,
    asked: Asked,
    /// The same at the last look.
    before: Asked,
}

/// A store with a policy in front of it.
struct Play {
    store: Arc<Store>,
    worker: Worker,
    policy: Box<dyn Policy>,
    tenants: Vec<Tenant>,
    notes: Vec<(u64, ItemUse)>,
}

impl Play {
    fn of(set: &Set, policy: Box<dyn Policy>, seed: u64) -> Result<Play, SharingError> {
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
            // From now on.
            store.drain_item_uses(id, &mut Vec::new());
            Ok(Tenant {
                id,
                shadow: WeighedShadow::new(Second(0), total, ENTRIES_MAX),
                asked: Asked::default(),
                before: Asked::default(),
            })
        };
        let tenants: Result<Vec<Tenant>, StoreTierError> =
            (0..set.streams.len()).map(tenant).collect();
        Ok(Play {
            worker: store.worker().map_err(StoreTierError::from)?,
            tenants: tenants?,
            store,
            policy,
            notes: Vec::new(),
        })
    }

    fn ask(&mut self, tenant: usize, key: &[u8], value: &[u8], now: Second) {
        let tenant = &mut self.tenants[tenant];
        tenant.asked.gets += 1;
        let read = self.worker.read(tenant.id, key, now, Reading::Use, |_| ());
        if matches!(read, Lookup::Hit(())) {
            return;
        }
        tenant.asked.misses += 1;
        let new = NewItem {
            flags: 0,
            expiry: Expiry::Never,
            marks: Marks::default(),
            cas: NewCas::Fresh,
            value: &[value],
        };
        // Refused for want of memory: it is asked for in vain again.
        let _ = self
            .worker
            .update(tenant.id, key, now, |entry| entry.store(&new));
    }

    /// The chores are done, and the policy decides.
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
            tenants.push(tenant.look(figures, &mut self.notes, total, now));
        }
        Snapshot {
            at: now,
            total,
            free: Pages::of(figures.free),
            tenants,
        }
    }
}

impl Tenant {
    fn look(
        &mut self,
        figures: &TenantFigures,
        notes: &mut Vec<(u64, ItemUse)>,
        total: Pages,
        now: Second,
    ) -> TenantSnapshot {
        for (hash, what) in notes.drain(..) {
            match what {
                ItemUse::Stored(bytes) => self.shadow.feed(hash, ItemAccess::Stored(bytes)),
                ItemUse::Asked => self.shadow.feed(hash, ItemAccess::Asked),
                ItemUse::Gone => self.shadow.feed(hash, ItemAccess::Gone),
                ItemUse::Evicted => {}
            }
        }
        let before = std::mem::replace(&mut self.before, self.asked);
        let (gets, puts) = (
            self.asked.gets - before.gets,
            self.asked.misses - before.misses,
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
            puts_ever: self.asked.misses,
            puts_failed_ever: 0,
            gets,
            hits: gets - puts,
            flushes: 0,
            shared: Pages(0),
            curve: Some(mrc::stretched(&curve, stretch.clamp(1.0, 1.5))),
        }
    }
}

/// A store with room for the set's part of all its items.
fn store(set: &Set, seed: u64) -> Result<Arc<Store>, StoreTierError> {
    let bytes_of = |stream: &Stream| -> u64 {
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
    let memory = Mapped::reserve(limit.0 as usize, BLOCK)?;
    let store = Store::over(Box::new(memory), BLOCK, settings);
    store.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory).into())
}
