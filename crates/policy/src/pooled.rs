//! `pooled`: all tenants' memory is one pool, and the oldest page of it goes first.
//!
//! ```text
//!   a tenant puts ──▶ nothing free? ──▶ the oldest page of all tenants goes
//!                                         but no tenant falls below half of its weighted share
//!                                         and a tenant that gains nothing from more gives way first
//! ```
//!
//! One queue for all gives each tenant what its own reuse earns, without any curve and without moving memory by decree.
//! A tenant whose pages are asked for again soon has a young tail, and grows. The store compares the tails
//! (`store/tails`), and the policy says what each tenant keeps in any case.
//!
//! Curves see two things that no queue can see:
//!
//! - A tenant that asks for its pages later than the pool turns over, but would be worth more memory, keeps that
//!   memory.
//! - A tenant may be flat, as a scan is, or a loop that does not fit. It would push everybody else out. So it gives way
//!   before everybody else, and for its own puts.
//!
//! What curves divide stays divided until they promise clearly more. It is divided in whole blocks, so that a loop that
//! just fits stays. No tenant has a target: while memory is free, each may fill it.

use std::collections::BTreeMap;

use sublet_types::{GiveWayOrder, Pages, Snapshot, TenantId, TenantSnapshot};

use crate::active::ActivityTracker;
use crate::apportion::WeightedClaim;
use crate::clamp;
use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;
use crate::mrc::{Contender, MonotoneCurve, divide, gain_percent, is_measured};
use crate::smart_alloc::percent_of;

/// The policy that has one eviction order over all tenants.
#[derive(Clone, Debug)]
pub(crate) struct PooledPolicy {
    floor_percent: f64,
    flat_percent: f64,
    kept_percent: f64,
    gain_percent: f64,
    active: ActivityTracker,
    /// What the curves gave each tenant when the division last changed.
    divided: BTreeMap<TenantId, u64>,
    /// Pages of a block, as far as what tenants held tells. It is 0 until somebody held any.
    block: u64,
}

/// One tenant's place in the pool.
struct PoolShare {
    /// Half of its share.
    half: Pages,
    /// What it keeps in any case: that half, and what its curve earns it.
    guard: Pages,
    /// Its hits, if they are measured.
    hit_curve: Option<MonotoneCurve>,
}

impl PooledPolicy {
    /// Makes the policy. Each tenant that put or got in the last `idle_secs` seconds keeps `floor_percent` of its
    /// weighted share. A tenant gives way first if it has less than `flat_percent` of the average's hits per page above
    /// that.
    pub(crate) fn new(
        floor_percent: f64,
        flat_percent: f64,
        kept_percent: f64,
        gain_percent: f64,
        idle_secs: u32,
    ) -> PooledPolicy {
        PooledPolicy {
            floor_percent,
            flat_percent,
            kept_percent,
            gain_percent,
            active: ActivityTracker::within(idle_secs),
            divided: BTreeMap::new(),
            block: 0,
        }
    }

    /// What each tenant keeps: half of its share, and the part of the rest for which its curve promises most hits.
    fn pool_shares(&mut self, snapshot: &Snapshot) -> Vec<PoolShare> {
        let held = snapshot.tenants.iter().map(|tenant| tenant.held.0);
        self.block = held.fold(self.block, greatest_divisor);
        let mut pool_shares = self.half_shares(snapshot);
        self.round_up(snapshot, &mut pool_shares);
        let claims = self.active.claims(snapshot);
        let contender =
            |((tenant, pool_share), claim): ((&TenantSnapshot, &PoolShare), WeightedClaim)| {
                Contender {
                    claim,
                    start: pool_share.guard.0,
                    most: clamp::ceiling(tenant).0,
                    is_measured: pool_share.hit_curve.is_some(),
                    hit_curve: match claim.weight {
                        0 => MonotoneCurve::default(),
                        _ => pool_share.hit_curve.clone().unwrap_or_default(),
                    },
                }
            };
        let sitting = snapshot.tenants.iter().zip(&pool_shares).zip(claims);
        let contenders: Vec<Contender> = sitting.map(contender).collect();
        let divided = self.divide(snapshot, &contenders);
        for (pool_share, pages) in pool_shares.iter_mut().zip(self.in_blocks(&divided)) {
            pool_share.guard = pool_share.guard.max(Pages(pages));
        }
        pool_shares
    }

