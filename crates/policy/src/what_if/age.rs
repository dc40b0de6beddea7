//! One pool of all tenants' memory, in which what came first goes first.
//!
//! In an order by last use a page is pushed past the depth x by each access that does not hit within x: `gets − hits(x)` of them a
//! second. So what stands within m pages came within the last ∫₀ᵐ dx ÷ (gets − hits(x)) seconds, and a pool whose oldest page
//! has an age gives every tenant as much as came to it since.

use sublet_types::Giving;

use crate::mrc::Ladder;

/// One tenant's part of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream<'a> {
    /// Hits in a second by memory, where they are measured.
    pub(super) ladder: Option<&'a Ladder>,
    /// Gets in a second, and puts.
    pub(super) gets: f64,
    pub(super) puts: f64,
    /// What it keeps in any case.
    pub(super) least: u64,
    /// What it never has more than; not below `least`.
    pub(super) most: u64,
    /// Who gives first has, beyond what it keeps, what the others leave.
    pub(super) giving: Giving,
}

impl Stream<'_> {
    /// What came to it in the last `age` seconds.
    fn since(&self, age: f64) -> u64 {
        let pages = match self.ladder {
            Some(ladder) => self.filled(ladder, age),
            None => self.puts * age,
        };
        (pages as u64).clamp(self.least, self.most)
    }

    fn filled(&self, ladder: &Ladder, age: f64) -> f64 {
        let mut left = age;
        let mut low = (0, 0.0);
        for &high in ladder.rungs() {
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

/// Halvings after which an age is as exact as a number of pages can be.
const HALVINGS: u32 = 128;

/// An age that no page reaches, in seconds.
const AGE_MAX: f64 = 1e12;

/// What each gets of `total`: all that came since one moment, within its bounds; who gives first, only what the others leave.
pub(super) fn by_age<'a>(total: u64, streams: &[Stream<'a>]) -> Vec<u64> {
    let kept = |stream: &Stream<'a>| match stream.giving {
        Giving::First => Stream {
            most: stream.least,
            ..*stream
        },
        Giving::ByAge => *stream,
    };
    let got = since_one_moment(total, &streams.iter().map(kept).collect::<Vec<_>>());
    let left = |(stream, got): (&Stream<'a>, u64)| match stream.giving {
        Giving::First => *stream,
        Giving::ByAge => Stream {
            least: got,
            most: got,
            ..*stream
        },
    };
    since_one_moment(
        total,
        &streams.iter().zip(got).map(left).collect::<Vec<_>>(),
    )
}

fn since_one_moment(total: u64, streams: &[Stream<'_>]) -> Vec<u64> {
    let each = |age: f64| streams.iter().map(move |stream| stream.since(age));
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

    fn ladder(points: &[(u64, f64)]) -> Ladder {
        let points = points.iter().map(|&(pages, hits)| (Pages(pages), hits));
        Ladder::of(&Curve {
            points: points.collect(),
        })
    }

    fn stream<'a>(ladder: Option<&'a Ladder>, gets: f64, puts: f64) -> Stream<'a> {
        Stream {
            ladder,
            gets,
            puts,
            least: 0,
            most: u64::MAX,
            giving: Giving::ByAge,
        }
    }

    /// A scan puts 30 pages a second, a tenant without hits 10: they share as they put, and floors and ceilings hold.
    #[test]
    fn who_puts_more_has_more() {
        let flat = ladder(&[]);
        let (scan, slow) = (stream(Some(&flat), 30.0, 0.0), stream(None, 0.0, 10.0));
        assert_eq!(by_age(400, &[scan, slow]), [300, 100]);
        let kept = Stream { least: 150, ..slow };
        assert_eq!(by_age(400, &[scan, kept]), [250, 150]);
        let capped = Stream { most: 90, ..scan };
        assert_eq!(by_age(400, &[capped, slow]), [90, 310]);
        let both = Stream { most: 90, ..slow };
        assert_eq!(by_age(400, &[capped, both]), [90, 90], "the rest is free");
        let giving = Giving::First;
        let first = Stream {
            giving,
            least: 50,
            ..scan
        };
        assert_eq!(by_age(400, &[first, slow]), [50, 350]);
        assert_eq!(by_age(400, &[first, both]), [310, 90], "what others leave");
    }

    /// Half of 40 gets are hits with 100 pages: those come in 100 ÷ 30 s, all further ones at 20 a second.
    #[test]
    fn who_hits_pushes_itself_less() {
        let half = ladder(&[(100, 20.0)]);
        let hot = stream(Some(&half), 40.0, 0.0);
        let scan = stream(None, 0.0, 30.0);
        // After 10 s: 100 + 6.667 × 20 are 233, and 300.
        assert_eq!(by_age(533, &[hot, scan]), [233, 300]);
        // Within 3 s: 90 at 30 a second, and 90.
        assert_eq!(by_age(180, &[hot, scan]), [90, 90]);
    }

    #[test]
    fn who_has_only_hits_fills_no_more_than_it_uses() {
        let all = ladder(&[(50, 10.0)]);
        let (hot, scan) = (stream(Some(&all), 10.0, 0.0), stream(None, 0.0, 1.0));
        assert_eq!(by_age(1000, &[hot, scan]), [50, 950]);
    }
}
