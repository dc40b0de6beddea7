//! `pooled`: all tenants' memory is one pool, of which the oldest goes first.
//!
//! ```text
//!   whoever puts ──▶ nothing free? ──▶ the oldest of all goes, whoever's it is
//!                                        but nobody is brought below half of its weighted share
//!                                        and who gains nothing from more gives way first
//! ```
//!
//! One queue for all gives each tenant what its own reuse earns, without any curve and without moving memory by decree: who
//! puts what is asked for again soon has a young tail and grows. The store compares the tails (`store/tails`); the policy
//! says what each tenant keeps in any case. Two things no queue can see, and curves can: who asks for its own again later than the
//! pool turns over, but would be worth more memory, keeps that; and who is flat, as a scan is, or a loop that does not fit, and would
//! push everybody else out, gives way before everybody else, and for its own puts. What curves divide stays divided until they promise
//! clearly more, and in whole blocks, so that a loop that just fits does. It has no target: while memory is free it may fill it.

use std::collections::BTreeMap;

use sublet_types::{Giving, Pages, Snapshot, TenantId, TenantSnapshot};

use crate::active::Active;
use crate::apportion::Part;
use crate::clamp;
use crate::decide::Policy;
use crate::decision::Proposal;
use crate::explain::Reason;
use crate::mrc::{Ladder, Seat, divide, gain_percent, is_measured};
use crate::smart_alloc::percent_of;

/// The policy that has one order over all tenants.
#[derive(Clone, Debug)]
pub(crate) struct Pooled {
    floor_percent: f64,
    flat_percent: f64,
    kept_percent: f64,
    gain_percent: f64,
    active: Active,
    /// What the curves gave each when it last changed.
    divided: BTreeMap<TenantId, u64>,
    /// Pages of a block, as far as what tenants held tells: 0 before anybody held any.
    block: u64,
}

/// One tenant's place in the pool.
struct Place {
    /// Half of its share.
    half: Pages,
    /// What it keeps in any case: that, and what its curve earns it.
    guard: Pages,
    /// Its hits, where they are measured.
    ladder: Option<Ladder>,
}

impl Pooled {
    /// A floor of `floor_percent` of the weighted share for each tenant that put or got in the last `idle_secs` seconds;
    /// who has less than `flat_percent` of the average's hits for each page above it gives way first.
    pub(crate) fn new(
        floor_percent: f64,
        flat_percent: f64,
        kept_percent: f64,
        gain_percent: f64,
        idle_secs: u32,
    ) -> Pooled {
        Pooled {
            floor_percent,
            flat_percent,
            kept_percent,
            gain_percent,
            active: Active::within(idle_secs),
            divided: BTreeMap::new(),
            block: 0,
        }
    }

    /// What each keeps: half of its share, and of the rest what the curves promise most hits of.
    fn places(&mut self, snapshot: &Snapshot) -> Vec<Place> {
        let held = snapshot.tenants.iter().map(|tenant| tenant.held.0);
        self.block = held.fold(self.block, greatest_divisor);
        let mut places = self.half_shares(snapshot);
        self.round_up(snapshot, &mut places);
        let claims = self.active.claims(snapshot);
        let seat = |((tenant, place), claim): ((&TenantSnapshot, &Place), Part)| Seat {
            claim,
            start: place.guard.0,
            most: clamp::ceiling(tenant).0,
            is_measured: place.ladder.is_some(),
            ladder: match claim.weight {
                0 => Ladder::default(),
                _ => place.ladder.clone().unwrap_or_default(),
            },
        };
        let sitting = snapshot.tenants.iter().zip(&places).zip(claims);
        let seats: Vec<Seat> = sitting.map(seat).collect();
        let divided = self.divide(snapshot, &seats);
        for (place, pages) in places.iter_mut().zip(self.in_blocks(&divided)) {
            place.guard = place.guard.max(Pages(pages));
        }
        places
    }

    /// Has each keep its half share in whole blocks, if there is room for that: the curves divide what is left.
    fn round_up(&self, snapshot: &Snapshot, places: &mut [Place]) {
        let up = |(tenant, place): (&TenantSnapshot, &Place)| {
            let blocks = place.half.0.checked_next_multiple_of(self.block.max(1));
            Some(Pages(blocks?).min(clamp::ceiling(tenant)))
        };
        let both = snapshot.tenants.iter().zip(&*places);
        let Some(rounded) = both.map(up).collect::<Option<Vec<Pages>>>() else {
            return;
        };
        let all = rounded
            .iter()
            .map(|pages| u128::from(pages.0))
            .sum::<u128>();
        if all <= u128::from(snapshot.total.0) {
            for (place, guard) in places.iter_mut().zip(rounded) {
                place.guard = guard;
            }
        }
    }

