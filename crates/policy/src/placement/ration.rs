//! Who is to have how much when all want more than there is.
//!
//! Memory goes block by block to the borrower that stands highest. A block lowers it by one. Under max-min all begin as
//! low as what they have already, and under Karma at their credits. So one function does both:
//!
//! ```text
//!   █            level L: what stands above it is granted, at most what is wanted
//!   █  █
//! ──█──█─────█── L       granted = clamp(height − L, 0, wanted)
//!   █  █  █  █
//! ```

use super::advice::ShortageReason;
use super::borrowers::{Borrower, Wish};

/// Each gets what it wants, until it has as much of others as the rest (max-min fairness). Who came first does not keep
/// its lead.
pub(super) fn by_size(borrowers: &[Borrower], lendable: u64) -> Vec<Wish> {
    let wanted_by_all = borrowers
        .iter()
        .map(|borrower| u64::from(borrower.wanted))
        .sum();
    ration(
        borrowers,
        lendable,
        |borrower| -i64::from(borrower.borrowed),
        |borrower| ShortageReason::EqualLevel {
            wanted: borrower.wanted,
            wanted_by_all,
            lendable,
        },
    )
}

/// Who has lent most gets first (Karma, OSDI '23).
pub(super) fn by_credits(borrowers: &[Borrower], lendable: u64) -> Vec<Wish> {
    ration(
        borrowers,
        lendable,
        |borrower| borrower.credits,
        |borrower| ShortageReason::FewCredits {
            wanted: borrower.wanted,
            credits: borrower.credits,
        },
    )
}

fn ration(
    borrowers: &[Borrower],
    lendable: u64,
    height: impl Fn(&Borrower) -> i64,
    why: impl Fn(&Borrower) -> ShortageReason,
) -> Vec<Wish> {
    let heights: Vec<(i64, u32)> = borrowers
        .iter()
        .map(|borrower| (height(borrower), borrower.wanted))
        .collect();
    let granted = share_out(&heights, lendable);
    let wishes = borrowers
        .iter()
        .zip(granted)
        .map(|(borrower, blocks)| Wish {
            borrower: *borrower,
            blocks,
            shortage: (blocks < borrower.wanted).then(|| why(borrower)),
        });
    wishes.collect()
}

/// What each gets of `supply` blocks, by its height and what it wants.
fn share_out(heights: &[(i64, u32)], supply: u64) -> Vec<u32> {
    let wanted: u64 = heights.iter().map(|(_, wanted)| u64::from(*wanted)).sum();
    if wanted <= supply {
        return heights.iter().map(|(_, wanted)| *wanted).collect();
    }
    let level = level_of(heights, supply);
    let above = |(height, wanted): &(i64, u32), level: i64| {
        height.saturating_sub(level).clamp(0, i64::from(*wanted)) as u32
    };
    let mut granted: Vec<u32> = heights.iter().map(|one| above(one, level)).collect();
    let sum: u64 = granted.iter().map(|blocks| u64::from(*blocks)).sum();
    // One level deeper would be too much. The first in order get what is left.
    let mut left = supply.saturating_sub(sum);
    for (one, blocks) in heights.iter().zip(&mut granted) {
        if left > 0 && above(one, level - 1) > *blocks {
            *blocks += 1;
            left -= 1;
        }
    }
    granted
}

/// The lowest level above which there is no more than `supply`. It is found by halving.
fn level_of(heights: &[(i64, u32)], supply: u64) -> i64 {
    let above = |level: i64| -> u64 {
        let parts = heights.iter().map(|(height, wanted)| {
            height.saturating_sub(level).clamp(0, i64::from(*wanted)) as u64
        });
        parts.sum()
    };
    let tops = heights.iter().map(|(height, _)| *height);
    let bottoms = heights
        .iter()
        .map(|(height, wanted)| height.saturating_sub(i64::from(*wanted)));
    let (mut fits, mut exceeds) = (tops.max().unwrap_or(0), bottoms.min().unwrap_or(0));
    while fits.saturating_sub(exceeds) > 1 {
        let middle = exceeds.midpoint(fits);
        if above(middle) <= supply {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Block by block, as the text says it.
    fn block_by_block(heights: &[(i64, u32)], supply: u64) -> Vec<u32> {
        let mut granted = vec![0u32; heights.len()];
        for _ in 0..supply {
            let open = (0..heights.len()).filter(|&n| granted[n] < heights[n].1);
            let highest =
                open.max_by_key(|&n| (heights[n].0 - i64::from(granted[n]), std::cmp::Reverse(n)));
            match highest {
                Some(n) => granted[n] += 1,
                None => break,
            }
        }
        granted
    }

    proptest! {
        #[test]
        fn blocks_go_one_by_one_to_the_highest(
            heights in prop::collection::vec((-40i64..40, 0u32..30), 0..12),
            supply in 0u64..250,
        ) {
            prop_assert_eq!(share_out(&heights, supply), block_by_block(&heights, supply));
        }
    }

    #[test]
    fn heights_at_their_ends_do_not_overflow() {
        let heights = [(i64::MAX, u32::MAX), (i64::MIN, u32::MAX)];
        assert_eq!(share_out(&heights, 7), [7, 0]);
    }
}
