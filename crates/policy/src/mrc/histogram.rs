//! A histogram of hits by the memory that they need, fading with time. Curves are read from it.

use sublet_types::{Curve, Pages, Second};

use crate::decay::kept_after;

/// Buckets per doubling of memory: a bucket is at most a sixteenth wide.
const BUCKETS_A_DOUBLING: u64 = 16;

/// Counts of hits by needed memory, of gets, and of the time that they took. All fade alike.
#[derive(Clone, Debug)]
pub(crate) struct HitHistogram {
    at: Second,
    /// Hits, by the bucket of the memory that they need.
    hits: Vec<f64>,
    /// Those of the hits at distances under [`SHORT`].
    hits_short: f64,
    /// Gets that the sample stands for.
    gets_sampled: f64,
    /// Gets that really happened.
    gets: f64,
    /// The time in seconds.
    secs: f64,
}

/// Distances below this, in sampled pages, make a page hot. A page that gets a hundredth of all gets comes back within
/// six.
pub(crate) const SHORT: usize = 8;

/// If at most this part of all gets hits at short distances, hot pages have no part in the sample's error. Behind a
/// client of some megabytes the part is under two in a hundred.
const HEAT_NONE: f64 = 0.02;

/// If at least this part hits at short distances, hot pages make all of the error.
const HEAT_ALL: f64 = 0.05;

/// How far back the last use of a page is, in sampled pages that were used since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReuseDistance {
    /// Under [`SHORT`]: the page is hot.
    Short,
    /// [`SHORT`] or more.
    Long,
}

impl HitHistogram {
    pub(crate) fn new(at: Second) -> HitHistogram {
        HitHistogram {
            at,
            hits: Vec::new(),
            hits_short: 0.0,
            gets_sampled: 0.0,
            gets: 0.0,
            secs: 0.0,
        }
    }

    /// Counts a sampled get that stands for `scale` gets.
    pub(crate) fn get(&mut self, scale: f64) {
        self.gets_sampled += scale;
    }

    /// Counts a get that hits in a tier of more than `above` sampled pages, each of which stands for `scale`.
    pub(crate) fn hit(&mut self, above: usize, scale: f64) {
        let distance = match above < SHORT {
            true => ReuseDistance::Short,
            false => ReuseDistance::Long,
        };
        self.hit_at((above as f64 * scale) as u64 + 1, distance, scale);
    }

    /// Counts a get that hits if the memory is `pages` or more.
    pub(crate) fn hit_at(&mut self, pages: u64, distance: ReuseDistance, scale: f64) {
        if distance == ReuseDistance::Short {
            self.hits_short += scale;
        }
        let bucket = bucket_of(pages);
        if bucket >= self.hits.len() {
            self.hits.resize(bucket + 1, 0.0);
        }
        self.hits[bucket] += scale;
    }

    /// Ends an interval that had `gets` gets. All counts fade.
    pub(crate) fn close(&mut self, now: Second, gets: u64) {
        self.gets += gets as f64;
        let since = now.0.saturating_sub(self.at.0);
        let kept = kept_after(since);
        self.secs = (self.secs + f64::from(since)) * kept;
        let counts = [&mut self.hits_short, &mut self.gets_sampled, &mut self.gets];
        for count in counts.into_iter().chain(&mut self.hits) {
            *count *= kept;
        }
        self.at = now.max(self.at);
    }

    /// Gets per second: the curve's hits are a part of them.
    pub(crate) fn gets_a_second(&self) -> f64 {
        match self.secs > 0.0 {
            true => self.gets / self.secs,
            false => 0.0,
        }
    }

    /// Hits per second for any amount of memory. A bucket's hits rise evenly over its width, and nothing rises between
    /// buckets.
    pub(crate) fn curve(&self) -> Curve {
        let mut points = vec![(Pages(0), 0.0)];
        let (factor, mut owed) = self.correction();
        let mut sum = 0.0;
        let mut last = 0;
        for (bucket, &hits) in self.hits.iter().enumerate() {
            owed += hits * factor;
            if owed <= 0.0 || hits == 0.0 || self.secs <= 0.0 {
                continue;
            }
            let (low, high) = (start_of(bucket), start_of(bucket + 1));
            if low > last + 1 {
                points.push((Pages(low - 1), sum));
            }
            sum += owed / self.secs;
            owed = 0.0;
            last = high - 1;
            points.push((Pages(last), sum));
        }
        Curve { points }
    }

    /// The correction that makes the sample stand for as many gets as there were: a factor, and what to add at the
    /// shortest distances.
    ///
    /// The hottest pages get many gets each, and chance decides whether they are sampled. SHARDS-adj puts all of the
    /// difference right at the shortest distances, where these pages are hit. Behind a client that keeps its hottest
    /// pages itself, the difference comes from all pages alike, and a factor is right. The part of hits at short
    /// distances tells which of the two holds.
    fn correction(&self) -> (f64, f64) {
        if self.gets_sampled <= 0.0 {
            return (1.0, 0.0);
        }
        let short = self.hits_short / self.gets_sampled;
        let heat = ((short - HEAT_NONE) / (HEAT_ALL - HEAT_NONE)).clamp(0.0, 1.0);
        let hot = ((self.gets - self.gets_sampled) * heat).max(-self.hits_short);
        if hot >= 0.0 {
            return ((self.gets - hot) / self.gets_sampled, hot);
        }
        let rest = self.gets_sampled + hot;
        let factor = if rest > 0.0 { self.gets / rest } else { 1.0 };
        (factor, hot * factor)
    }
}