    /// Rounds each tenant's half share up to whole blocks if there is room for that. The curves divide what is left.
    fn round_up(&self, snapshot: &Snapshot, pool_shares: &mut [PoolShare]) {
        let up = |(tenant, pool_share): (&TenantSnapshot, &PoolShare)| {
            let blocks = pool_share
                .half
                .0
                .checked_next_multiple_of(self.block.max(1));
            Some(Pages(blocks?).min(clamp::ceiling(tenant)))
        };
        let both = snapshot.tenants.iter().zip(&*pool_shares);
        let Some(rounded) = both.map(up).collect::<Option<Vec<Pages>>>() else {
            return;
        };
        let all = rounded
            .iter()
            .map(|pages| u128::from(pages.0))
            .sum::<u128>();
        if all <= u128::from(snapshot.total.0) {
            for (pool_share, guard) in pool_shares.iter_mut().zip(rounded) {
                pool_share.guard = guard;
            }
        }
    }

    /// The division in whole blocks, without more of them. The tenants that would have most of another block get it.
    fn in_blocks(&self, divided: &[u64]) -> Vec<u64> {
        let block = self.block.max(1);
        let part = |n: &usize| divided[*n] % block;
        let all = divided.iter().map(|pages| u128::from(*pages)).sum::<u128>();
        let mut pages: Vec<u64> = divided.iter().map(|pages| pages - pages % block).collect();
        let whole = pages.iter().map(|pages| u128::from(*pages)).sum::<u128>();
        let left = ((all - whole) / u128::from(block)) as usize;
        let mut most: Vec<usize> = (0..pages.len()).collect();
        most.sort_by_key(|n| std::cmp::Reverse(part(n)));
        for n in most.into_iter().take(left) {
            pages[n] += block;
        }
        pages
    }

    /// Divides what is kept of all memory by curves. The last division stays unless another one is worth it.
    fn divide(&mut self, snapshot: &Snapshot, contenders: &[Contender]) -> Vec<u64> {
        let kept = percent_of(self.kept_percent, snapshot.total.0);
        let divided = divide(kept, contenders);
        let ids = || snapshot.tenants.iter().map(|tenant| tenant.id);
        let before: Option<Vec<u64>> = ids().map(|id| self.divided.get(&id).copied()).collect();
        let sum = |pages: &[u64]| pages.iter().map(|&pages| u128::from(pages)).sum::<u128>();
        let fits = |(contender, pages): (&Contender, &u64)| {
            (contender.start..=contender.most).contains(pages)
        };
        let stays = |before: &Vec<u64>| {
            contenders.iter().zip(before).all(fits)
                && sum(before) == sum(&divided)
                && gain_percent(contenders, before, &divided) <= self.gain_percent
        };
        before.filter(stays).unwrap_or_else(|| {
            self.divided = ids().zip(divided.iter().copied()).collect();
            divided
        })
    }

    fn half_shares(&self, snapshot: &Snapshot) -> Vec<PoolShare> {
        let shares = self.active.shares(snapshot);
        let pool_share = |(tenant, share): (&TenantSnapshot, u64)| {
            let guard = Pages(percent_of(self.floor_percent, share));
            let curve = tenant.curve.as_ref();
            let curve = curve.filter(|_| is_measured(tenant, share));
            let half = guard.max(clamp::floor(tenant)).min(clamp::ceiling(tenant));
            PoolShare {
                half,
                guard: half,
                hit_curve: curve.map(MonotoneCurve::of),
            }
        };
        snapshot
            .tenants
            .iter()
            .zip(shares)
            .map(pool_share)
            .collect()
    }

