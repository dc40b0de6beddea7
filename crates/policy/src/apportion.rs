//! Dividing whole pages in proportion, by largest remainder.

use std::cmp::Reverse;

use sublet_types::TenantId;

/// A tenant that takes part in a division, and its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightedClaim {
    /// The tenant. The smaller id goes first if remainders are equal.
    pub(crate) id: TenantId,
    /// Its claim relative to the others'.
    pub(crate) weight: u64,
}

/// Fractional claims are scaled to whole numbers of this size, so that shares are computed exactly.
const FRACTION: f64 = (1u64 << 52) as f64;

impl WeightedClaim {
    /// A claim that is a fraction from 0 to 1. A value outside that range counts as the nearer end.
    pub(crate) fn fraction(id: TenantId, claim: f64) -> WeightedClaim {
        let weight = (claim.clamp(0.0, 1.0) * FRACTION) as u64;
        WeightedClaim { id, weight }
    }
}

/// Divides `total` among the parts, in their order. It gives all of it away, unless nobody has a claim.
pub(crate) fn apportion(total: u64, parts: &[WeightedClaim]) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|part| u128::from(part.weight)).sum();
    if sum == 0 {
        return vec![0; parts.len()];
    }
    let quota = |n: usize| u128::from(total) * u128::from(parts[n].weight);
    let mut shares: Vec<u64> = (0..parts.len()).map(|n| (quota(n) / sum) as u64).collect();
    let left = total - shares.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&n| (Reverse(quota(n) % sum), parts[n].id));
    for &n in order.iter().take(left as usize) {
        shares[n] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(weights: &[u64]) -> Vec<WeightedClaim> {
        let part = |(n, &weight)| WeightedClaim {
            id: TenantId(n as u16),
            weight,
        };
        weights.iter().enumerate().map(part).collect()
    }

    #[test]
    fn the_largest_remainder_gets_the_odd_page() {
        assert_eq!(apportion(10, &parts(&[1, 1, 1])), [4, 3, 3]);
        assert_eq!(apportion(10, &parts(&[1, 2, 4])), [1, 3, 6]);
        assert_eq!(apportion(7, &parts(&[0, 5])), [0, 7]);
    }

    #[test]
    fn equal_remainders_go_by_id_and_not_by_place() {
        let mut parts = parts(&[1, 1, 1]);
        parts.reverse();
        assert_eq!(apportion(10, &parts), [3, 3, 4]);
    }

    #[test]
    fn nobody_and_no_claim_get_nothing() {
        assert!(apportion(10, &[]).is_empty());
        assert_eq!(apportion(10, &parts(&[0, 0])), [0, 0]);
        assert_eq!(
            apportion(9, &[WeightedClaim::fraction(TenantId(0), f64::NAN)]),
            [0]
        );
    }

    proptest! {
        #[test]
        fn everything_is_given_and_each_is_within_a_page_of_its_quota(
            total: u64, weights in prop::collection::vec(any::<u64>(), 1..40),
        ) {
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            prop_assume!(sum > 0);
            let shares = apportion(total, &parts(&weights));
            prop_assert_eq!(shares.iter().map(|&share| u128::from(share)).sum::<u128>(), u128::from(total));
            for (&share, &weight) in shares.iter().zip(&weights) {
                let quota = u128::from(total) * u128::from(weight) / sum;
                prop_assert!((quota..=quota + 1).contains(&u128::from(share)));
            }
        }
    }
}
