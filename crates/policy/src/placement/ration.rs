//! Who is to have how much when all want more than there is (max-min fairness).
//!
//! Memory goes block by block to the borrower that has least of others. So those that wait rise to one level:
//!
//! ```text
//!                  █
//! ──▒──▒──────▒────█── level L     granted = clamp(L − borrowed, 0, wanted)
//!   █  ▒  ▒   ▒    █               █ borrowed already, ▒ granted
//!   █  ▒  ▒   █    █
//! ```

use super::advice::ShortageReason;
use super::borrowers::{Borrower, Wish};

/// Each gets what it wants, until it has as much of others as the rest. Who came first does not keep its lead.
pub(super) fn up_to_a_level(borrowers: &[Borrower], lendable: u64) -> Vec<Wish> {
    let wanted = borrowers.iter().map(|borrower| u64::from(borrower.wanted));
    let wanted_by_all = wanted.sum();
    let granted = share_out(borrowers, lendable);
    let wish = |(borrower, blocks): (&Borrower, u32)| Wish {
        borrower: *borrower,
        blocks,
        shortage: (blocks < borrower.wanted).then_some(ShortageReason::EqualLevel {
            wanted: borrower.wanted,
            wanted_by_all,
            lendable,
        }),
    };
    borrowers.iter().zip(granted).map(wish).collect()
}

/// What each gets of `supply` blocks.
fn share_out(borrowers: &[Borrower], supply: u64) -> Vec<u32> {
    let level = level_of(borrowers, supply);
    let mut left = supply - granted_to_all(borrowers, level);
    let granted = borrowers.iter().map(|borrower| borrower.granted_at(level));
    let mut granted: Vec<u32> = granted.collect();
    // There is too little for one level more. The first in order get what is left.
    for (borrower, blocks) in borrowers.iter().zip(&mut granted) {
        if left > 0 && borrower.granted_at(level + 1) > *blocks {
            *blocks += 1;
            left -= 1;
        }
    }
    granted
}

/// The highest level for which `supply` is enough, or the one at which nobody wants more. It is found by halving.
fn level_of(borrowers: &[Borrower], supply: u64) -> u64 {
    let tops = borrowers
        .iter()
        .map(|borrower| u64::from(borrower.borrowed) + u64::from(borrower.wanted));
    let (mut fits, mut exceeds) = (0, tops.max().unwrap_or(0) + 1);
    while exceeds - fits > 1 {
        let middle = fits.midpoint(exceeds);
        if granted_to_all(borrowers, middle) <= supply {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    fits
}

/// What all get together, if they rise to a level.
fn granted_to_all(borrowers: &[Borrower], level: u64) -> u64 {
    let granted = borrowers
        .iter()
        .map(|borrower| u64::from(borrower.granted_at(level)));
    granted.sum()
}

impl Borrower {
    /// What it gets if it rises to a level.
    fn granted_at(&self, level: u64) -> u32 {
        let lacks = level.saturating_sub(self.borrowed.into());
        lacks.min(self.wanted.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::NodeNumber;
    use super::*;
    use proptest::prelude::*;

    fn borrower(borrowed: u32, wanted: u32) -> Borrower {
        Borrower {
            node: NodeNumber(0),
            rack: None,
            wanted,
            borrowed,
        }
    }

    /// Block by block, as the text says it.
    fn block_by_block(borrowers: &[Borrower], supply: u64) -> Vec<u32> {
        let mut granted = vec![0u32; borrowers.len()];
        for _ in 0..supply {
            let open = (0..borrowers.len()).filter(|&n| granted[n] < borrowers[n].wanted);
            match open.min_by_key(|&n| borrowers[n].borrowed + granted[n]) {
                Some(n) => granted[n] += 1,
                None => break,
            }
        }
        granted
    }

    proptest! {
        #[test]
        fn blocks_go_one_by_one_to_who_has_least(
            amounts in prop::collection::vec((0u32..80, 0u32..30), 0..12),
            supply in 0u64..250,
        ) {
            let borrowers: Vec<Borrower> =
                amounts.into_iter().map(|(borrowed, wanted)| borrower(borrowed, wanted)).collect();
            prop_assert_eq!(share_out(&borrowers, supply), block_by_block(&borrowers, supply));
        }
    }

    #[test]
    fn amounts_at_their_ends_do_not_overflow() {
        let borrowers = [borrower(u32::MAX, u32::MAX), borrower(0, u32::MAX)];
        assert_eq!(share_out(&borrowers, 7), [0, 7]);
        assert_eq!(share_out(&borrowers, u64::MAX), [u32::MAX, u32::MAX]);
    }
}
