//! Dividing memory by curves that need not be concave.
//!
//! A scan has no hit until all of it fits: plain greed, which looks one page ahead, never gives it the first. UCP's
//! look-ahead (Qureshi and Patt, MICRO '06, Algorithm 2) asks each tenant for the step, of any length that can still
//! be paid for, with the most hits a page, takes the best of all, and asks again.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use sublet_types::{Curve, Pages, TenantId};

use crate::apportion::{Part, apportion};

/// Rungs that a thinned ladder has at the most, but for one.
const RUNGS_MAX: usize = 128;

/// A curve made fit to climb: pages and hits ascend, from (0, 0) on, and are finite. Flat beyond its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ladder {
    rungs: Vec<(u64, f64)>,
}

impl Ladder {
    /// What of a curve ascends; points that do not are left out.
    pub(crate) fn of(curve: &Curve) -> Ladder {
        let mut rungs: Vec<(u64, f64)> = Vec::with_capacity(curve.points.len());
        let mut last = (0, 0.0);
        for (pages, hits) in &curve.points {
            if pages.0 > last.0 && *hits >= last.1 && hits.is_finite() {
                last = (pages.0, *hits);
                rungs.push(last);
            }
        }
        Ladder { rungs }
    }

    /// The amounts between which it is straight.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> {
        self.rungs.iter().map(|rung| rung.0)
    }

    /// Hits a second with so many pages; straight between two points.
    pub(crate) fn hits(&self, pages: u64) -> f64 {
        let above = self.above(pages);
        let low = match above {
            0 => (0, 0.0),
            n => self.rungs[n - 1],
        };
        match self.rungs.get(above) {
            Some(high) => {
                let way = (pages - low.0) as f64 / (high.0 - low.0) as f64;
                low.1 + (high.1 - low.1) * way
            }
            None => low.1,
        }
    }

    /// Pages and hits, both ascending.
    pub(crate) fn rungs(&self) -> &[(u64, f64)] {
        &self.rungs
    }

    /// The memory beyond which it does not rise.
    pub(crate) fn end(&self) -> u64 {
        self.rungs.last().map_or(0, |rung| rung.0)
    }

    /// What its rungs take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.rungs.len() * size_of::<(u64, f64)>()
    }

    /// As a curve.
    pub(crate) fn curve(&self) -> Curve {
        let rungs = self.rungs.iter();
        let points = rungs.map(|&(pages, hits)| (Pages(pages), hits));
        Curve {
            points: [(Pages(0), 0.0)].into_iter().chain(points).collect(),
        }
    }

    /// The same with at most [`RUNGS_MAX`] rungs and one: between two of them it is off by as many hits as all divided by
    /// half of that, at the most.
    pub(crate) fn thinned(self) -> Ladder {
        if self.rungs.len() <= RUNGS_MAX {
            return self;
        }
        let all = self.rungs.last().map_or(0.0, |rung| rung.1);
        let rise = all * 2.0 / RUNGS_MAX as f64;
        let mut rungs: Vec<(u64, f64)> = Vec::with_capacity(RUNGS_MAX + 1);
        let mut last = (0, 0.0);
        let mut before = last;
        for rung in &self.rungs {
            if rung.1 - last.1 >= rise {
                // The foot of a cliff stays where it is.
                if before.0 > last.0 {
                    rungs.push(before);
                }
                rungs.push(*rung);
                last = *rung;
            }
            before = *rung;
        }
        if before.0 > last.0 {
            rungs.push(before);
        }
        Ladder { rungs }
    }

    /// The step from `have` that brings most hits a page, the shorter of two that bring as much, up to `most`.
    fn best_step(&self, have: u64, most: u64) -> Option<(u64, f64)> {
        let from = self.hits(have);
        let density = |to: u64, hits: f64| (hits - from) / (to - have) as f64;
        let within = self.rungs[self.above(have)..]
            .iter()
            .take_while(|rung| rung.0 <= most);
        let ends = within
            .map(|rung| (rung.0, density(rung.0, rung.1)))
            .chain((most > have).then(|| (most, density(most, self.hits(most)))));
        let better = |best: (u64, f64), step: (u64, f64)| if step.1 > best.1 { step } else { best };
        let (to, density) = ends.fold((have, 0.0), better);
        (to > have).then(|| (to - have, density))
    }

    /// The first rung above so many pages.
    fn above(&self, pages: u64) -> usize {
        self.rungs.partition_point(|rung| rung.0 <= pages)
    }
}