    /// Each flat active tenant's hits for a page above what it keeps, in percent of the average. If all are flat, none
    /// counts as flat: nobody would be better off with what another gives.
    fn flat(&self, snapshot: &Snapshot, pool_shares: &[PoolShare]) -> Vec<Option<f64>> {
        let average = average(snapshot, pool_shares);
        let both = || snapshot.tenants.iter().zip(pool_shares);
        let flat = |(tenant, pool_share): (&TenantSnapshot, &PoolShare)| {
            let best = pool_share.best_above_guard(tenant.held, snapshot.total)?;
            let percent = best * 100.0 / average;
            let is_flat = average > 0.0 && percent < self.flat_percent;
            (is_flat && self.active.is_active(tenant, snapshot.at)).then_some(percent)
        };
        let flat: Vec<Option<f64>> = both().map(flat).collect();
        let mut others = snapshot.tenants.iter().zip(&flat);
        let is_another = |(tenant, flat): (&TenantSnapshot, &Option<f64>)| {
            flat.is_none() && self.active.is_active(tenant, snapshot.at)
        };
        match others.any(is_another) {
            true => flat,
            false => vec![None; flat.len()],
        }
    }

    fn propose_for(
        &self,
        tenant: &TenantSnapshot,
        guard: Pages,
        flat: Option<f64>,
        snapshot: &Snapshot,
    ) -> Proposal {
        let is_active = self.active.is_active(tenant, snapshot.at);
        let (giving, reason) = match flat {
            Some(hits_percent) => (GiveWayOrder::First, Reason::Flat { hits_percent }),
            None if is_active => (GiveWayOrder::ByAge, Reason::Pooled { guard }),
            None => {
                let secs = self.active.idle_for(tenant, snapshot.at);
                (GiveWayOrder::ByAge, Reason::Idle { secs })
            }
        };
        Proposal {
            guard: Some(guard),
            giving,
            ..Proposal::unbound(reason)
        }
    }
}

impl PoolShare {
    /// The most hits per second that a page above its guard brings, with what it holds or with any other amount up to
    /// `total`. `None` if nothing is measured.
    fn best_above_guard(&self, held: Pages, total: Pages) -> Option<f64> {
        let hit_curve = self.hit_curve.as_ref()?;
        let from = hit_curve.hits(self.guard.0);
        let density = |to: u64| (hit_curve.hits(to) - from) / (to - self.guard.0) as f64;
        let ends = hit_curve.pages().chain([held.0, total.0]);
        let above = ends.filter(|pages| (self.guard.0 + 1..=total.0).contains(pages));
        Some(above.map(density).fold(0.0, f64::max))
    }
}

impl Policy for PooledPolicy {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        self.active.notice(snapshot);
        let pool_shares = self.pool_shares(snapshot);
        let flat = self.flat(snapshot, &pool_shares);
        let each = snapshot.tenants.iter().zip(&pool_shares).zip(flat);
        each.map(|((tenant, pool_share), flat)| {
            self.propose_for(tenant, pool_share.guard, flat, snapshot)
        })
        .collect()
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_divisor(b, a % b),
    }
}

