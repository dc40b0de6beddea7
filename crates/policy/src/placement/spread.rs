//! `spread`: Algorithm 3's order, but only a part of a wish from one lender, and near lenders first.
//!
//! A lender that needs its memory back then hurts each borrower little. A borrower whose far memory is at four nodes
//! loses a quarter of it with one.

use super::advice::{Advice, AdviceReason};
use super::borrowers::Wish;
use super::lender_pool::{LenderPool, PooledLender};

/// How much may come from one lender.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpreadLimits {
    /// This many blocks in any case.
    pub(super) blocks: u32,
    /// This many hundredths of the wish, if that is more.
    pub(super) percent: f64,
}

impl SpreadLimits {
    fn of_one(self, wish: u32) -> u32 {
        let part = (f64::from(wish) * self.percent / 100.0).ceil();
        self.blocks.max(part as u32)
    }
}

/// A lender counts as rich if no other has more than so many times what it has.
const RICH_WITHIN: u32 = 2;

/// Advises each borrower, one after the other.
pub(super) fn place(
    wishes: &[Wish],
    lenders: &mut LenderPool,
    limits: SpreadLimits,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    for wish in wishes {
        place_one(wish, lenders, limits, &mut advice);
    }
    advice
}

fn place_one(
    wish: &Wish,
    lenders: &mut LenderPool,
    limits: SpreadLimits,
    advice: &mut Vec<Advice>,
) {
    let from_one = limits.of_one(wish.blocks);
    let Some(richest) = lenders.largest().map(|lender| lender.left) else {
        return;
    };
    let mut left = wish.blocks;
    let mut asked = Vec::new();
    while left > 0 {
        let Some((lender, reason)) = next(wish, lenders, richest, from_one) else {
            break;
        };
        let blocks = left.min(from_one).min(lender.left);
        // A lender is asked once: it stays aside until the borrower is served.
        lenders.set_aside(lender.place);
        lenders.take_aside(lender.place, blocks);
        asked.push(lender.place);
        left -= blocks;
        advice.push(Advice {
            borrower: wish.borrower.node,
            lender: lender.node,
            blocks,
            reason,
            shortage: wish.shortage,
        });
    }
    asked.into_iter().for_each(|place| lenders.put_back(place));
}

/// The rich lenders of the borrower's rack, then all others, the largest first.
fn next(
    wish: &Wish,
    lenders: &mut LenderPool,
    richest: u32,
    from_one: u32,
) -> Option<(PooledLender, AdviceReason)> {
    let near = wish.borrower.rack.and_then(|rack| lenders.largest_in(rack));
    let is_rich = |lender: &PooledLender| lender.left.saturating_mul(RICH_WITHIN) >= richest;
    if let Some(lender) = near.filter(is_rich) {
        let lendable = lender.left;
        return Some((lender, AdviceReason::SameRack { lendable, from_one }));
    }
    let lender = lenders.largest()?;
    let lendable = lender.left;
    Some((lender, AdviceReason::MostLendable { lendable, from_one }))
}
