//! `two-choices`: of two lenders that are drawn, the freer one (Mitzenmacher 2001). A borrower without a leader does
//! the same on its own.

use super::advice::{Advice, AdviceReason};
use super::borrowers::Borrower;
use super::draws::DrawStream;
use super::lender_pool::{LenderPlace, LenderPool};

/// Advises each borrower, one after the other, until it has all or nobody has any.
pub(super) fn place(
    borrowers: &[Borrower],
    lenders: &mut LenderPool,
    draws: &mut DrawStream,
) -> Vec<Advice> {
    let mut open: Vec<LenderPlace> = lenders.places();
    let mut advice = Vec::new();
    for borrower in borrowers {
        let mut wanted = borrower.wanted;
        while wanted > 0 && !open.is_empty() {
            let drawn = [draws.below(open.len()), draws.below(open.len())];
            let [first, second] = drawn.map(|n| (n, lenders.lender(open[n])));
            let ((n, lender), (_, other)) = match first.1.left >= second.1.left {
                true => (first, second),
                false => (second, first),
            };
            let blocks = wanted.min(lender.left);
            lenders.take(lender.place, blocks);
            if blocks == lender.left {
                open.swap_remove(n);
            }
            wanted -= blocks;
            advice.push(Advice {
                borrower: borrower.node,
                lender: lender.node,
                blocks,
                reason: AdviceReason::FreerOfTwo {
                    lendable: lender.left,
                    other: other.left,
                },
                shortage: None,
            });
        }
    }
    advice
}
