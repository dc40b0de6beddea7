//! `utility`: shares by weight, usefulness and sharing (Synergy §5.1).
//!
//! ```text
//! Algorithm 2   aw = allocation weight      cu = get / (get + flush)      sf = shared / size
//! Algorithm 1   w_i = UT1 × aw_i / (U × T_aw) + UT2 × cu_i / (U × T_cu) + UT3 × sf_i / (U × T_sf)
//!               entitlement_i = w_i × MaxCacheSize
//! ```
//!
//! T are the sums over all tenants. U is the sum of the tuple UT, which the three knobs are. The allocation ratio is
//! the tenant's weight, and size is its used pages. The paper "assumes non-zero values for T_aw, T_cu and T_sf". Here a
//! term whose total is zero leaves both the sum and U, so that the w still add up to 1. If no term is left, shares are
//! equal. The paper's worked example has 573 and 427 MB, from inputs truncated to two digits. The exact inputs give 574
//! and 426.
//!
//! The paper keeps its counts of gets and flushes for good. Here they fade ([`crate::decay`]), so that a tenant's past
//! does not outweigh its present for ever.

use std::collections::BTreeMap;

use sublet_types::{Second, Snapshot, TenantId, TenantSnapshot};

use crate::apportion::{WeightedClaim, apportion};
use crate::decay::kept_after;
use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;

/// The policy that divides by utility.
#[derive(Clone, Debug)]
pub(crate) struct UtilityPolicy {
    tuple: [f64; 3],
    at: Option<Second>,
    accesses: BTreeMap<TenantId, FadedCounts>,
}

/// Gets and flushes, fading.
#[derive(Clone, Copy, Debug, Default)]
struct FadedCounts {
    gets: f64,
    flushes: f64,
}

/// What Algorithm 2 computes for one tenant: aw, cu, sf.
type UtilityTerms = [f64; 3];

impl UtilityPolicy {
    /// The utility tuple: how much weights, usefulness and sharing count relative to each other.
    pub(crate) fn new(weight: f64, usefulness: f64, sharing: f64) -> UtilityPolicy {
        UtilityPolicy {
            tuple: [weight, usefulness, sharing],
            at: None,
            accesses: BTreeMap::new(),
        }
    }

    fn count(&mut self, snapshot: &Snapshot) {
        let since = self
            .at
            .map_or(0, |at| snapshot.at.0.saturating_sub(at.0).max(1));
        let kept = kept_after(since);
        let count = |tenant: &TenantSnapshot| {
            let before = self.accesses.get(&tenant.id).copied().unwrap_or_default();
            let now = FadedCounts {
                gets: before.gets * kept + tenant.gets as f64,
                flushes: before.flushes * kept + tenant.flushes as f64,
            };
            (tenant.id, now)
        };
        self.accesses = snapshot.tenants.iter().map(count).collect();
        self.at = Some(snapshot.at);
    }

    /// Algorithm 2.
    fn terms(&self, tenant: &TenantSnapshot) -> UtilityTerms {
        let FadedCounts { gets, flushes } =
            self.accesses.get(&tenant.id).copied().unwrap_or_default();
        let size = tenant.used.0 as f64;
        let shared = (tenant.shared.0 as f64).min(size);
        [
            f64::from(tenant.weight.0),
            part(gets, gets + flushes),
            part(shared, size),
        ]
    }
}

impl Policy for UtilityPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        self.count(snapshot);
        let tenants = &snapshot.tenants;
        let figures: Vec<UtilityTerms> = tenants.iter().map(|tenant| self.terms(tenant)).collect();
        let totals = totals(&figures);
        let shares: Vec<f64> = figures
            .iter()
            .map(|figures| share(self.tuple, *figures, totals, tenants.len()))
            .collect();
        let parts: Vec<WeightedClaim> = tenants
            .iter()
            .zip(&shares)
            .map(|(tenant, share)| WeightedClaim::fraction(tenant.id, *share))
            .collect();
        let entitlements = apportion(snapshot.total.0, &parts);
        let propose = |(n, pages): (usize, u64)| {
            let [weight, usefulness, sharing] = figures[n];
            let reason = Reason::Utility {
                share: shares[n],
                weight: part(weight, totals[0]),
                usefulness,
                sharing,
            };
            Proposal::of(pages, reason)
        };
        entitlements.into_iter().enumerate().map(propose).collect()
    }
}

/// T_aw, T_cu and T_sf.
fn totals(figures: &[UtilityTerms]) -> UtilityTerms {
    [0, 1, 2].map(|term| figures.iter().map(|figures| figures[term]).sum())
}

