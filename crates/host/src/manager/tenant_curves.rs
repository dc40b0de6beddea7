//! What the daemon learns of one tenant from the sample of its pages and items that the store notes.

use sublet_policy::eviction_tracker::{EvictionStats, EvictionTracker, ResidentEvent};
use sublet_policy::mrc::{self, ENTRIES_MAX, ItemAccess, ItemShadow, PageAccess, Shadow};
use sublet_store::{ItemUse, SAMPLE_ONE_IN, SampledUse, Store, TenantFigures};
use sublet_types::{Bytes, Curve, Pages, Second};

/// Statistics of recent evictions, of each kind that the tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecentEvictions {
    /// Those of its pages.
    pub pages: Option<EvictionStats>,
    /// Those of its items.
    pub items: Option<EvictionStats>,
}

/// What is followed of one tenant. A kind that the tenant never had is `None`.
#[derive(Default)]
pub(super) struct TenantCurves {
    pages: Option<(Shadow, EvictionTracker)>,
    items: Option<(ItemShadow, EvictionTracker)>,
    pub(super) recent_evictions: RecentEvictions,
    /// Gets per second that the curve's hits are a part of. `None` while there is no curve.
    pub(super) gets: Option<f64>,
}

/// Notes on their way. The buffer is kept, so that none is allocated for each look.
#[derive(Default)]
pub(super) struct SampledUses {
    pages: Vec<(u64, SampledUse)>,
    items: Vec<(u64, ItemUse)>,
}

/// One look at a tenant.
#[derive(Clone, Copy)]
pub(super) struct TenantObservation<'a> {
    pub(super) figures: &'a TenantFigures,
    /// What all tenants together may hold.
    pub(super) total: Pages,
    pub(super) now: Second,
    /// Gets since the last look.
    pub(super) page_gets: u64,
    pub(super) item_gets: u64,
}

impl TenantCurves {
    /// Takes in what was noted since the last look. Returns which hits the tenant would have with more or less memory.
    pub(super) fn update(
        &mut self,
        store: &Store,
        notes: &mut SampledUses,
        look: TenantObservation<'_>,
    ) -> Option<Curve> {
        let id = look.figures.id;
        notes.pages.clear();
        store.drain_samples(id, &mut notes.pages);
        notes.items.clear();
        store.drain_item_uses(id, &mut notes.items);
        let pages = self.update_pages(&notes.pages, look);
        let items = self.update_items(&notes.items, look);
        let of_pages = self
            .pages
            .as_ref()
            .map(|(shadow, _)| shadow.gets_a_second());
        let of_items = self
            .items
            .as_ref()
            .map(|(shadow, _)| shadow.gets_a_second());
        let is_measured = of_pages.is_some() || of_items.is_some();
        self.gets = is_measured.then(|| of_pages.unwrap_or(0.0) + of_items.unwrap_or(0.0));
        match (pages, items) {
            (Some(pages), Some(items)) => {
                let (of_pages, of_items) = (pages_held(look.figures), items_held(look.figures));
                Some(mrc::combined((&pages, of_pages), (&items, of_items)))
            }
            (pages, items) => pages.or(items),
        }
    }

    fn update_pages(
        &mut self,
        notes: &[(u64, SampledUse)],
        look: TenantObservation<'_>,
    ) -> Option<Curve> {
        if look.figures.pages.tally.puts == 0 {
            return None;
        }
        let anew = || {
            let shadow = Shadow::new(look.now, look.total, ENTRIES_MAX);
            (shadow, EvictionTracker::new(look.now))
        };
        let (shadow, departures) = self.pages.get_or_insert_with(anew);
        for (hash, what) in notes {
            departures.record(*hash, stir(*what), look.now);
            if let Some(access) = access(*what) {
                shadow.feed(*hash, access);
            }
        }
        let here = look.figures.pages.used.0 / SAMPLE_ONE_IN;
        self.recent_evictions.pages = Some(departures.close(look.now, here));
        Some(shadow.close(look.now, look.page_gets, look.total))
    }

    fn update_items(
        &mut self,
        notes: &[(u64, ItemUse)],
        look: TenantObservation<'_>,
    ) -> Option<Curve> {
        if self.items.is_none() && notes.is_empty() {
            return None;
        }
        let anew = || {
            let shadow = ItemShadow::new(look.now, look.total, ENTRIES_MAX);
            (shadow, EvictionTracker::new(look.now))
        };
        let (shadow, departures) = self.items.get_or_insert_with(anew);
        for (hash, what) in notes {
            departures.record(*hash, item_stir(*what), look.now);
            if let Some(access) = item_access(*what) {
                shadow.feed(*hash, access);
            }
        }
        let here = look.figures.items / SAMPLE_ONE_IN;
        self.recent_evictions.items = Some(departures.close(look.now, here));
        let curve = shadow.close(look.now, look.item_gets, look.total);
        Some(mrc::stretched(&curve, held_a_byte(look.figures)))
    }
}

fn pages_held(figures: &TenantFigures) -> Pages {
    Pages(figures.pages.held_ephemeral.0 + figures.pages.held_persistent.0)
}

/// What a tenant's items hold: its blocks that are not of pages.
fn items_held(figures: &TenantFigures) -> Pages {
    let held = Pages::of(figures.held);
    Pages(held.0.saturating_sub(pages_held(figures).0))
}

/// The most that a byte of an item is reported to take in blocks. If memory is short, the dead go first, and then items
/// have at least 87 of 100 bytes that are held.
const STRETCH_MAX: f64 = 1.15;

/// What the items hold per byte of theirs. The dead and the free bytes in their blocks count, too.
fn held_a_byte(figures: &TenantFigures) -> f64 {
    let held = items_held(figures).bytes();
    match figures.used {
        Bytes::ZERO => 1.0,
        used => (held.0 as f64 / used.0 as f64).clamp(1.0, STRETCH_MAX),
    }
}

fn access(what: SampledUse) -> Option<PageAccess> {
    match what {
        SampledUse::Put => Some(PageAccess::Put),
        SampledUse::Get => Some(PageAccess::Get),
        SampledUse::GetKeeping => Some(PageAccess::GetKeeping),
        SampledUse::Flush => Some(PageAccess::Flush),
        SampledUse::Evict => None,
    }
}

fn stir(what: SampledUse) -> ResidentEvent {
    match what {
        SampledUse::Put => ResidentEvent::Put,
        SampledUse::Get => ResidentEvent::GotAndRemoved,
        SampledUse::GetKeeping => ResidentEvent::Got,
        SampledUse::Flush => ResidentEvent::Dropped,
        SampledUse::Evict => ResidentEvent::Evicted,
    }
}

fn item_access(what: ItemUse) -> Option<ItemAccess> {
    match what {
        ItemUse::Stored(bytes) => Some(ItemAccess::Stored(bytes)),
        ItemUse::Get => Some(ItemAccess::Get),
        ItemUse::Removed => Some(ItemAccess::Gone),
        ItemUse::Evicted => None,
    }
}

fn item_stir(what: ItemUse) -> ResidentEvent {
    match what {
        ItemUse::Stored(_) => ResidentEvent::Put,
        ItemUse::Get => ResidentEvent::Got,
        ItemUse::Removed => ResidentEvent::Dropped,
        ItemUse::Evicted => ResidentEvent::Evicted,
    }
}
