//! Which hashes of a sample are followed. Where there is no room for all, those of the highest ranks are let go, and later ones
//! like them ignored (SHARDS' *s_max*).

use super::stack::spread;

/// Hashes count as this many ranks.
const RANKS: u64 = 1 << 32;

/// When the sample is thinned, so much of it stays.
const THINNED_TO: f64 = 0.875;

/// It is never thinner than one in this many.
const THINNING_MAX: u64 = 1 << 20;

/// How thin a sample is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Only hashes of a rank below this are in it; of [`RANKS`].
    ranks: u64,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample { ranks: RANKS }
    }
}

impl Sample {
    /// Whether it has this hash.
    pub(crate) fn has(self, hash: u64) -> bool {
        spread(hash) >> 32 < self.ranks
    }

    /// Which share of all hashes it has.
    pub(crate) fn share(self) -> f64 {
        self.ranks as f64 / RANKS as f64
    }

    /// Hashes for each that it has.
    pub(crate) fn one_in(self) -> f64 {
        RANKS as f64 / self.ranks as f64
    }

    /// How many of `most` entries stay when it is thinned.
    pub(crate) fn staying(most: usize) -> usize {
        ((most as f64 * THINNED_TO) as usize).max(1)
    }

    /// Lets some go, unless it is as thin as it may be. Says whether it did.
    pub(crate) fn thin(&mut self) -> bool {
        let may = self.ranks > RANKS / THINNING_MAX;
        if may {
            self.ranks = (self.ranks as f64 * THINNED_TO) as u64;
        }
        may
    }
}
