//! A level: what each gets when memory is divided by weight between a least and a most of each.

/// One who takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bed {
    pub(super) weight: u32,
    /// What it has in any case.
    pub(super) least: u64,
    /// What it never has more than; not below `least`.
    pub(super) most: u64,
}

impl Bed {
    fn at(&self, level: f64) -> u64 {
        ((level * f64::from(self.weight.max(1))) as u64).clamp(self.least, self.most)
    }
}

/// Halvings after which a level is as exact as a number of pages can be.
const HALVINGS: u32 = 128;

/// What each gets of `total`: so much for each unit of weight, within its bounds. All have their most where that fits, and
/// their least where nothing else does.
pub(super) fn level(total: u64, beds: &[Bed]) -> Vec<u64> {
    let sum = |level: f64| -> u128 { beds.iter().map(|bed| u128::from(bed.at(level))).sum() };
    let fits = |level: f64| sum(level) <= u128::from(total);
    let (mut low, mut high) = (0.0, u64::MAX as f64);
    if fits(high) {
        return beds.iter().map(|bed| bed.most).collect();
    }
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        match fits(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    let mut gets: Vec<u64> = beds.iter().map(|bed| bed.at(low)).collect();
    let given: u128 = gets.iter().map(|pages| u128::from(*pages)).sum();
    // Whole pages: the first ones that may have more get what is left of less than a page each.
    let mut left = u128::from(total).saturating_sub(given);
    for (got, bed) in gets.iter_mut().zip(beds) {
        if left > 0 && *got < bed.most && *got > bed.least {
            (*got, left) = (*got + 1, left - 1);
        }
    }
    gets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bed(weight: u32, least: u64, most: u64) -> Bed {
        Bed {
            weight,
            least,
            most,
        }
    }

    #[test]
    fn memory_is_divided_by_weight_within_bounds() {
        let open = |weight| bed(weight, 0, u64::MAX);
        assert_eq!(level(900, &[open(100), open(200)]), [300, 600]);
        assert_eq!(level(900, &[open(100), bed(200, 0, 100)]), [800, 100]);
        assert_eq!(level(900, &[open(100), bed(100, 700, 800)]), [200, 700]);
        assert_eq!(level(900, &[bed(1, 0, 300), bed(1, 0, 300)]), [300, 300]);
        assert_eq!(level(100, &[bed(1, 90, 300), bed(1, 90, 300)]), [90, 90]);
        assert_eq!(level(0, &[]), [0; 0]);
        assert_eq!(
            level(10, &[open(1), open(1), open(1)]).iter().sum::<u64>(),
            10
        );
    }
}
