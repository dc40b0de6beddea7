//! `two-level`: the second level of vMCA's two (§III-D, *TLP*), as printed.
//!
//! ```text
//! Algorithm 3   np ← id and tmem of every node, sorted by tmem, most first
//!               for every node of np, while n > 0:
//!                 diff ← tmem - n
//!                 if diff > R:                  send Grant-Fwd(n, id, x); n ← 0
//!                 else if diff < R ∧ tmem ≥ R:  send Grant-Fwd(tmem - R, id, x); n ← n - (tmem - R)
//! ```
//!
//! - Nothing is sent if diff = R: such a node is passed over, as printed.
//! - tmem is what a node can lend. R is the knob `reserve`, and is taken off before.
//! - A request that is served lowers what the next one finds, as the extended statistics of the MM-M would say.
//! - A request for no pages is not sent.

use super::advice::{Advice, AdviceReason};
use super::borrowers::Borrower;
use super::lender_pool::{LenderPool, PooledLender};

/// Advises each borrower, one after the other.
pub(super) fn place(borrowers: &[Borrower], lenders: &mut LenderPool) -> Vec<Advice> {
    let mut advice = Vec::new();
    for borrower in borrowers {
        place_one(borrower, lenders, &mut advice);
    }
    advice
}

fn place_one(borrower: &Borrower, lenders: &mut LenderPool, advice: &mut Vec<Advice>) {
    let mut wanted = borrower.wanted;
    // Nodes that have exactly what is wanted are passed over, all of them in one step.
    let mut passed_over = None;
    while wanted > 0 {
        let lender = match passed_over {
            Some(left) => lenders.largest_below(left),
            None => lenders.largest(),
        };
        let Some(lender) = lender else {
            return;
        };
        if lender.left == wanted {
            passed_over = Some(lender.left);
            continue;
        }
        let blocks = wanted.min(lender.left);
        lenders.take(lender.place, blocks);
        advice.push(to_borrow(borrower, &lender, blocks));
        wanted -= blocks;
    }
}

fn to_borrow(borrower: &Borrower, lender: &PooledLender, blocks: u32) -> Advice {
    let lendable = lender.left;
    let reason = match blocks < lendable {
        true => AdviceReason::MostForAll { lendable },
        false => AdviceReason::MostForPart { lendable },
    };
    Advice {
        borrower: borrower.node,
        lender: lender.node,
        blocks,
        reason,
        shortage: None,
    }
}
