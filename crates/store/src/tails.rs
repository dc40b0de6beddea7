//! The age of what a tenant would lose next.
//!
//! All tenants' memory can be one pool. Then what was put first goes first, whoever owns it. The clock is the number of
//! bytes written to the arena. So ages are comparable between tenants, pages and items, and nothing depends on how fast
//! time passes.
//!
//! Of pages, the oldest one that has proven itself counts. Newcomers are so few, and go so soon, that they say nothing
//! about what their tenant has. Of items, for the same reason, the age of those that just survive counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// A tail moves towards each new observation by this fraction, because a tenant's shards are not equally old.
const SMOOTHED_ONE_IN: u64 = 4;

/// The clock starts this far before the arena's first write, so that what goes next may count as older.
pub(crate) const BEGINNING: u64 = 1 << 50;

/// The tail is not known: the tenant has nothing, or nothing ever went.
const UNKNOWN: u64 = 0;

/// When what a tenant would lose next was written, by the arena's clock.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    pages: AtomicU64,
    items: AtomicU64,
}

impl Tails {
    /// Records when the page at the end of a shard's order was written.
    pub(crate) fn record_page(&self, written: u64) {
        let written = BEGINNING.saturating_add(written);
        let last = self.pages.load(Ordering::Relaxed);
        let now = match last {
            UNKNOWN => written,
            last if written >= last => last + (written - last).div_ceil(SMOOTHED_ONE_IN),
            last => last - (last - written) / SMOOTHED_ONE_IN,
        };
        self.pages.store(now, Ordering::Relaxed);
    }

    /// Records how old the items are that just survive, if there are any.
    pub(crate) fn record_items(&self, now: u64, age: Option<u64>) {
        let written = |age: u64| BEGINNING.saturating_add(now).saturating_sub(age).max(1);
        self.items
            .store(age.map_or(UNKNOWN, written), Ordering::Relaxed);
    }

    /// Records that no pages are left.
    pub(crate) fn clear_pages(&self) {
        self.pages.store(UNKNOWN, Ordering::Relaxed);
    }

    /// When the oldest content that would go next was written. 0 if that is not known.
    pub(crate) fn oldest(&self) -> u64 {
        let load = |tail: &AtomicU64| tail.load(Ordering::Relaxed);
        match (load(&self.pages), load(&self.items)) {
            (UNKNOWN, one) | (one, UNKNOWN) => one,
            (pages, items) => pages.min(items),
        }
    }

    /// Forgets everything, because another tenant gets the slot.
    pub(crate) fn reset(&self) {
        self.clear_pages();
        self.record_items(0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_follows_what_is_seen_and_items_stand_beside() {
        let tails = Tails::default();
        assert_eq!(tails.oldest(), UNKNOWN);
        tails.record_page(100);
        assert_eq!(tails.oldest(), BEGINNING + 100);
        (0..100).for_each(|_| tails.record_page(900));
        assert_eq!(tails.oldest(), BEGINNING + 900);
        tails.record_page(500);
        assert_eq!(tails.oldest(), BEGINNING + 800);
        tails.record_items(900, Some(400));
        assert_eq!(tails.oldest(), BEGINNING + 500);
        tails.record_items(900, None);
        assert_eq!(tails.oldest(), BEGINNING + 800);
        tails.record_items(900, Some(1000));
        assert_eq!(tails.oldest(), BEGINNING - 100, "older than the arena");
        tails.clear_pages();
        assert_eq!(tails.oldest(), BEGINNING - 100);
        tails.reset();
        assert_eq!(tails.oldest(), UNKNOWN);
    }
}