    /// The same in whole blocks, and no more of them: those who would have most of another block get it.
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

    /// What is kept of all memory, divided by curves; as it was before, unless another division is worth it.
    fn divide(&mut self, snapshot: &Snapshot, seats: &[Seat]) -> Vec<u64> {
        let kept = percent_of(self.kept_percent, snapshot.total.0);
        let divided = divide(kept, seats);
        let ids = || snapshot.tenants.iter().map(|tenant| tenant.id);
        let before: Option<Vec<u64>> = ids().map(|id| self.divided.get(&id).copied()).collect();
        let sum = |pages: &[u64]| pages.iter().map(|&pages| u128::from(pages)).sum::<u128>();
        let fits = |(seat, pages): (&Seat, &u64)| (seat.start..=seat.most).contains(pages);
        let stays = |before: &Vec<u64>| {
            seats.iter().zip(before).all(fits)
                && sum(before) == sum(&divided)
                && gain_percent(seats, before, &divided) <= self.gain_percent
        };
        before.filter(stays).unwrap_or_else(|| {
            self.divided = ids().zip(divided.iter().copied()).collect();
            divided
        })
    }

    fn half_shares(&self, snapshot: &Snapshot) -> Vec<Place> {
        let shares = self.active.shares(snapshot);
        let place = |(tenant, share): (&TenantSnapshot, u64)| {
            let guard = Pages(percent_of(self.floor_percent, share));
            let curve = tenant.curve.as_ref();
            let curve = curve.filter(|_| is_measured(tenant, share));
            let half = guard.max(clamp::floor(tenant)).min(clamp::ceiling(tenant));
            Place {
                half,
                guard: half,
                ladder: curve.map(Ladder::of),
            }
        };
        snapshot.tenants.iter().zip(shares).map(place).collect()
    }

    /// Each active tenant's hits for a page above what it keeps, in percent of the average, where it is flat. Nobody is where all are:
    /// then nobody is better off with what another would give.
    fn flat(&self, snapshot: &Snapshot, places: &[Place]) -> Vec<Option<f64>> {
        let average = average(snapshot, places);
        let both = || snapshot.tenants.iter().zip(places);
        let flat = |(tenant, place): (&TenantSnapshot, &Place)| {
            let best = place.best_above_guard(tenant.held, snapshot.total)?;
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
            Some(hits_percent) => (Giving::First, Reason::Flat { hits_percent }),
            None if is_active => (Giving::ByAge, Reason::Pooled { guard }),
            None => {
                let secs = self.active.idle_for(tenant, snapshot.at);
                (Giving::ByAge, Reason::Idle { secs })
            }
        };
        Proposal {
            guard: Some(guard),
            giving,
            ..Proposal::unbound(reason)
        }
    }
}

impl Place {
    /// The most hits a second that a page above what it keeps brings, with what it holds or with any more or less up to `total`.
    /// `None` where nothing is measured.
    fn best_above_guard(&self, held: Pages, total: Pages) -> Option<f64> {
        let ladder = self.ladder.as_ref()?;
        let from = ladder.hits(self.guard.0);
        let density = |to: u64| (ladder.hits(to) - from) / (to - self.guard.0) as f64;
        let ends = ladder.pages().chain([held.0, total.0]);
        let above = ends.filter(|pages| (self.guard.0 + 1..=total.0).contains(pages));
        Some(above.map(density).fold(0.0, f64::max))
    }
}

impl Policy for Pooled {
    fn propose(&mut self, snapshot: &Snapshot) -> Vec<Proposal> {
        self.active.notice(snapshot);
        let places = self.places(snapshot);
        let flat = self.flat(snapshot, &places);
        let each = snapshot.tenants.iter().zip(&places).zip(flat);
        each.map(|((tenant, place), flat)| self.propose_for(tenant, place.guard, flat, snapshot))
            .collect()
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_divisor(b, a % b),
    }
}