/// The bucket of this many pages. It is exact up to [`BUCKETS_A_DOUBLING`].
pub(crate) fn bucket_of(pages: u64) -> usize {
    let doubling = (pages / BUCKETS_A_DOUBLING).checked_ilog2().unwrap_or(0);
    let in_doubling = pages >> doubling;
    (u64::from(doubling) * BUCKETS_A_DOUBLING + in_doubling) as usize
}

/// The fewest pages of a bucket.
pub(crate) fn start_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doubling = (bucket / BUCKETS_A_DOUBLING).saturating_sub(1);
    (bucket - doubling * BUCKETS_A_DOUBLING) << doubling
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decay::HALF_LIFE_SECS;

    #[test]
    fn buckets_begin_where_the_one_before_ends() {
        for bucket in 0..700 {
            let (start, next) = (start_of(bucket), start_of(bucket + 1));
            assert!(next > start);
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(next - 1), bucket);
            assert!((next - start) * BUCKETS_A_DOUBLING <= start.max(BUCKETS_A_DOUBLING));
        }
        assert!(bucket_of(u64::MAX) < 1024);
    }

    #[track_caller]
    fn assert_points(curve: &Curve, ought: &[(u64, f64)]) {
        assert_eq!(curve.points.len(), ought.len(), "{curve:?}");
        for ((pages, hits), ought) in curve.points.iter().zip(ought) {
            assert!(
                pages.0 == ought.0 && (hits - ought.1).abs() < 1e-9,
                "{curve:?}"
            );
        }
    }

    #[test]
    fn a_curve_rises_within_buckets_only() {
        let mut histogram = HitHistogram::new(Second(0));
        histogram.hit(1, 16.0);
        histogram.hit(62, 16.0);
        histogram.get(32.0);
        histogram.close(Second(1), 32);
        let ought = [(0, 0.0), (16, 0.0), (17, 16.0), (991, 16.0), (1023, 32.0)];
        assert_points(&histogram.curve(), &ought);
    }

    /// With 10 sampled gets: the hits for one page and for all pages.
    fn corrected(gets: u64, hits_short: u32, hits_long: u32) -> (f64, f64) {
        let mut histogram = HitHistogram::new(Second(0));
        histogram.get(160.0);
        (0..hits_short).for_each(|_| histogram.hit(0, 16.0));
        (0..hits_long).for_each(|_| histogram.hit(62, 16.0));
        histogram.close(Second(1), gets);
        let points = histogram.curve().points;
        let short = points.iter().find(|point| point.0 == Pages(1));
        let rounded =
            |point: Option<&(Pages, f64)>| point.map_or(0.0, |point| (point.1 * 1e6).round() / 1e6);
        (rounded(short), rounded(points.last()))
    }

    #[test]
    fn without_short_distances_a_difference_comes_from_all_pages_alike() {
        assert_eq!(corrected(160, 0, 5), (0.0, 80.0));
        assert_eq!(corrected(200, 0, 5), (0.0, 100.0));
        assert_eq!(corrected(80, 0, 5), (0.0, 40.0));
        assert_eq!(corrected(200, 0, 0), (0.0, 0.0));
    }

    #[test]
    fn hot_pages_that_the_sample_missed_are_added_at_short_distances() {
        assert_eq!(corrected(200, 2, 5), (72.0, 152.0));
    }

    #[test]
    fn hot_pages_that_the_sample_counted_too_often_are_taken_off_there() {
        assert_eq!(corrected(150, 2, 5), (22.0, 102.0));
        assert_eq!(
            corrected(64, 2, 5),
            (0.0, 40.0),
            "and the rest from all alike"
        );
        assert_eq!(corrected(0, 2, 5), (0.0, 0.0));
    }

    #[test]
    fn rates_hold_while_traffic_does_and_fade_after() {
        let mut histogram = HitHistogram::new(Second(0));
        let mut now = 0;
        for _ in 0..300 {
            histogram.get(16.0);
            histogram.hit(5, 16.0);
            now += 1;
            histogram.close(Second(now), 16);
        }
        let rate = |histogram: &HitHistogram| histogram.curve().points.last().expect("a point").1;
        assert!((rate(&histogram) - 16.0).abs() < 1e-9);
        let busy = rate(&histogram);
        histogram.close(Second(now + HALF_LIFE_SECS), 0);
        let quiet = rate(&histogram);
        assert!(
            quiet < busy * 0.6 && quiet > busy * 0.4,
            "{quiet} after {busy}"
        );
    }

    #[test]
    fn no_time_and_no_hits_make_an_empty_curve() {
        let mut histogram = HitHistogram::new(Second(5));
        histogram.get(16.0);
        histogram.hit(5, 16.0);
        histogram.close(Second(5), 16);
        assert_eq!(histogram.curve().points, [(Pages(0), 0.0)]);
        histogram.close(Second(4), 0);
        assert_eq!(histogram.curve().points, [(Pages(0), 0.0)]);
    }
}