/// One tenant's place in the division.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// Its claim on what no curve has a use for: its weight while it is active.
    pub(crate) claim: Part,
    /// What it has in any case, in pages.
    pub(crate) start: u64,
    /// What it never has more than, in pages.
    pub(crate) most: u64,
    /// Whether its curve tells what its share would bring.
    pub(crate) is_measured: bool,
    /// Its hits.
    pub(crate) ladder: Ladder,
}

/// A step that a tenant could make: the more hits a page, the greater; the smaller id where equal.
#[derive(Clone, Copy, Debug)]
struct Step {
    density: f64,
    id: TenantId,
    seat: usize,
    pages: u64,
}

impl Ord for Step {
    fn cmp(&self, other: &Step) -> Ordering {
        let by_density = self.density.total_cmp(&other.density);
        by_density
            .then(other.id.cmp(&self.id))
            .then(other.seat.cmp(&self.seat))
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Step) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Step) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step {}

/// Divides `total` pages among the seats, in their order. Where the starts alone exceed it, they are the answer.
pub(crate) fn divide(total: u64, seats: &[Seat]) -> Vec<u64> {
    let mut have: Vec<u64> = seats.iter().map(|seat| seat.start).collect();
    let started: u128 = have.iter().map(|&pages| u128::from(pages)).sum();
    let Some(balance) = u64::try_from(started)
        .ok()
        .and_then(|started| total.checked_sub(started))
    else {
        return have;
    };
    let left = climb(balance, seats, &mut have);
    spread(left, seats, &mut have);
    have
}

/// The look-ahead; returns what no curve has a use for.
fn climb(mut balance: u64, seats: &[Seat], have: &mut [u64]) -> u64 {
    let next = |n: usize, have: u64, balance: u64| {
        let seat: &Seat = &seats[n];
        let most = seat.most.min(have.saturating_add(balance));
        let (pages, density) = seat.ladder.best_step(have, most)?;
        Some(Step {
            density,
            id: seat.claim.id,
            seat: n,
            pages,
        })
    };
    let mut steps: BinaryHeap<Step> = (0..seats.len())
        .filter_map(|n| next(n, have[n], balance))
        .collect();
    while let Some(step) = steps.pop() {
        if step.pages <= balance {
            have[step.seat] += step.pages;
            balance -= step.pages;
        }
        steps.extend(next(step.seat, have[step.seat], balance));
    }
    balance
}