/// Hits a second for each page that is held above half shares, of all whose hits are measured.
fn average(snapshot: &Snapshot, places: &[Place]) -> f64 {
    let above = |(tenant, place): (&TenantSnapshot, &Place)| {
        let (ladder, held, half) = (place.ladder.as_ref()?, tenant.held.0, place.half.0);
        let pages = held.checked_sub(half)?;
        Some((ladder.hits(held) - ladder.hits(half), pages as f64))
    };
    let measured = snapshot.tenants.iter().zip(places).filter_map(above);
    let sum = measured.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    match sum {
        (_, 0.0) => 0.0,
        (hits, pages) => hits / pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{any_snapshot, snapshot, tenant};
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

    fn policy() -> Pooled {
        Pooled::new(50.0, 10.0, 0.0, 2.0, 60)
    }

    /// All memory is kept by curves, and divided anew for so many more hits in percent.
    fn by_curves(gain: f64) -> Pooled {
        Pooled::new(50.0, 10.0, 100.0, gain, 60)
    }

    fn givings(decision: &crate::Decision) -> Vec<Giving> {
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
        assert_eq!(givings(&decision), [Giving::ByAge; 2]);
    }

    #[test]
    fn who_gains_nothing_from_more_gives_way_first() {
        let scan = measured(1, 500, &[(250, 5.0), (1000, 6.0)]);
        let useful = measured(2, 750, &[(500, 500.0), (1000, 900.0)]);
        let decision = policy().decide(&snapshot(1000, vec![scan, useful]));
        assert_eq!(givings(&decision), [Giving::First, Giving::ByAge]);
        assert_eq!(guards(&decision)[0], 250);
        let Reason::Flat { hits_percent } = decision.explanations[0].reason else {
            panic!("{:?}", decision.explanations[0]);
        };
        assert!(hits_percent < 1.0, "{hits_percent}");
    }

    /// A loop that fits into what it could have is worth it.
    #[test]
    fn a_cliff_that_fits_is_not_flat() {
        let cliff = measured(1, 300, &[(699, 0.0), (700, 400.0)]);
        let useful = measured(2, 500, &[(500, 500.0), (1000, 900.0)]);
        let decision = policy().decide(&snapshot(1000, vec![cliff, useful]));
        assert_eq!(givings(&decision)[0], Giving::ByAge);
    }

    /// Working sets that fit into half of each share: nobody has a use for what the others have.
    #[test]
    fn nobody_is_flat_where_all_are() {
        let fits = |id| measured(id, 400, &[(150, 100.0), (1000, 100.0)]);
        let decision = policy().decide(&snapshot(1000, vec![fits(1), fits(2)]));
        assert_eq!(givings(&decision), [Giving::ByAge; 2]);
        let more = measured(3, 200, &[(200, 100.0), (1000, 500.0)]);
        let decision = policy().decide(&snapshot(1000, vec![fits(1), fits(2), more]));
        let first = Giving::First;
        assert_eq!(givings(&decision), [first, first, Giving::ByAge]);
    }

    #[test]
    fn who_is_not_measured_yet_is_not_flat() {
        let mut new = measured(1, 300, &[]);
        new.puts_ever = 300;
        let useful = measured(2, 500, &[(500, 500.0), (1000, 900.0)]);
        for curve in [None, Some(Curve::default())] {
            new.curve = curve;
            let decision = policy().decide(&snapshot(1000, vec![new.clone(), useful.clone()]));
            assert_eq!(givings(&decision)[0], Giving::ByAge);
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

    /// A third's half is 16 of 100 pages, two blocks of ten; the curves divide the six blocks that are left.
    #[test]
    fn what_is_kept_is_in_whole_blocks_and_together_all_there_is() {
        let earns = measured(1, 30, &[(100, 500.0)]);
        let others = || [measured(2, 20, &[]), measured(3, 50, &[])];
        let scene = |first| snapshot(100, [first].into_iter().chain(others()).collect());
        assert_eq!(guards(&by_curves(0.0).decide(&scene(earns))), [60, 20, 20]);
        // Of the 39 pages that it has a use for, the last make most of a block.
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
            let decision = Pooled::new(50.0, 10.0, f64::from(kept), 2.0, 60).decide(&snapshot);
            let guards = guards(&decision).into_iter().map(u128::from);
            prop_assert!(guards.sum::<u128>() <= u128::from(snapshot.total.0));
        }

        /// Half of the weighted share of the active, by plain division; less only where promised floors leave less, or a ceiling does.
        #[test]
        fn the_active_keep_half_of_their_share_and_nobody_has_a_target(
            snapshot in any_snapshot(), kept in 0u32..=100,
        ) {
            let mut policy = Pooled::new(50.0, 10.0, f64::from(kept), 2.0, 60);
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

        /// Who gives way first leaves somebody better off.
        #[test]
        fn whoever_is_flat_has_another_beside_it(snapshot in any_snapshot()) {
            let decision = policy().decide(&snapshot);
            let is_active = |tenant: &TenantSnapshot| tenant.puts + tenant.gets + tenant.puts_ever > 0;
            let both = || snapshot.tenants.iter().zip(givings(&decision));
            if both().any(|(_, giving)| giving == Giving::First) {
                prop_assert!(both().any(|(tenant, giving)| is_active(tenant) && giving == Giving::ByAge));
            }
        }
    }
}
