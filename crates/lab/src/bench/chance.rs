//! Luck with a seed, so that a bench asks for the same keys every time.

/// A small generator (Steele, Lea and Flood's SplitMix64, 2014).
pub(super) struct Chance(u64);

impl Chance {
    /// The same seed, the same luck.
    pub(super) fn seeded(seed: u64) -> Chance {
        Chance(seed)
    }

    /// 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to just under 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks from 0 to `count - 1`; rank r is asked for in proportion to 1 ÷ (r + 1)^alpha.
pub(super) struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    /// For `alpha` = 0 all ranks are alike.
    pub(super) fn new(count: usize, alpha: f64) -> Zipf {
        let mut sum = 0.0;
        let add = |rank: usize| {
            sum += (rank as f64 + 1.0).powf(-alpha);
            sum
        };
        Zipf {
            cumulated: (0..count).map(add).collect(),
        }
    }

    /// A rank.
    pub(super) fn rank(&self, chance: &mut Chance) -> usize {
        let sum = self.cumulated.last().copied().unwrap_or(0.0);
        let drawn = chance.unit() * sum;
        let rank = self.cumulated.partition_point(|upto| *upto <= drawn);
        rank.min(self.cumulated.len().saturating_sub(1))
    }
}

/// A fixed shuffle of 0 to `count - 1`, so that neighbours in rank are no neighbours in memory.
pub(super) fn shuffled(count: usize, chance: &mut Chance) -> Vec<u32> {
    let mut places: Vec<u32> = (0..count as u32).collect();
    shuffle(&mut places, chance);
    places
}

/// Puts `places` into an order by luck.
pub(super) fn shuffle(places: &mut [u32], chance: &mut Chance) {
    for last in (1..places.len()).rev() {
        places.swap(last, chance.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_asks_in_proportion() {
        let zipf = Zipf::new(3, 1.0);
        let mut chance = Chance::seeded(7);
        let mut asked = [0u32; 3];
        for _ in 0..110_000 {
            asked[zipf.rank(&mut chance)] += 1;
        }
        let near = |count: u32, due: u32| count.abs_diff(due) < due / 20;
        assert!(near(asked[0], 60_000), "{asked:?}");
        assert!(near(asked[1], 30_000), "{asked:?}");
        assert!(near(asked[2], 20_000), "{asked:?}");
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut places = shuffled(1000, &mut Chance::seeded(1));
        assert_ne!(places[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..1000));
    }
}
