//! What lives in each tenant's blocks, counted by whoever changes it: a look costs the same however large the arena is.

use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use sublet_types::TenantId;

use super::block::Lives;

/// Counters of a tenant, so that threads seldom write the same line. A power of two.
const STRIPES: usize = 8;

/// What lives of every tenant.
pub(super) struct Census {
    tenants: Box<[OnceLock<Box<Stripes>>]>,
}

type Stripes = [CachePadded<Stripe>; STRIPES];

/// One part of what lives. A part may be below zero, as it wraps: the sum is right.
#[derive(Default)]
struct Stripe {
    items: AtomicU64,
    bytes: AtomicU64,
    pages: AtomicU64,
}

/// What lives in a tenant's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Living {
    pub(crate) items: u64,
    /// Of items.
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
}

impl AddAssign for Living {
    fn add_assign(&mut self, more: Living) {
        self.items += more.items;
        self.bytes += more.bytes;
        self.pages += more.pages;
    }
}

impl Sum for Living {
    fn sum<I: Iterator<Item = Living>>(all: I) -> Living {
        all.fold(Living::default(), |mut sum, living| {
            sum += living;
            sum
        })
    }
}

impl Census {
    pub(super) fn new(tenants: usize) -> Census {
        Census {
            tenants: (0..tenants).map(|_| OnceLock::new()).collect(),
        }
    }

    fn stripe(&self, tenant: TenantId, spread: usize) -> Option<&Stripe> {
        let place = self.tenants.get(usize::from(tenant.0))?;
        Some(&place.get_or_init(Box::default)[spread % STRIPES])
    }

    /// Counts a record that lives. `spread` differs from block to block: who writes into another block counts in another stripe.
    pub(super) fn gain(&self, tenant: TenantId, lives: Lives, spread: usize) {
        if let Some(stripe) = self.stripe(tenant, spread) {
            stripe
                .items
                .fetch_add(lives.items.into(), Ordering::Relaxed);
            stripe
                .bytes
                .fetch_add(lives.bytes.into(), Ordering::Relaxed);
        }
    }

    /// Counts a record, or many, that live no longer.
    pub(super) fn lose(&self, tenant: TenantId, lives: Lives, spread: usize) {
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

    /// Counts pages that live no longer.
    pub(super) fn lose_pages(&self, tenant: TenantId, pages: u32, spread: usize) {
        if let Some(stripe) = self.stripe(tenant, spread) {
            stripe.pages.fetch_sub(pages.into(), Ordering::Relaxed);
        }
    }

    /// What lives in a tenant's blocks, now. While others change it, a little less or more.
    pub(super) fn living(&self, tenant: TenantId) -> Living {
        let Some(stripes) = self
            .tenants
            .get(usize::from(tenant.0))
            .and_then(OnceLock::get)
        else {
            return Living::default();
        };
        let sum = |count: fn(&Stripe) -> &AtomicU64| {
            let counts = stripes.iter().map(|stripe| count(stripe));
            let sum = counts.fold(0_u64, |sum, count| {
                sum.wrapping_add(count.load(Ordering::Relaxed))
            });
            // Who is between two stripes just now may have taken away what he has not added yet.
            u64::try_from(sum as i64).unwrap_or(0)
        };
        Living {
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
        let census = Census::new(4);
        let lives = Lives {
            items: 3,
            bytes: 100,
        };
        census.gain(ANN, lives, 0);
        census.lose(ANN, lives, 5);
        census.gain(ANN, lives, 9);
        census.gain_pages(ANN, 7, 2);
        census.lose_pages(ANN, 2, 3);
        let living = Living {
            items: 3,
            bytes: 100,
            pages: 5,
        };
        assert_eq!(census.living(ANN), living);
        assert_eq!(census.living(BEN), Living::default());
    }
}
