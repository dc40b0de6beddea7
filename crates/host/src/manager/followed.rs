//! What is learnt of one tenant from the sample of its pages and items that the store notes.

use sublet_policy::departures::{Departed, Departures, Stir};
use sublet_policy::mrc::{self, Access, ENTRIES_MAX, ItemAccess, Shadow, WeighedShadow};
use sublet_store::{ItemUse, SAMPLE_ONE_IN, SampledUse, Store, TenantFigures};
use sublet_types::{Bytes, Curve, Pages, Second};

/// Who was evicted of late, of each kind that the tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Leavers {
    /// Of its pages.
    pub pages: Option<Departed>,
    /// Of its items.
    pub items: Option<Departed>,
}

/// What is followed of one tenant; nothing of a kind that it never had.
#[derive(Default)]
pub(super) struct Followed {
    pages: Option<(Shadow, Departures)>,
    items: Option<(WeighedShadow, Departures)>,
    pub(super) leavers: Leavers,
    /// Gets in a second that the curve's hits are a part of; nothing while there is no curve.
    pub(super) gets: Option<f64>,
}

/// Notes on their way, kept from look to look so that no room is made for each.
#[derive(Default)]
pub(super) struct Notes {
    pages: Vec<(u64, SampledUse)>,
    items: Vec<(u64, ItemUse)>,
}

/// One look at a tenant.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) figures: &'a TenantFigures,
    /// What all tenants may hold together.
    pub(super) total: Pages,
    pub(super) now: Second,
    /// Gets since the last look.
    pub(super) page_gets: u64,
    pub(super) item_gets: u64,
}

impl Followed {
    /// Takes in what was noted since the last look. Says what hits the tenant would have with more or less memory.
    pub(super) fn look(
        &mut self,
        store: &Store,
        notes: &mut Notes,
        look: Look<'_>,
    ) -> Option<Curve> {
        let id = look.figures.id;
        notes.pages.clear();
        store.drain_samples(id, &mut notes.pages);
        notes.items.clear();
        store.drain_item_uses(id, &mut notes.items);
        let pages = self.of_pages(&notes.pages, look);
        let items = self.of_items(&notes.items, look);
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
                Some(mrc::of_both((&pages, of_pages), (&items, of_items)))
            }
            (pages, items) => pages.or(items),
        }
    }

    fn of_pages(&mut self, notes: &[(u64, SampledUse)], look: Look<'_>) -> Option<Curve> {
        if look.figures.pages.tally.puts == 0 {
            return None;
        }
        let anew = || {
            let shadow = Shadow::new(look.now, look.total, ENTRIES_MAX);
            (shadow, Departures::new(look.now))
        };
        let (shadow, departures) = self.pages.get_or_insert_with(anew);
        for (hash, what) in notes {
            departures.hear(*hash, stir(*what), look.now);
            if let Some(access) = access(*what) {
                shadow.feed(*hash, access);
            }
        }
        let here = look.figures.pages.used.0 / SAMPLE_ONE_IN;
        self.leavers.pages = Some(departures.close(look.now, here));
        Some(shadow.close(look.now, look.page_gets, look.total))
    }

    fn of_items(&mut self, notes: &[(u64, ItemUse)], look: Look<'_>) -> Option<Curve> {
        if self.items.is_none() && notes.is_empty() {
            return None;
        }
        let anew = || {
            let shadow = WeighedShadow::new(look.now, look.total, ENTRIES_MAX);
            (shadow, Departures::new(look.now))
        };
        let (shadow, departures) = self.items.get_or_insert_with(anew);
        for (hash, what) in notes {
            departures.hear(*hash, item_stir(*what), look.now);
            if let Some(access) = item_access(*what) {
                shadow.feed(*hash, access);
            }
        }
        let here = look.figures.items / SAMPLE_ONE_IN;
        self.leavers.items = Some(departures.close(look.now, here));
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

/// The most that an item's byte is told to take in blocks: where memory is short the dead go first, and of what is held then at
/// least 87 bytes in 100 are items'.
const STRETCH_MAX: f64 = 1.15;

/// What the items hold for each byte of theirs: the dead and the free in their blocks count, too.
fn held_a_byte(figures: &TenantFigures) -> f64 {
    let held = items_held(figures).bytes();
    match figures.used {
        Bytes::ZERO => 1.0,
        used => (held.0 as f64 / used.0 as f64).clamp(1.0, STRETCH_MAX),
    }
}

fn access(what: SampledUse) -> Option<Access> {
    match what {
        SampledUse::Put => Some(Access::Put),
        SampledUse::Get => Some(Access::Get),
        SampledUse::GetKeeping => Some(Access::GetKeeping),
        SampledUse::Flush => Some(Access::Flush),
        SampledUse::Evict => None,
    }
}

fn stir(what: SampledUse) -> Stir {
    match what {
        SampledUse::Put => Stir::Put,
        SampledUse::Get => Stir::Taken,
        SampledUse::GetKeeping => Stir::Asked,
        SampledUse::Flush => Stir::Gone,
        SampledUse::Evict => Stir::Evicted,
    }
}

fn item_access(what: ItemUse) -> Option<ItemAccess> {
    match what {
        ItemUse::Stored(bytes) => Some(ItemAccess::Stored(bytes)),
        ItemUse::Asked => Some(ItemAccess::Asked),
        ItemUse::Gone => Some(ItemAccess::Gone),
        ItemUse::Evicted => None,
    }
}

fn item_stir(what: ItemUse) -> Stir {
    match what {
        ItemUse::Stored(_) => Stir::Put,
        ItemUse::Asked => Stir::Asked,
        ItemUse::Gone => Stir::Gone,
        ItemUse::Evicted => Stir::Evicted,
    }
}
