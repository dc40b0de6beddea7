//! Divides memory by curves that need not be concave.
//!
//! A scan has no hit until all of it fits. Plain greed looks one page ahead, and so never gives it the first page.
//! UCP's look-ahead (Qureshi and Patt, MICRO '06, Algorithm 2) asks each tenant for its step with the most hits per
//! page. A step may have any length that can still be paid for. It takes the best step of all tenants, and asks again.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use sublet_types::{Curve, Pages, TenantId};

use crate::apportion::{WeightedClaim, apportion};

/// A thinned curve has at most this many points, and one more.
const POINTS_MAX: usize = 128;

/// A curve that look-ahead can climb: pages and hits ascend from (0, 0) on, and are finite. It is flat beyond its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MonotoneCurve {
    points: Vec<(u64, f64)>,
}

impl MonotoneCurve {
    /// Keeps the points of a curve that ascend, and leaves out the others.
    pub(crate) fn of(curve: &Curve) -> MonotoneCurve {
        let mut points: Vec<(u64, f64)> = Vec::with_capacity(curve.points.len());
        let mut last = (0, 0.0);
        for (pages, hits) in &curve.points {
            if pages.0 > last.0 && *hits >= last.1 && hits.is_finite() {
                last = (pages.0, *hits);
                points.push(last);
            }
        }
        MonotoneCurve { points }
    }

    /// The amounts of memory between which the curve is straight.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> {
        self.points.iter().map(|point| point.0)
    }

    /// Hits per second with this many pages. The curve is straight between two points.
    pub(crate) fn hits(&self, pages: u64) -> f64 {
        let above = self.above(pages);
        let low = match above {
            0 => (0, 0.0),
            n => self.points[n - 1],
        };
        match self.points.get(above) {
            Some(high) => {
                let way = (pages - low.0) as f64 / (high.0 - low.0) as f64;
                low.1 + (high.1 - low.1) * way
            }
            None => low.1,
        }
    }

    /// Pages and hits, both ascending.
    pub(crate) fn points(&self) -> &[(u64, f64)] {
        &self.points
    }

    /// The memory beyond which the curve does not rise.
    pub(crate) fn end(&self) -> u64 {
        self.points.last().map_or(0, |point| point.0)
    }

    /// The memory that the points take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.points.len() * size_of::<(u64, f64)>()
    }

    /// Converts it into a plain curve.
    pub(crate) fn curve(&self) -> Curve {
        let points = self.points.iter();
        let points = points.map(|&(pages, hits)| (Pages(pages), hits));
        Curve {
            points: [(Pages(0), 0.0)].into_iter().chain(points).collect(),
        }
    }

    /// Thins the curve to at most [`POINTS_MAX`] points and one. Between two points it is off by at most twice all hits
    /// divided by [`POINTS_MAX`].
    pub(crate) fn thinned(self) -> MonotoneCurve {
        if self.points.len() <= POINTS_MAX {
            return self;
        }
        let all = self.points.last().map_or(0.0, |point| point.1);
        let rise = all * 2.0 / POINTS_MAX as f64;
        let mut points: Vec<(u64, f64)> = Vec::with_capacity(POINTS_MAX + 1);
        let mut last = (0, 0.0);
        let mut before = last;
        for point in &self.points {
            if point.1 - last.1 >= rise {
                // The foot of a cliff stays where it is.
                if before.0 > last.0 {
                    points.push(before);
                }
                points.push(*point);
                last = *point;
            }
            before = *point;
        }
        if before.0 > last.0 {
            points.push(before);
        }
        MonotoneCurve { points }
    }

    /// The step from `have` that brings most hits per page, up to `most`. The shorter of two equal steps wins.
    fn best_step(&self, have: u64, most: u64) -> Option<(u64, f64)> {
        let from = self.hits(have);
        let density = |to: u64, hits: f64| (hits - from) / (to - have) as f64;
        let within = self.points[self.above(have)..]
            .iter()
            .take_while(|point| point.0 <= most);
        let ends = within
            .map(|point| (point.0, density(point.0, point.1)))
            .chain((most > have).then(|| (most, density(most, self.hits(most)))));
        let better = |best: (u64, f64), step: (u64, f64)| if step.1 > best.1 { step } else { best };
        let (to, density) = ends.fold((have, 0.0), better);
        (to > have).then(|| (to - have, density))
    }

    /// The first point above this many pages.
    fn above(&self, pages: u64) -> usize {
        self.points.partition_point(|point| point.0 <= pages)
    }
}

/// One tenant's place in the division.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// Its claim on what no curve has a use for. It is the tenant's weight while it is active.
    pub(crate) claim: WeightedClaim,
    /// What it has in any case, in pages.
    pub(crate) start: u64,
    /// The most that it may have, in pages.
    pub(crate) most: u64,
    /// Whether its curve tells what its share would bring.
    pub(crate) is_measured: bool,
    /// Its hits by memory.
    pub(crate) hit_curve: MonotoneCurve,
}