/// Divides by claim what is left, as far as ceilings allow; where nobody has a claim who could have more, equally.
fn spread(mut left: u64, seats: &[Seat], have: &mut [u64]) {
    while left > 0 {
        let open = seats.iter().zip(have.iter());
        let mut open = open.filter(|(seat, have)| **have < seat.most);
        let nobody_claims = open.all(|(seat, _)| seat.claim.weight == 0);
        let claim = |(seat, have): (&Seat, &u64)| {
            let weight = if nobody_claims { 1 } else { seat.claim.weight };
            Part {
                id: seat.claim.id,
                weight: if *have < seat.most { weight } else { 0 },
            }
        };
        let claims: Vec<Part> = seats.iter().zip(have.iter()).map(claim).collect();
        let shares = apportion(left, &claims);
        let before = left;
        for ((seat, have), share) in seats.iter().zip(have.iter_mut()).zip(shares) {
            let given = share.min(seat.most.saturating_sub(*have));
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
            let whole = Ladder::of(&curve(&points));
            let thinned = whole.clone().thinned();
            prop_assert!(thinned.rungs.len() <= RUNGS_MAX + 1);
            prop_assert_eq!(thinned.end(), whole.end());
            for pages in (0..=at.0 + 1).step_by(3) {
                let off = (thinned.hits(pages) - whole.hits(pages)).abs();
                prop_assert!(off <= at.1 * 2.0 / RUNGS_MAX as f64 + 1e-9, "{} at {}", off, pages);
            }
        }
    }

    #[test]
    fn what_no_claimant_may_have_goes_to_who_has_no_claim() {
        let mut bounded = seat(1, &[]);
        (bounded.most, bounded.start) = (50, 20);
        let mut idle = seat(2, &[]);
        idle.claim.weight = 0;
        assert_eq!(divide(80, &[bounded, idle]), [50, 30]);
    }

    fn seat(id: u16, points: &[(u64, f64)]) -> Seat {
        Seat {
            claim: Part {
                id: TenantId(id),
                weight: 1,
            },
            start: 0,
            most: u64::MAX,
            is_measured: true,
            ladder: Ladder::of(&curve(points)),
        }
    }

    #[test]
    fn a_ladder_is_straight_between_points_and_flat_at_its_end() {
        let ladder = Ladder::of(&curve(&[(0, 0.0), (100, 50.0), (300, 60.0)]));
        let hits: Vec<f64> = [0, 50, 100, 200, 300, 9999]
            .iter()
            .map(|&n| ladder.hits(n))
            .collect();
        assert_eq!(hits, [0.0, 25.0, 50.0, 55.0, 60.0, 60.0]);
        assert_eq!(Ladder::default().hits(7), 0.0);
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
        assert_eq!(Ladder::of(&wild).rungs, [(10, 3.0), (40, 5.0)]);
    }

    #[test]
    fn a_cliff_is_seen_from_afar() {
        let scan = [(599, 0.0), (600, 900.0)];
        let gentle = [(100, 100.0), (200, 180.0), (400, 240.0), (1000, 250.0)];
        assert_eq!(
            divide(1000, &[seat(1, &scan), seat(2, &gentle)]),
            [600, 400]
        );
    }

    #[test]
    fn a_cliff_that_cannot_be_paid_for_gets_nothing() {
        let scan = [(599, 0.0), (600, 9000.0)];
        let gentle = [(100, 100.0), (500, 150.0)];
        assert_eq!(divide(500, &[seat(1, &scan), seat(2, &gentle)]), [0, 500]);
    }

    #[test]
    fn the_last_pages_go_to_the_best_step_that_fits() {
        let tenants = [
            seat(1, &[(100, 1000.0)]),
            seat(2, &[(80, 400.0), (160, 500.0)]),
        ];
        // All of 1's, then 50 pages on the way to 2's first point.
        assert_eq!(divide(150, &tenants), [100, 50]);
    }

    #[test]
    fn what_no_curve_uses_is_divided_by_claim_up_to_ceilings() {
        let mut capped = seat(1, &[(10, 5.0)]);
        capped.most = 40;
        let mut heavy = seat(2, &[]);
        heavy.claim.weight = 3;
        let idle = Seat {
            claim: Part {
                id: TenantId(3),
                weight: 0,
            },
            ..seat(3, &[])
        };
        assert_eq!(divide(210, &[capped, heavy, idle]), [40, 170, 0]);
    }

    #[test]
    fn starts_beyond_the_total_are_the_answer() {
        let mut first = seat(1, &[(10, 5.0)]);
        first.start = u64::MAX;
        assert_eq!(divide(100, &[first.clone(), first]), [u64::MAX; 2]);
    }

    /// The best of all divisions, by trying each.
    fn best_hits(total: u64, ladders: &[&Ladder]) -> f64 {
        let Some((first, rest)) = ladders.split_first() else {
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
            let mut seats = Vec::new();
            for (n, gains) in gains.iter_mut().enumerate() {
                gains.sort_by(|a, b| b.cmp(a));
                let sums = gains.iter().scan(0.0, |sum, gain| { *sum += f64::from(*gain); Some(*sum) });
                let points: Vec<(u64, f64)> = sums.enumerate().map(|(n, hits)| (n as u64 + 1, hits)).collect();
                seats.push(seat(n as u16, &points));
            }
            let ladders: Vec<&Ladder> = seats.iter().map(|seat| &seat.ladder).collect();
            let divided = divide(total, &seats);
            let hits: f64 = ladders.iter().zip(&divided).map(|(ladder, pages)| ladder.hits(*pages)).sum();
            prop_assert!(hits >= best_hits(total, &ladders) - 1e-9);
        }
    }
}