/// w of Algorithm 1.
fn share(tuple: [f64; 3], figures: UtilityTerms, totals: UtilityTerms, tenants: usize) -> f64 {
    let counts = |term: &usize| totals[*term] > 0.0;
    let sum: f64 = (0..3).filter(counts).map(|term| tuple[term]).sum();
    if sum <= 0.0 {
        return 1.0 / tenants as f64;
    }
    (0..3)
        .filter(counts)
        .map(|term| tuple[term] * figures[term] / (sum * totals[term]))
        .sum()
}

/// `of / whole`, or 0 if `whole` is 0.
fn part(of: f64, whole: f64) -> f64 {
    if whole > 0.0 { of / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pages, snapshot, tenant};
    use sublet_types::{Pages, Weight};

    fn example() -> Vec<TenantSnapshot> {
        let vm = |id, gets, flushes, shared| TenantSnapshot {
            gets,
            flushes,
            shared: Pages(shared),
            used: Pages(200),
            ..tenant(id)
        };
        vec![vm(1, 1000, 500, 100), vm(2, 800, 700, 50)]
    }

    fn decide(tuple: [f64; 3], tenants: Vec<TenantSnapshot>) -> Vec<u64> {
        let [weight, usefulness, sharing] = tuple;
        pages(&UtilityPolicy::new(weight, usefulness, sharing).decide(&snapshot(1000, tenants)))
    }

    #[test]
    fn the_worked_example_gives_574_and_426() {
        assert_eq!(decide([1.0, 1.0, 1.0], example()), [574, 426]);
    }

    #[test]
    fn from_inputs_truncated_as_in_the_paper_it_gives_573_and_427() {
        let truncated = |figure: f64, digits: f64| (figure * digits).floor() / digits;
        let two_digits = |gets: f64, all: f64| truncated(gets / all, 100.0);
        let figures = [
            [1.0, two_digits(1000.0, 1500.0), 0.5],
            [1.0, two_digits(800.0, 1500.0), 0.25],
        ];
        assert_eq!([figures[0][1], figures[1][1]], [0.66, 0.53]);
        let share = share([1.0, 1.0, 1.0], figures[0], totals(&figures), 2);
        let w1 = truncated(share, 1000.0);
        assert_eq!(w1, 0.573);
        assert_eq!(((1.0 - w1) * 1000.0).round(), 427.0);
    }

    #[test]
    fn the_tuple_1_0_0_divides_by_the_allocation_ratio_alone() {
        let mut tenants = example();
        assert_eq!(decide([1.0, 0.0, 0.0], tenants.clone()), [500, 500]);
        tenants[1].weight = Weight(3);
        assert_eq!(decide([1.0, 0.0, 0.0], tenants), [250, 750]);
    }

    #[test]
    fn a_term_whose_total_is_zero_leaves_the_sum_and_u() {
        let mut tenants = example();
        for tenant in &mut tenants {
            tenant.shared = Pages(0);
        }
        // (1/2 + (2/3) / (2/3 + 8/15)) / 2 = 0.52777…
        assert_eq!(decide([1.0, 1.0, 1.0], tenants.clone()), [528, 472]);
        assert_eq!(decide([0.0, 0.0, 1.0], tenants), [500, 500]);
    }

    #[test]
    fn a_thousand_idle_tenants_without_weight_share_equally() {
        let idle = |id| TenantSnapshot {
            weight: Weight(0),
            ..tenant(id)
        };
        assert_eq!(
            decide([1.0, 1.0, 1.0], (0..1000).map(idle).collect()),
            [1; 1000]
        );
    }

    #[test]
    fn the_past_fades() {
        let mut policy = UtilityPolicy::new(0.0, 1.0, 0.0);
        let mut snapshot = snapshot(1000, example());
        let first = pages(&policy.decide(&snapshot));
        assert_eq!(first, [556, 444]);
        for tenant in &mut snapshot.tenants {
            (tenant.gets, tenant.flushes) = (0, 0);
        }
        snapshot.at = Second(2);
        assert_eq!(pages(&policy.decide(&snapshot)), first, "a quiet second");
        snapshot.at = Second(602);
        (snapshot.tenants[0].gets, snapshot.tenants[0].flushes) = (10, 90);
        (snapshot.tenants[1].gets, snapshot.tenants[1].flushes) = (90, 10);
        let turned = pages(&policy.decide(&snapshot));
        assert!(turned[0] < 130 && turned[1] > 870, "{turned:?}");
    }
}
