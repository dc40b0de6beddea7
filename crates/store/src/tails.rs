//! How old what a tenant would lose next is.
//!
//! All tenants' memory can be one cache: then what was put first goes first, whoever's it is. The clock is what was written to the
//! arena, in bytes, so that ages are comparable between tenants, pages and items, and nothing depends on how fast time
//! passes. Of pages the oldest that has proven itself counts: newcomers are so few, and go so soon, that they tell nothing of what their
//! tenant has. Of items, for the same reason, the age of those that just survive.

use std::sync::atomic::{AtomicU64, Ordering};

/// A tail moves towards the one seen last by one part in so many: a tenant's shards are not equally old.
const SMOOTHED_ONE_IN: u64 = 4;

/// Times begin so long before the arena's first write: what goes next may count as older than that.
pub(crate) const BEGINNING: u64 = 1 << 50;

/// Not known: nothing is there, or nothing ever went.
const UNKNOWN: u64 = 0;

/// When what a tenant would lose next was written, by the arena's clock.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    pages: AtomicU64,
    items: AtomicU64,
}

impl Tails {
    /// Hears when the page at the end of a shard's order was written.
    pub(crate) fn note_page(&self, written: u64) {
        let written = BEGINNING.saturating_add(written);
        let last = self.pages.load(Ordering::Relaxed);
        let now = match last {
            UNKNOWN => written,
            last if written >= last => last + (written - last).div_ceil(SMOOTHED_ONE_IN),
            last => last - (last - written) / SMOOTHED_ONE_IN,
        };
        self.pages.store(now, Ordering::Relaxed);
    }

    /// Hears now how old the items are that just survive, where there are any.
    pub(crate) fn note_items(&self, now: u64, age: Option<u64>) {
        let written = |age: u64| BEGINNING.saturating_add(now).saturating_sub(age).max(1);
        self.items
            .store(age.map_or(UNKNOWN, written), Ordering::Relaxed);
    }

    /// Hears that no pages are left.
    pub(crate) fn note_no_pages(&self) {
        self.pages.store(UNKNOWN, Ordering::Relaxed);
    }

    /// When the oldest of what would go was written; 0 if that is not known: nothing is there, or nothing ever went.
    pub(crate) fn oldest(&self) -> u64 {
        let load = |tail: &AtomicU64| tail.load(Ordering::Relaxed);
        match (load(&self.pages), load(&self.items)) {
            (UNKNOWN, one) | (one, UNKNOWN) => one,
            (pages, items) => pages.min(items),
        }
    }

    /// Forgets all: another tenant has its place.
    pub(crate) fn reset(&self) {
        self.note_no_pages();
        self.note_items(0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_follows_what_is_seen_and_items_stand_beside() {
        let tails = Tails::default();
        assert_eq!(tails.oldest(), UNKNOWN);
        tails.note_page(100);
        assert_eq!(tails.oldest(), BEGINNING + 100);
        (0..100).for_each(|_| tails.note_page(900));
        assert_eq!(tails.oldest(), BEGINNING + 900);
        tails.note_page(500);
        assert_eq!(tails.oldest(), BEGINNING + 800);
        tails.note_items(900, Some(400));
        assert_eq!(tails.oldest(), BEGINNING + 500);
        tails.note_items(900, None);
        assert_eq!(tails.oldest(), BEGINNING + 800);
        tails.note_items(900, Some(1000));
        assert_eq!(tails.oldest(), BEGINNING - 100, "older than the arena");
        tails.note_no_pages();
        assert_eq!(tails.oldest(), BEGINNING - 100);
        tails.reset();
        assert_eq!(tails.oldest(), UNKNOWN);
    }
}
