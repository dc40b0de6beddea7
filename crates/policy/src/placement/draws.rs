//! Numbers that look random, from one that is.

/// A stream of pseudo-random numbers from a seed: splitmix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawStream {
    state: u64,
}

impl DrawStream {
    /// The stream of this seed.
    pub fn new(seed: u64) -> DrawStream {
        DrawStream { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state)
    }

    /// A number below `bound`, or 0 if that is 0. Its bias is below `bound` ÷ 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }
}

/// splitmix64's finaliser: it maps neighbouring numbers to unrelated ones.
pub(super) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_paper() {
        let mut draws = DrawStream::new(1_234_567);
        let drawn = [draws.bits(), draws.bits(), draws.bits()];
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut draws = DrawStream::new(3);
        let mut seen = [0u32; 7];
        (0..7000).for_each(|_| seen[draws.below(7)] += 1);
        assert!(
            seen.iter().all(|count| (800..1200).contains(count)),
            "{seen:?}"
        );
        assert_eq!(draws.below(0), 0);
    }
}