/// A step that a tenant could make. More hits per page make it greater, and the smaller id if these are equal.
#[derive(Clone, Copy, Debug)]
struct LookaheadStep {
    density: f64,
    id: TenantId,
    contender: usize,
    pages: u64,
}

impl Ord for LookaheadStep {
    fn cmp(&self, other: &LookaheadStep) -> Ordering {
        let by_density = self.density.total_cmp(&other.density);
        by_density
            .then(other.id.cmp(&self.id))
            .then(other.contender.cmp(&self.contender))
    }
}

impl PartialOrd for LookaheadStep {
    fn partial_cmp(&self, other: &LookaheadStep) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for LookaheadStep {
    fn eq(&self, other: &LookaheadStep) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for LookaheadStep {}

/// Divides `total` pages among the tenants, in their order. If the starts alone exceed the total, they are the answer.
pub(crate) fn divide(total: u64, contenders: &[Contender]) -> Vec<u64> {
    let mut have: Vec<u64> = contenders.iter().map(|contender| contender.start).collect();
    let started: u128 = have.iter().map(|&pages| u128::from(pages)).sum();
    let Some(balance) = u64::try_from(started)
        .ok()
        .and_then(|started| total.checked_sub(started))
    else {
        return have;
    };
    let left = allocate_by_hits(balance, contenders, &mut have);
    divide_rest(left, contenders, &mut have);
    have
}

/// Runs the look-ahead. Returns what no curve has a use for.
fn allocate_by_hits(mut balance: u64, contenders: &[Contender], have: &mut [u64]) -> u64 {
    let next = |n: usize, have: u64, balance: u64| {
        let contender: &Contender = &contenders[n];
        let most = contender.most.min(have.saturating_add(balance));
        let (pages, density) = contender.hit_curve.best_step(have, most)?;
        Some(LookaheadStep {
            density,
            id: contender.claim.id,
            contender: n,
            pages,
        })
    };
    let mut steps: BinaryHeap<LookaheadStep> = (0..contenders.len())
        .filter_map(|n| next(n, have[n], balance))
        .collect();
    while let Some(step) = steps.pop() {
        if step.pages <= balance {
            have[step.contender] += step.pages;
            balance -= step.pages;
        }
        steps.extend(next(step.contender, have[step.contender], balance));
    }
    balance
}

/// Divides what is left by claim, as far as ceilings allow. It divides equally if nobody who could have more has a
/// claim.
fn divide_rest(mut left: u64, contenders: &[Contender], have: &mut [u64]) {
    while left > 0 {
        let open = contenders.iter().zip(have.iter());
        let mut open = open.filter(|(contender, have)| **have < contender.most);
        let nobody_claims = open.all(|(contender, _)| contender.claim.weight == 0);
        let claim = |(contender, have): (&Contender, &u64)| {
            let weight = if nobody_claims {
                1
            } else {
                contender.claim.weight
            };
            WeightedClaim {
                id: contender.claim.id,
                weight: if *have < contender.most { weight } else { 0 },
            }
        };
        let claims: Vec<WeightedClaim> = contenders.iter().zip(have.iter()).map(claim).collect();
        let shares = apportion(left, &claims);
        let before = left;
        for ((contender, have), share) in contenders.iter().zip(have.iter_mut()).zip(shares) {
            let given = share.min(contender.most.saturating_sub(*have));
            *have += given;
            left -= given;
        }
        if left == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(points: &[(u64, f64)]) -> Curve {
        let points = points.iter().map(|&(pages, hits)| (Pages(pages), hits));
        Curve {
            points: points.collect(),
        }
    }

    proptest! {
        #[test]
        fn a_thinned_ladder_is_short_and_off_by_little(
            steps in prop::collection::vec((1u64..50, prop_oneof![Just(0.0), 0.0..1.0f64, 0.0..90.0f64]), 0..500),
        ) {
            let mut at = (0, 0.0);
            let points: Vec<(u64, f64)> = steps.iter().map(|step| {
                at = (at.0 + step.0, at.1 + step.1);
                at
            }).collect();
            let whole = MonotoneCurve::of(&curve(&points));
            let thinned = whole.clone().thinned();
            prop_assert!(thinned.points.len() <= POINTS_MAX + 1);
            prop_assert_eq!(thinned.end(), whole.end());
            for pages in (0..=at.0 + 1).step_by(3) {
                let off = (thinned.hits(pages) - whole.hits(pages)).abs();
                prop_assert!(off <= at.1 * 2.0 / POINTS_MAX as f64 + 1e-9, "{} at {}", off, pages);
            }
        }
    }

    #[test]
    fn what_no_claimant_may_have_goes_to_who_has_no_claim() {
        let mut bounded = contender(1, &[]);
        (bounded.most, bounded.start) = (50, 20);
        let mut idle = contender(2, &[]);
        idle.claim.weight = 0;
        assert_eq!(divide(80, &[bounded, idle]), [50, 30]);
    }

    fn contender(id: u16, points: &[(u64, f64)]) -> Contender {
        Contender {
            claim: WeightedClaim {
                id: TenantId(id),
                weight: 1,
            },
            start: 0,
            most: u64::MAX,
            is_measured: true,
            hit_curve: MonotoneCurve::of(&curve(points)),
        }
    }

    #[test]
    fn a_ladder_is_straight_between_points_and_flat_at_its_end() {
        let hit_curve = MonotoneCurve::of(&curve(&[(0, 0.0), (100, 50.0), (300, 60.0)]));
        let hits: Vec<f64> = [0, 50, 100, 200, 300, 9999]
            .iter()
            .map(|&n| hit_curve.hits(n))
            .collect();
        assert_eq!(hits, [0.0, 25.0, 50.0, 55.0, 60.0, 60.0]);
        assert_eq!(MonotoneCurve::default().hits(7), 0.0);
    }

    #[test]
    fn points_that_do_not_ascend_are_left_out() {
        let wild = curve(&[
            (5, f64::NAN),
            (10, 3.0),
            (10, 4.0),
            (20, 2.0),
            (30, f64::INFINITY),
            (40, 5.0),
        ]);
        assert_eq!(MonotoneCurve::of(&wild).points, [(10, 3.0), (40, 5.0)]);
    }

    #[test]
    fn a_cliff_is_seen_from_afar() {
        let scan = [(599, 0.0), (600, 900.0)];
        let gentle = [(100, 100.0), (200, 180.0), (400, 240.0), (1000, 250.0)];
        assert_eq!(
            divide(1000, &[contender(1, &scan), contender(2, &gentle)]),
            [600, 400]
        );
    }

    #[test]
    fn a_cliff_that_cannot_be_paid_for_gets_nothing() {
        let scan = [(599, 0.0), (600, 9000.0)];
        let gentle = [(100, 100.0), (500, 150.0)];
        assert_eq!(
            divide(500, &[contender(1, &scan), contender(2, &gentle)]),
            [0, 500]
        );
    }

    #[test]
    fn the_last_pages_go_to_the_best_step_that_fits() {
        let tenants = [
            contender(1, &[(100, 1000.0)]),
            contender(2, &[(80, 400.0), (160, 500.0)]),
        ];
        // All of tenant 1's, then 50 pages on the way to tenant 2's first point.
        assert_eq!(divide(150, &tenants), [100, 50]);
    }

    #[test]
    fn what_no_curve_uses_is_divided_by_claim_up_to_ceilings() {
        let mut capped = contender(1, &[(10, 5.0)]);
        capped.most = 40;
        let mut heavy = contender(2, &[]);
        heavy.claim.weight = 3;
        let idle = Contender {
            claim: WeightedClaim {
                id: TenantId(3),
                weight: 0,
            },
            ..contender(3, &[])
        };
        assert_eq!(divide(210, &[capped, heavy, idle]), [40, 170, 0]);
    }

    #[test]
    fn starts_beyond_the_total_are_the_answer() {
        let mut first = contender(1, &[(10, 5.0)]);
        first.start = u64::MAX;
        assert_eq!(divide(100, &[first.clone(), first]), [u64::MAX; 2]);
    }

    /// The best of all divisions, found by trying each.
    fn best_hits(total: u64, hit_curves: &[&MonotoneCurve]) -> f64 {
        let Some((first, rest)) = hit_curves.split_first() else {
            return 0.0;
        };
        (0..=total)
            .map(|pages| first.hits(pages) + best_hits(total - pages, rest))
            .fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn concave_curves_are_divided_as_well_as_can_be(
            mut gains in prop::collection::vec(prop::collection::vec(0u32..100, 1..12), 3), total in 0u64..24,
        ) {
            let mut contenders = Vec::new();
            for (n, gains) in gains.iter_mut().enumerate() {
                gains.sort_by(|a, b| b.cmp(a));
                let sums = gains.iter().scan(0.0, |sum, gain| { *sum += f64::from(*gain); Some(*sum) });
                let points: Vec<(u64, f64)> = sums.enumerate().map(|(n, hits)| (n as u64 + 1, hits)).collect();
                contenders.push(contender(n as u16, &points));
            }
            let hit_curves: Vec<&MonotoneCurve> = contenders.iter().map(|contender| &contender.hit_curve).collect();
            let divided = divide(total, &contenders);
            let hits: f64 = hit_curves.iter().zip(&divided).map(|(hit_curve, pages)| hit_curve.hits(*pages)).sum();
            prop_assert!(hits >= best_hits(total, &hit_curves) - 1e-9);
        }
    }
}
