//! What the Memory Manager sees: SmarTmem's and vMCA's statistics, taken from the store and from the frontends' counts.

use std::collections::{HashMap, HashSet};

use sublet_frontends::backend::Backend;
use sublet_policy::mrc;
use sublet_policy::what_if::{History, HistoryRecord, RateMeter, TenantRates, TenantRecord};
use sublet_store::{AllFigures, SAMPLE_ONE_IN, TenantFigures};
use sublet_types::{Bytes, Pages, Second, Snapshot, TenantId, TenantSnapshot};

use super::tenant_curves::{RecentEvictions, SampledUses, TenantCurves, TenantObservation};

const _: () = assert!(SAMPLE_ONE_IN == mrc::SAMPLE_ONE_IN);

/// Takes snapshots, and remembers the last one.
#[derive(Default)]
pub(super) struct StatisticsSampler {
    tenants: HashMap<TenantId, TenantHistory>,
    notes: SampledUses,
    /// The last snapshot.
    last: Snapshot,
    history: History,
}

/// What was seen of a tenant before.
#[derive(Default)]
struct TenantHistory {
    counts: AccessCounts,
    followed: TenantCurves,
    /// Pages and items that were evicted since the start.
    evicted: u64,
    /// What the tenant does per second, recently.
    meter: Option<RateMeter>,
    rates: TenantRates,
}

/// Counts since the start, of pages and items together.
#[derive(Clone, Copy, Default)]
struct AccessCounts {
    puts: u64,
    failed: u64,
    gets: u64,
    /// Of these, the gets of pages, which the curve describes.
    page_gets: u64,
    hits: u64,
    flushes: u64,
}

impl StatisticsSampler {
    /// Takes a snapshot from the store's figures of this moment.
    pub(super) fn sample(&mut self, backend: &Backend, all: &AllFigures, now: Second) -> Snapshot {
        let (figures, tenants, shared) = (all.store, &all.tenants, all.shared_pages());
        let here = figures.limit - figures.index - figures.reserve;
        let total = here + figures.far.borrowed;
        let held: Bytes = tenants.iter().map(held).sum();
        // Another tenant may have the number of one that is gone.
        let there: HashSet<TenantId> = tenants.iter().map(|tenant| tenant.id).collect();
        self.tenants.retain(|id, _| there.contains(id));
        self.history.retain(|id| there.contains(&id));
        let snapshots = tenants.iter().map(|tenant| {
            let shared = shared.get(&tenant.id).copied().unwrap_or_default();
            TenantSnapshot {
                shared,
                ..self.tenant(backend, tenant, Pages::of(total), now)
            }
        });
        let snapshot = Snapshot {
            at: now,
            total: Pages::of(total),
            tenants: snapshots.collect(),
            free: Pages::of(total - held),
        };
        self.last = snapshot.clone();
        if self.history.is_due(now) {
            let record = self.record();
            self.history.keep(record);
        }
        snapshot
    }

    /// The last snapshot, for the history.
    fn record(&self) -> HistoryRecord {
        let party = |tenant: &TenantSnapshot| {
            let seen = self.tenants.get(&tenant.id);
            let rates = seen.map_or_else(TenantRates::default, TenantHistory::rates);
            TenantRecord::of(tenant, rates)
        };
        HistoryRecord {
            at: self.last.at,
            total: self.last.total,
            tenants: self.last.tenants.iter().map(party).collect(),
        }
    }

    /// The last hour, with the oldest record first and the last snapshot at the end.
    pub(super) fn records(&self) -> Vec<HistoryRecord> {
        self.history.with(self.record())
    }

    /// Pages and items of a tenant that were evicted since the start.
    pub(super) fn evicted(&self, id: TenantId) -> u64 {
        self.tenants.get(&id).map_or(0, |seen| seen.evicted)
    }

    /// Which of a tenant's pages and items were evicted recently.
    pub(super) fn recent_evictions(&self, id: TenantId) -> RecentEvictions {
        let seen = self.tenants.get(&id);
        seen.map_or_else(RecentEvictions::default, |seen| {
            seen.followed.recent_evictions
        })
    }

    fn tenant(
        &mut self,
        backend: &Backend,
        figures: &TenantFigures,
        total: Pages,
        now: Second,
    ) -> TenantSnapshot {
        let counts = counts(backend, figures);
        let seen = self.tenants.entry(figures.id).or_default();
        let before = std::mem::replace(&mut seen.counts, counts);
        let gets = counts.gets.saturating_sub(before.gets);
        let page_gets = counts.page_gets.saturating_sub(before.page_gets).min(gets);
        seen.evicted = figures.evictions + figures.pages.tally.evictions;
        seen.count(counts.since(before), now);
        let look = TenantObservation {
            figures,
            total,
            now,
            page_gets,
            item_gets: gets - page_gets,
        };
        TenantSnapshot {
            id: figures.id,
            weight: figures.settings.weight,
            floor: figures.settings.floor.map(Pages::of),
            // The owner's ceiling is for what the tenant has here.
            ceiling: figures
                .settings
                .ceiling
                .map(|ceiling| Pages::of(ceiling + held_at_lenders(figures))),
            held: Pages::of(held(figures)),
            used: Pages(
                figures.pages.used.0 + figures.pages.at_lenders.0 + Pages::of(figures.used).0,
            ),
            target: figures.target.map(Pages::of),
            puts: counts.puts.saturating_sub(before.puts),
            puts_succeeded: (counts.puts - counts.failed)
                .saturating_sub(before.puts - before.failed),
            puts_ever: counts.puts,
            puts_failed_ever: counts.failed,
            gets,
            hits: counts.hits.saturating_sub(before.hits),
            flushes: counts.flushes.saturating_sub(before.flushes),
            shared: Pages(0),
            curve: seen.followed.update(&backend.store, &mut self.notes, look),
        }
    }
}

