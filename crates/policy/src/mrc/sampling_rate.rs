//! Which hashes of a sample are tracked. If there is no room for all, those of the highest ranks are dropped, and later
//! ones like them are ignored (SHARDS' *s_max*).

use super::stack::mix_bits;

/// Hashes map to this many ranks.
const RANKS: u64 = 1 << 32;

/// Thinning keeps this part of the sample.
const THINNED_TO: f64 = 0.875;

/// A sample is never thinner than one in this many.
const THINNING_MAX: u64 = 1 << 20;

/// How thin a sample is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SamplingRate {
    /// The sample has only hashes of a rank below this, out of [`RANKS`].
    ranks: u64,
}

impl Default for SamplingRate {
    fn default() -> SamplingRate {
        SamplingRate { ranks: RANKS }
    }
}

impl SamplingRate {
    /// Returns whether the sample has this hash.
    pub(crate) fn has(self, hash: u64) -> bool {
        mix_bits(hash) >> 32 < self.ranks
    }

    /// The share of all hashes that the sample has.
    pub(crate) fn share(self) -> f64 {
        self.ranks as f64 / RANKS as f64
    }

    /// The number of hashes for each one that the sample has.
    pub(crate) fn one_in(self) -> f64 {
        RANKS as f64 / self.ranks as f64
    }

    /// How many of `most` entries stay when the sample is thinned.
    pub(crate) fn staying(most: usize) -> usize {
        ((most as f64 * THINNED_TO) as usize).max(1)
    }

    /// Drops some hashes, unless the sample is as thin as it may be. Returns whether it did.
    pub(crate) fn thin(&mut self) -> bool {
        let may = self.ranks > RANKS / THINNING_MAX;
        if may {
            self.ranks = (self.ranks as f64 * THINNED_TO) as u64;
        }
        may
    }
}