/// Hits per second per page held above half shares, over all tenants whose hits are measured.
fn average(snapshot: &Snapshot, pool_shares: &[PoolShare]) -> f64 {
    let above = |(tenant, pool_share): (&TenantSnapshot, &PoolShare)| {
        let (hit_curve, held, half) = (
            pool_share.hit_curve.as_ref()?,
            tenant.held.0,
            pool_share.half.0,
        );
        let pages = held.checked_sub(half)?;
        Some((hit_curve.hits(held) - hit_curve.hits(half), pages as f64))
    };
    let measured = snapshot.tenants.iter().zip(pool_shares).filter_map(above);
    let sum = measured.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    match sum {
        (_, 0.0) => 0.0,
        (hits, pages) => hits / pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{any_snapshot, snapshot, tenant};
    use proptest::prelude::*;
    use sublet_types::{Curve, Second, Weight};

    fn measured(id: u16, held: u64, points: &[(u64, f64)]) -> TenantSnapshot {
        let points = points.iter().map(|&(pages, hits)| (Pages(pages), hits));
        TenantSnapshot {
            puts: 10,
            puts_ever: 1 << 40,
            gets: 10,
            held: Pages(held),
            curve: Some(Curve {
                points: points.collect(),
            }),
            ..tenant(id)
        }
    }

    fn policy() -> PooledPolicy {
        PooledPolicy::new(50.0, 10.0, 0.0, 2.0, 60)
    }

    /// A policy that keeps all memory by curves, and divides it anew for `gain` percent more hits.
    fn by_curves(gain: f64) -> PooledPolicy {
        PooledPolicy::new(50.0, 10.0, 100.0, gain, 60)
    }

    fn givings(decision: &crate::Decision) -> Vec<GiveWayOrder> {
        let targets = &decision.targets.tenants;
        targets.iter().map(|target| target.giving).collect()
    }

    fn guards(decision: &crate::Decision) -> Vec<u64> {
        let guard = |target: &sublet_types::Target| target.guard.expect("all is one pool").0;
        decision.targets.tenants.iter().map(guard).collect()
    }

    #[test]
    fn half_of_each_weighted_share_is_kept_and_nobody_has_a_target() {
        let mut heavy = measured(1, 125, &[(1000, 90.0)]);
        heavy.weight = Weight(3);
        let light = measured(2, 125, &[(1000, 90.0)]);
        let decision = policy().decide(&snapshot(1000, vec![heavy, light]));
        assert_eq!(guards(&decision), [375, 125]);
        assert_eq!(givings(&decision), [GiveWayOrder::ByAge; 2]);
    }

    #[test]
    fn who_gains_nothing_from_more_gives_way_first() {
        let scan = measured(1, 500, &[(250, 5.0), (1000, 6.0)]);
        let useful = measured(2, 750, &[(500, 500.0), (1000, 900.0)]);
        let decision = policy().decide(&snapshot(1000, vec![scan, useful]));
        assert_eq!(
            givings(&decision),
            [GiveWayOrder::First, GiveWayOrder::ByAge]
        );
        assert_eq!(guards(&decision)[0], 250);
        let Reason::Flat { hits_percent } = decision.explanations[0].reason else {
            panic!("{:?}", decision.explanations[0]);
        };
        assert!(hits_percent < 1.0, "{hits_percent}");
    }

    /// A loop that fits into what it could have is worth that memory.
    #[test]
    fn a_cliff_that_fits_is_not_flat() {
        let cliff = measured(1, 300, &[(699, 0.0), (700, 400.0)]);
        let useful = measured(2, 500, &[(500, 500.0), (1000, 900.0)]);
        let decision = policy().decide(&snapshot(1000, vec![cliff, useful]));
        assert_eq!(givings(&decision)[0], GiveWayOrder::ByAge);
    }

    /// The working sets fit into half of each share, so nobody has a use for what the others have.
    #[test]
    fn nobody_is_flat_where_all_are() {
        let fits = |id| measured(id, 400, &[(150, 100.0), (1000, 100.0)]);
        let decision = policy().decide(&snapshot(1000, vec![fits(1), fits(2)]));
        assert_eq!(givings(&decision), [GiveWayOrder::ByAge; 2]);
        let more = measured(3, 200, &[(200, 100.0), (1000, 500.0)]);
        let decision = policy().decide(&snapshot(1000, vec![fits(1), fits(2), more]));
        let first = GiveWayOrder::First;
        assert_eq!(givings(&decision), [first, first, GiveWayOrder::ByAge]);
    }

    #[test]
    fn who_is_not_measured_yet_is_not_flat() {
        let mut new = measured(1, 300, &[]);
        new.puts_ever = 300;
        let useful = measured(2, 500, &[(500, 500.0), (1000, 900.0)]);
        for curve in [None, Some(Curve::default())] {
            new.curve = curve;
            let decision = policy().decide(&snapshot(1000, vec![new.clone(), useful.clone()]));
            assert_eq!(givings(&decision)[0], GiveWayOrder::ByAge);
        }
    }

    #[test]
    fn who_is_idle_keeps_nothing() {
        let (mut policy, useful) = (by_curves(0.0), [(900, 500.0)]);
        let mut scene = snapshot(1000, vec![measured(1, 10, &useful), measured(2, 10, &[])]);
        assert_eq!(guards(&policy.decide(&scene)), [750, 250]);
        (scene.tenants[0].puts, scene.tenants[0].gets) = (0, 0);
        scene.at = Second(62);
        let decision = policy.decide(&scene);
        assert_eq!(guards(&decision), [0, 1000]);
        assert_eq!(
            decision.explanations[0].reason,
            Reason::Idle { secs: Some(61) }
        );
    }

    /// Half of a third is 16 of 100 pages, two blocks of ten. The curves divide the six blocks that are left.
    #[test]
    fn what_is_kept_is_in_whole_blocks_and_together_all_there_is() {
        let earns = measured(1, 30, &[(100, 500.0)]);
        let others = || [measured(2, 20, &[]), measured(3, 50, &[])];
        let scene = |first| snapshot(100, [first].into_iter().chain(others()).collect());
        assert_eq!(guards(&by_curves(0.0).decide(&scene(earns))), [60, 20, 20]);
        // It has a use for 39 pages, the last of which make most of a block.
        let earns = measured(1, 30, &[(39, 500.0)]);
        let little = measured(2, 20, &[(31, 10.0)]);
        let decision =
            by_curves(0.0).decide(&snapshot(90, vec![earns, little, others()[1].clone()]));
        assert_eq!(guards(&decision), [40, 30, 20]);
    }

    #[test]
    fn what_is_kept_stays_unless_another_division_is_worth_it() {
        let scene = |first: f64, second: f64| {
            let first = measured(1, 10, &[(70, first)]);
            snapshot(100, vec![first, measured(2, 10, &[(70, second)])])
        };
        let mut policy = by_curves(10.0);
        let mut kept = |first, second| guards(&policy.decide(&scene(first, second)));
        assert_eq!(kept(100.0, 90.0), [70, 30]);
        assert_eq!(kept(90.0, 100.0), [70, 30], "five in a hundred more");
        assert_eq!(kept(70.0, 100.0), [30, 70]);
        assert_eq!(kept(75.0, 70.0), [30, 70]);
        assert_eq!(guards(&by_curves(0.0).decide(&scene(75.0, 70.0))), [70, 30]);
    }

    proptest! {
        #[test]
        fn what_all_keep_is_never_more_than_there_is(
            snapshot in any_snapshot(), kept in 0u32..=100,
        ) {
            let decision = PooledPolicy::new(50.0, 10.0, f64::from(kept), 2.0, 60).decide(&snapshot);
            let guards = guards(&decision).into_iter().map(u128::from);
            prop_assert!(guards.sum::<u128>() <= u128::from(snapshot.total.0));
        }

        /// The active tenants keep half of their share by plain division. Less is kept only if promised floors leave
        /// less, or if a ceiling is lower.
        #[test]
        fn the_active_keep_half_of_their_share_and_nobody_has_a_target(
            snapshot in any_snapshot(), kept in 0u32..=100,
        ) {
            let mut policy = PooledPolicy::new(50.0, 10.0, f64::from(kept), 2.0, 60);
            let decision = policy.decide(&snapshot);
            let targets = &decision.targets.tenants;
            prop_assert!(targets.iter().all(|target| target.pages.is_none()));
            let promised = snapshot.tenants.iter().any(|tenant| tenant.floor.is_some());
            let is_active = |tenant: &&TenantSnapshot| tenant.puts + tenant.gets + tenant.puts_ever > 0;
            let weights = snapshot.tenants.iter().filter(is_active).map(|tenant| f64::from(tenant.weight.0));
            let weights: f64 = weights.sum();
            let both = snapshot.tenants.iter().zip(guards(&decision));
            for (tenant, guard) in both.filter(|(tenant, _)| is_active(tenant) && !promised) {
                let share = snapshot.total.0 as f64 * f64::from(tenant.weight.0) / weights.max(1.0);
                let half = (share / 2.0).min(clamp::ceiling(tenant).0 as f64);
                prop_assert!(guard as f64 >= (half - 1.0) * (1.0 - 1e-9), "{guard} of {half}");
            }
        }

        /// If a tenant gives way first, another one is better off.
        #[test]
        fn whoever_is_flat_has_another_beside_it(snapshot in any_snapshot()) {
            let decision = policy().decide(&snapshot);
            let is_active = |tenant: &TenantSnapshot| tenant.puts + tenant.gets + tenant.puts_ever > 0;
            let both = || snapshot.tenants.iter().zip(givings(&decision));
            if both().any(|(_, giving)| giving == GiveWayOrder::First) {
                prop_assert!(both().any(|(tenant, giving)| is_active(tenant) && giving == GiveWayOrder::ByAge));
            }
        }
    }
}
