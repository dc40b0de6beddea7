//! `greedy-remote`: a node that needs memory asks for a little at a time (vMCA, §III-D).
//!
//! "greedy-remote issues a Grant-Any to the MM-M requesting 1000 of pages when the MM detects that the node needs
//! memory." That is two blocks. The paper does not say who is asked: here it is the node that can lend most.

use super::advice::{Advice, AdviceReason};
use super::borrowers::Borrower;
use super::lender_pool::LenderPool;

/// Advises each borrower to ask for `request` blocks at most.
pub(super) fn place(borrowers: &[Borrower], lenders: &mut LenderPool, request: u32) -> Vec<Advice> {
    let mut advice = Vec::new();
    for borrower in borrowers {
        let Some(lender) = lenders.largest() else {
            break;
        };
        let blocks = borrower.wanted.min(request).min(lender.left);
        lenders.take(lender.place, blocks);
        advice.push(Advice {
            borrower: borrower.node,
            lender: lender.node,
            blocks,
            reason: AdviceReason::SmallRequest {
                lendable: lender.left,
                request,
            },
            shortage: None,
        });
    }
    advice
}
