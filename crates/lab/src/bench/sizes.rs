//! Value sizes, drawn from a distribution in the form of CacheLib's benchmark configurations.

use std::io;

use sublet_sim::rng::SimRng;

use serde::Deserialize;

/// Upper bounds of ranges of sizes, and how often each range occurred.
pub(super) struct SizeDistribution {
    upto: Vec<u32>,
    cumulated: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SizesJson {
    val_size_range: Vec<u32>,
    val_size_range_probability: Vec<f64>,
}

impl SizeDistribution {
    /// Reads `{"valSizeRange": […], "valSizeRangeProbability": […]}`.
    pub(super) fn parse(json: &[u8]) -> io::Result<SizeDistribution> {
        let written: SizesJson = serde_json::from_slice(json)?;
        let mut sum = 0.0;
        let add = |seen: &f64| {
            sum += seen.max(0.0);
            sum
        };
        let cumulated: Vec<f64> = written.val_size_range_probability.iter().map(add).collect();
        let upto = written.val_size_range;
        if upto.is_empty() || upto.len() != cumulated.len() || sum <= 0.0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(SizeDistribution { upto, cumulated })
    }

    /// The size for `id`. It is always the same.
    pub(super) fn of(&self, id: u64) -> u32 {
        let mut rng = SimRng::seeded(id);
        let sum = self.cumulated.last().copied().unwrap_or(0.0);
        let drawn = rng.share() * sum;
        let range = self.cumulated.partition_point(|upto| *upto <= drawn);
        let range = range.min(self.upto.len() - 1);
        let above = range.checked_sub(1).map_or(0, |below| self.upto[below]);
        let width = self.upto[range].saturating_sub(above).max(1);
        above + 1 + rng.below(u64::from(width)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_the_ranges_as_often_as_they_were_seen() -> io::Result<()> {
        let json = br#"{"valSizeRange":[31,63,95],"valSizeRangeProbability":[1,0,3]}"#;
        let sizes = SizeDistribution::parse(json)?;
        let drawn: Vec<u32> = (0..10_000).map(|id| sizes.of(id)).collect();
        let small = drawn.iter().filter(|size| (1..=31).contains(*size)).count();
        let large = drawn
            .iter()
            .filter(|size| (64..=95).contains(*size))
            .count();
        assert_eq!(small + large, drawn.len());
        assert!(small.abs_diff(2500) < 200, "{small}");
        assert_eq!(sizes.of(5), sizes.of(5));
        Ok(())
    }

    #[test]
    fn ranges_without_figures_are_refused() {
        assert!(
            SizeDistribution::parse(br#"{"valSizeRange":[],"valSizeRangeProbability":[]}"#)
                .is_err()
        );
        assert!(
            SizeDistribution::parse(br#"{"valSizeRange":[1],"valSizeRangeProbability":[]}"#)
                .is_err()
        );
        assert!(SizeDistribution::parse(b"[]").is_err());
    }
}
