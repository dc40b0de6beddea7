//! Counts what lives in each tenant's blocks. Whoever changes it counts it, so a look costs the same however large the
//! arena is.

use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use sublet_types::TenantId;

use super::block::LiveAmount;

/// Counters per tenant, a power of two, so that threads seldom write the same line.
const STRIPES: usize = 8;

/// What lives in every tenant's blocks.
pub(super) struct LiveCounters {
    tenants: Box<[OnceLock<Box<CounterStripes>>]>,
}

type CounterStripes = [CachePadded<CounterStripe>; STRIPES];

/// One stripe of the counters. It may wrap below zero; the sum is right.
#[derive(Default)]
struct CounterStripe {
    items: AtomicU64,
    bytes: AtomicU64,
    pages: AtomicU64,
}

/// What lives in a tenant's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveTotals {
    pub(crate) items: u64,
    /// Bytes of items.
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
}

impl AddAssign for LiveTotals {
    fn add_assign(&mut self, more: LiveTotals) {
        self.items += more.items;
        self.bytes += more.bytes;
        self.pages += more.pages;
    }
}

impl Sum for LiveTotals {
    fn sum<I: Iterator<Item = LiveTotals>>(all: I) -> LiveTotals {
        all.fold(LiveTotals::default(), |mut sum, living| {
            sum += living;
            sum
        })
    }
}

impl LiveCounters {
    pub(super) fn new(tenants: usize) -> LiveCounters {
        LiveCounters {
            tenants: (0..tenants).map(|_| OnceLock::new()).collect(),
        }
    }

    fn stripe(&self, tenant: TenantId, spread: usize) -> Option<&CounterStripe> {
        let place = self.tenants.get(usize::from(tenant.0))?;
        Some(&place.get_or_init(Box::default)[spread % STRIPES])
    }

    /// Counts a record that lives. `spread` differs from block to block, so that writers into different blocks use
    /// different stripes.
    pub(super) fn gain(&self, tenant: TenantId, lives: LiveAmount, spread: usize) {
        if let Some(stripe) = self.stripe(tenant, spread) {
            stripe
                .items
                .fetch_add(lives.items.into(), Ordering::Relaxed);
            stripe
                .bytes
                .fetch_add(lives.bytes.into(), Ordering::Relaxed);
        }
    }

    /// Counts one or many records as no longer live.
    pub(super) fn lose(&self, tenant: TenantId, lives: LiveAmount, spread: usize) {
        if let Some(stripe) = self.stripe(tenant, spread) {
            stripe
                .items
                .fetch_sub(lives.items.into(), Ordering::Relaxed);
            stripe
                .bytes
                .fetch_sub(lives.bytes.into(), Ordering::Relaxed);
        }
    }

    /// Counts pages that live.
    pub(super) fn gain_pages(&self, tenant: TenantId, pages: u32, spread: usize) {
        if let Some(stripe) = self.stripe(tenant, spread) {
            stripe.pages.fetch_add(pages.into(), Ordering::Relaxed);
        }
    }

    /// Counts pages as no longer live.
    pub(super) fn lose_pages(&self, tenant: TenantId, pages: u32, spread: usize) {
        if let Some(stripe) = self.stripe(tenant, spread) {
            stripe.pages.fetch_sub(pages.into(), Ordering::Relaxed);
        }
    }

    /// What lives in a tenant's blocks now. It may be a little off while other threads change it.
    pub(super) fn live_totals(&self, tenant: TenantId) -> LiveTotals {
        let Some(stripes) = self
            .tenants
            .get(usize::from(tenant.0))
            .and_then(OnceLock::get)
        else {
            return LiveTotals::default();
        };
        let sum = |count: fn(&CounterStripe) -> &AtomicU64| {
            let counts = stripes.iter().map(|stripe| count(stripe));
            let sum = counts.fold(0_u64, |sum, count| {
                sum.wrapping_add(count.load(Ordering::Relaxed))
            });
            // A thread between two stripes may have subtracted what it has not added yet.
            u64::try_from(sum as i64).unwrap_or(0)
        };
        LiveTotals {
            items: sum(|stripe| &stripe.items),
            bytes: sum(|stripe| &stripe.bytes),
            pages: sum(|stripe| &stripe.pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: TenantId = TenantId(1);
    const BEN: TenantId = TenantId(2);

    #[test]
    fn what_lives_is_the_sum_of_what_came_and_went() {
        let census = LiveCounters::new(4);
        let lives = LiveAmount {
            items: 3,
            bytes: 100,
        };
        census.gain(ANN, lives, 0);
        census.lose(ANN, lives, 5);
        census.gain(ANN, lives, 9);
        census.gain_pages(ANN, 7, 2);
        census.lose_pages(ANN, 2, 3);
        let living = LiveTotals {
            items: 3,
            bytes: 100,
            pages: 5,
        };
        assert_eq!(census.live_totals(ANN), living);
        assert_eq!(census.live_totals(BEN), LiveTotals::default());
    }
}
