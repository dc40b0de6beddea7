//! A Fenwick tree over stamps: it counts how many stamps before a given one still stand.

/// Counts of standing stamps, by age. It holds as many stamps as it was made for.
#[derive(Clone, Debug, Default)]
pub(crate) struct FenwickTree {
    /// `sums[n - 1]` covers the stamps from n minus its lowest set bit up to n.
    sums: Vec<u32>,
}

impl FenwickTree {
    /// A tree for `capacity` stamps, the first `standing` of which stand.
    pub(crate) fn new(capacity: usize, standing: usize) -> FenwickTree {
        let covered = |n: usize| {
            let low = n & n.wrapping_neg();
            n.min(standing).saturating_sub(n - low) as u32
        };
        FenwickTree {
            sums: (1..=capacity).map(covered).collect(),
        }
    }

    /// Makes a stamp stand.
    pub(crate) fn raise(&mut self, stamp: usize) {
        self.walk(stamp, |sum| sum + 1);
    }

    /// Marks a stamp that stood as fallen.
    pub(crate) fn fell(&mut self, stamp: usize) {
        self.walk(stamp, |sum| sum - 1);
    }

    /// How many stamps stand up to and including this one.
    pub(crate) fn standing_up_to(&self, stamp: usize) -> usize {
        let mut n = stamp + 1;
        let mut sum = 0;
        while n > 0 {
            sum += self.sums[n - 1] as usize;
            n &= n - 1;
        }
        sum
    }

    fn walk(&mut self, stamp: usize, change: impl Fn(u32) -> u32) {
        let mut n = stamp + 1;
        while n <= self.sums.len() {
            self.sums[n - 1] = change(self.sums[n - 1]);
            n += n & n.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_counts_as_a_plain_list_does(standing in 0usize..50, turns in prop::collection::vec(0usize..50, 0..100)) {
            let mut plain: Vec<bool> = (0..50).map(|n| n < standing).collect();
            let mut fenwick = FenwickTree::new(50, standing);
            for stamp in turns {
                if plain[stamp] { fenwick.fell(stamp) } else { fenwick.raise(stamp) }
                plain[stamp] = !plain[stamp];
                let count = plain[..=stamp].iter().filter(|stands| **stands).count();
                prop_assert_eq!(fenwick.standing_up_to(stamp), count);
            }
            prop_assert_eq!(fenwick.standing_up_to(49), plain.iter().filter(|stands| **stands).count());
        }
    }
}