impl TenantHistory {
    /// What the tenant does per second. If it has a curve, the rates are those of what the curve describes.
    fn rates(&self) -> TenantRates {
        let counted = self.rates;
        match self.followed.gets {
            Some(gets) if counted.gets > 0.0 => TenantRates {
                gets,
                hits: gets * counted.hits / counted.gets,
                ..counted
            },
            _ => counted,
        }
    }

    fn count(&mut self, more: TenantRates, now: Second) {
        let meter = self.meter.get_or_insert_with(|| RateMeter::new(now));
        self.rates = meter.count(now, more);
    }
}

impl AccessCounts {
    /// What was counted since then.
    fn since(&self, before: AccessCounts) -> TenantRates {
        let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
        TenantRates {
            gets: more(self.gets, before.gets),
            hits: more(self.hits, before.hits),
            puts: more(self.puts, before.puts),
            failed: more(self.failed, before.failed),
        }
    }
}

/// What a tenant holds here and at lenders.
fn held(figures: &TenantFigures) -> Bytes {
    figures.held + held_at_lenders(figures)
}

fn held_at_lenders(figures: &TenantFigures) -> Bytes {
    figures.pages.held_at_lenders.bytes()
}

/// A put of an item counts as failed if it was refused, or displaced another item of its tenant. Otherwise no target
/// would ever grow. What a tenant loses when it is shrunk is no want of its own.
fn counts(backend: &Backend, figures: &TenantFigures) -> AccessCounts {
    let items = backend.ledger.total(figures.id);
    let pages = &figures.pages.tally;
    let refused = items.store_no_memory.get();
    let failed = (refused + figures.displaced).min(items.cmd_set.get());
    AccessCounts {
        puts: items.cmd_set.get() + pages.puts,
        failed: failed + pages.puts - pages.puts_succeeded,
        gets: items.cmd_get.get() + pages.gets,
        page_gets: pages.gets,
        hits: items.get_hits.get() + pages.hits,
        flushes: items.delete_hits.get() + pages.flushes,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sublet_frontends::tenancy::{Clock, Ledger};
    use sublet_store::{LeaseSlot, PageKey, PageSettings, Store, StoreSettings};
    use sublet_types::{ObjectId, PageIndex, PoolFlags, TenantSettings, Weight};

    use super::*;

    /// A store of 16 MiB that has borrowed 8 MiB, and whose tenant put more pages than fit here.
    fn backend() -> Backend {
        let store = Store::new(StoreSettings {
            capacity: Bytes::mib(16),
            limit: Bytes::mib(16),
            item_max: Bytes::mib(1),
            seed: 5,
            evicts: true,
            pages: PageSettings {
                shards: 2,
                far_blocks: 4,
                ..PageSettings::default()
            },
        });
        let store = store.expect("a store");
        store.add_to_lease(LeaseSlot(0), 0, 0..4).expect("a lease");
        let settings = TenantSettings {
            name: "t".parse().expect("a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: Some(Bytes::mib(32)),
        };
        let tenant = store.add_tenant(settings).expect("a tenant");
        let pool = store
            .create_pool(tenant, PoolFlags::default(), None)
            .expect("a pool");
        let worker = store.worker().expect("a worker");
        for index in (0..5000).map(PageIndex) {
            let object = ObjectId(u64::from(index.0) % 7);
            let key = PageKey {
                pool,
                object,
                index,
            };
            let content: Vec<u8> = (0..4096).map(|n| n as u8).collect();
            worker.put_page(tenant, key, Second(1), |page| page.write(&content));
        }
        Backend {
            store,
            clock: Clock::start(),
            ledger: Arc::new(Ledger::default()),
        }
    }

    /// What lenders have lent counts as memory, and what a tenant has there as its own.
    #[test]
    fn a_snapshot_counts_what_is_at_lenders() {
        let backend = backend();
        let all = backend.store.all_figures();
        let (figures, tenant) = (all.store, &all.tenants[0]);
        let here = figures.limit - figures.index - figures.reserve;
        let at_lenders = tenant.pages.at_lenders;
        let far = tenant.pages.held_at_lenders;
        assert!(at_lenders.0 > 100 && far.bytes() == figures.far.used);
        assert_eq!(figures.far.borrowed, Bytes::mib(8));

        let snapshot = StatisticsSampler::default().sample(&backend, &all, Second(2));
        let seen = &snapshot.tenants[0];
        assert_eq!(snapshot.total.bytes(), here + Bytes::mib(8));
        assert_eq!(seen.used.0, tenant.pages.used.0 + at_lenders.0);
        assert_eq!(seen.held.bytes(), tenant.held + far.bytes());
        assert_eq!(snapshot.free.0, snapshot.total.0 - seen.held.0);
        assert_eq!(
            seen.ceiling.map(Pages::bytes),
            Some(Bytes::mib(32) + far.bytes())
        );

        backend.store.end_lease(LeaseSlot(0));
        let all = backend.store.all_figures();
        let snapshot = StatisticsSampler::default().sample(&backend, &all, Second(3));
        assert_eq!(snapshot.tenants[0].held.bytes(), all.tenants[0].held);
    }
}
