//! A level: what each tenant gets if memory is divided by weight between a least and a most of each.

/// A tenant that takes part in the division.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WeightedBounds {
    pub(super) weight: u32,
    /// What it has in any case.
    pub(super) least: u64,
    /// The most that it may have. It is not below `least`.
    pub(super) most: u64,
}

impl WeightedBounds {
    fn at(&self, level: f64) -> u64 {
        ((level * f64::from(self.weight.max(1))) as u64).clamp(self.least, self.most)
    }
}

/// After this many halvings a level is as exact as a number of pages can be.
const HALVINGS: u32 = 128;

/// What each gets of `total`: the same amount per unit of weight, within its bounds. All get their most if that fits,
/// and their least if nothing else does.
pub(super) fn level(total: u64, bounds: &[WeightedBounds]) -> Vec<u64> {
    let sum = |level: f64| -> u128 { bounds.iter().map(|bound| u128::from(bound.at(level))).sum() };
    let fits = |level: f64| sum(level) <= u128::from(total);
    let (mut low, mut high) = (0.0, u64::MAX as f64);
    if fits(high) {
        return bounds.iter().map(|bound| bound.most).collect();
    }
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        match fits(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    let mut amounts: Vec<u64> = bounds.iter().map(|bound| bound.at(low)).collect();
    let given: u128 = amounts.iter().map(|pages| u128::from(*pages)).sum();
    // Whole pages: less than a page each is left, and the first that may have more get it.
    let mut left = u128::from(total).saturating_sub(given);
    for (amount, bound) in amounts.iter_mut().zip(bounds) {
        if left > 0 && *amount < bound.most && *amount > bound.least {
            (*amount, left) = (*amount + 1, left - 1);
        }
    }
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(weight: u32, least: u64, most: u64) -> WeightedBounds {
        WeightedBounds {
            weight,
            least,
            most,
        }
    }

    #[test]
    fn memory_is_divided_by_weight_within_bounds() {
        let open = |weight| bound(weight, 0, u64::MAX);
        assert_eq!(level(900, &[open(100), open(200)]), [300, 600]);
        assert_eq!(level(900, &[open(100), bound(200, 0, 100)]), [800, 100]);
        assert_eq!(level(900, &[open(100), bound(100, 700, 800)]), [200, 700]);
        assert_eq!(
            level(900, &[bound(1, 0, 300), bound(1, 0, 300)]),
            [300, 300]
        );
        assert_eq!(
            level(100, &[bound(1, 90, 300), bound(1, 90, 300)]),
            [90, 90]
        );
        assert_eq!(level(0, &[]), [0; 0]);
        assert_eq!(
            level(10, &[open(1), open(1), open(1)]).iter().sum::<u64>(),
            10
        );
    }
}
