//! One pool of all tenants' memory, in which what came first goes first.
//!
//! In an order by last use, each access that does not hit within depth x pushes a page past depth x. That is `gets −
//! hits(x)` pages per second. So what stands within m pages came within the last ∫₀ᵐ dx ÷ (gets − hits(x)) seconds. A
//! pool whose oldest page has a certain age gives every tenant as much as came to it since.

use sublet_types::GiveWayOrder;

use crate::mrc::MonotoneCurve;

/// One tenant's part of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolMember<'a> {
    /// Hits per second by memory, if they are measured.
    pub(super) hit_curve: Option<&'a MonotoneCurve>,
    /// Gets and puts per second.
    pub(super) gets: f64,
    pub(super) puts: f64,
    /// What it keeps in any case.
    pub(super) least: u64,
    /// The most that it may have. It is not below `least`.
    pub(super) most: u64,
    /// A tenant that gives first has, beyond what it keeps, only what the others leave.
    pub(super) giving: GiveWayOrder,
}

impl PoolMember<'_> {
    /// What came to it in the last `age` seconds.
    fn since(&self, age: f64) -> u64 {
        let pages = match self.hit_curve {
            Some(hit_curve) => self.filled(hit_curve, age),
            None => self.puts * age,
        };
        (pages as u64).clamp(self.least, self.most)
    }

    fn filled(&self, hit_curve: &MonotoneCurve, age: f64) -> f64 {
        let mut left = age;
        let mut low = (0, 0.0);
        for &high in hit_curve.points() {
            let pushed = self.gets - (low.1 + high.1) / 2.0;
            let pages = (high.0 - low.0) as f64;
            if pushed <= 0.0 || pages > left * pushed {
                return low.0 as f64 + left * pushed.max(0.0);
            }
            left -= pages / pushed;
            low = high;
        }
        low.0 as f64 + left * (self.gets - low.1).max(0.0)
    }
}

/// After this many halvings an age is as exact as a number of pages can be.
const HALVINGS: u32 = 128;

/// An age that no page reaches, in seconds.
const AGE_MAX: f64 = 1e12;

/// What each gets of `total`: all that came since one moment, within its bounds. A tenant that gives first gets only
/// what the others leave.
pub(super) fn by_age<'a>(total: u64, members: &[PoolMember<'a>]) -> Vec<u64> {
    let kept = |member: &PoolMember<'a>| match member.giving {
        GiveWayOrder::First => PoolMember {
            most: member.least,
            ..*member
        },
        GiveWayOrder::ByAge => *member,
    };
    let amount = since_one_moment(total, &members.iter().map(kept).collect::<Vec<_>>());
    let left = |(member, amount): (&PoolMember<'a>, u64)| match member.giving {
        GiveWayOrder::First => *member,
        GiveWayOrder::ByAge => PoolMember {
            least: amount,
            most: amount,
            ..*member
        },
    };
    since_one_moment(
        total,
        &members.iter().zip(amount).map(left).collect::<Vec<_>>(),
    )
}

fn since_one_moment(total: u64, members: &[PoolMember<'_>]) -> Vec<u64> {
    let each = |age: f64| members.iter().map(move |member| member.since(age));
    let fits = |age: f64| each(age).map(u128::from).sum::<u128>() <= u128::from(total);
    let (mut low, mut high) = (0.0, AGE_MAX);
    if fits(high) {
        return each(high).collect();
    }
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        match fits(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    each(low).collect()
}

#[cfg(test)]
mod tests {
    use sublet_types::{Curve, Pages};

    use super::*;

    fn hit_curve(points: &[(u64, f64)]) -> MonotoneCurve {
        let points = points.iter().map(|&(pages, hits)| (Pages(pages), hits));
        MonotoneCurve::of(&Curve {
            points: points.collect(),
        })
    }

    fn member<'a>(hit_curve: Option<&'a MonotoneCurve>, gets: f64, puts: f64) -> PoolMember<'a> {
        PoolMember {
            hit_curve,
            gets,
            puts,
            least: 0,
            most: u64::MAX,
            giving: GiveWayOrder::ByAge,
        }
    }

    /// A scan puts 30 pages per second, a tenant without hits 10. They share as they put, and floors and ceilings hold.
    #[test]
    fn who_puts_more_has_more() {
        let flat = hit_curve(&[]);
        let (scan, slow) = (member(Some(&flat), 30.0, 0.0), member(None, 0.0, 10.0));
        assert_eq!(by_age(400, &[scan, slow]), [300, 100]);
        let kept = PoolMember { least: 150, ..slow };
        assert_eq!(by_age(400, &[scan, kept]), [250, 150]);
        let capped = PoolMember { most: 90, ..scan };
        assert_eq!(by_age(400, &[capped, slow]), [90, 310]);
        let both = PoolMember { most: 90, ..slow };
        assert_eq!(by_age(400, &[capped, both]), [90, 90], "the rest is free");
        let giving = GiveWayOrder::First;
        let first = PoolMember {
            giving,
            least: 50,
            ..scan
        };
        assert_eq!(by_age(400, &[first, slow]), [50, 350]);
        assert_eq!(by_age(400, &[first, both]), [310, 90], "what others leave");
    }

    /// Half of 40 gets hit with 100 pages. Those pages come in 100 ÷ 30 s, and all further ones at 20 per second.
    #[test]
    fn who_hits_pushes_itself_less() {
        let half = hit_curve(&[(100, 20.0)]);
        let hot = member(Some(&half), 40.0, 0.0);
        let scan = member(None, 0.0, 30.0);
        // After 10 s there are 100 + 6.667 × 20 = 233, and 300.
        assert_eq!(by_age(533, &[hot, scan]), [233, 300]);
        // Within 3 s there are 90 at 30 per second, and 90.
        assert_eq!(by_age(180, &[hot, scan]), [90, 90]);
    }

    #[test]
    fn who_has_only_hits_fills_no_more_than_it_uses() {
        let all = hit_curve(&[(50, 10.0)]);
        let (hot, scan) = (member(Some(&all), 10.0, 0.0), member(None, 0.0, 1.0));
        assert_eq!(by_age(1000, &[hot, scan]), [50, 950]);
    }
}
