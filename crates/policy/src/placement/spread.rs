//! `spread`: Algorithm 3's order, but only a part of a wish from one lender, and near lenders first.
//!
//! A lender that needs its memory back then hurts each borrower little. A borrower whose far memory is at four nodes
//! loses a quarter of it with one. Wishes come bit by bit, so that what a lender lends already counts.

use super::advice::{Advice, AdviceReason};
use super::borrowers::Wish;
use super::lender_pool::{LenderPlace, LenderPool, PooledLender};
use super::report::{LoanPair, Loans};

/// How much may come from one lender.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpreadLimits {
    /// This many blocks in any case.
    pub(super) blocks: u32,
    /// This many hundredths, if that is more.
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
    loans: &dyn Loans,
    lenders: &mut LenderPool,
    limits: SpreadLimits,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    for wish in wishes {
        place_one(wish, loans, lenders, limits, &mut advice);
    }
    advice
}

/// First those are named that then lend the borrower no more than its part of all that it has and wants. If they have
/// too little, the others are. A lender is named once.
fn place_one(
    wish: &Wish,
    loans: &dyn Loans,
    lenders: &mut LenderPool,
    limits: SpreadLimits,
    advice: &mut Vec<Advice>,
) {
    let of_wish = limits.of_one(wish.blocks);
    let has_and_wants = wish.borrower.borrowed.saturating_add(wish.borrower.wanted);
    let in_all = limits.of_one(has_and_wants);
    let Some(richest) = lenders.largest().map(|lender| lender.left) else {
        return;
    };
    let mut served = ServedWish {
        wish,
        left: wish.blocks,
        named: Vec::new(),
        advice,
    };
    let mut full = Vec::new();
    while served.left > 0
        && let Some(chosen) = next(wish, lenders, richest, in_all)
    {
        let pair = LoanPair {
            lender: chosen.lender.node,
            borrower: wish.borrower.node,
        };
        let next = served.next_from(chosen.lender, of_wish);
        lenders.set_aside(chosen.lender.place);
        match loans.blocks(pair).saturating_add(next) <= in_all {
            true => served.name(lenders, chosen, of_wish),
            false => full.push(chosen.lender.place),
        }
    }
    full.into_iter().for_each(|place| lenders.put_back(place));
    while served.left > 0
        && let Some(lender) = lenders.largest()
    {
        lenders.set_aside(lender.place);
        let reason = AdviceReason::OthersHaveTooLittle {
            lendable: lender.left,
            from_one: in_all,
        };
        served.name(lenders, ChosenLender { lender, reason }, of_wish);
    }
    served
        .named
        .into_iter()
        .for_each(|place| lenders.put_back(place));
}

/// A wish while lenders are named for it.
struct ServedWish<'a> {
    wish: &'a Wish,
    /// What is missing yet, in blocks.
    left: u32,
    /// They stay aside until all of the wish is served.
    named: Vec<LenderPlace>,
    advice: &'a mut Vec<Advice>,
}

impl ServedWish<'_> {
    /// What the lender would be named for, if it is to be at most so many blocks.
    fn next_from(&self, lender: PooledLender, most: u32) -> u32 {
        self.left.min(most).min(lender.left)
    }

    /// Names a lender that is aside, for at most so many blocks.
    fn name(&mut self, lenders: &mut LenderPool, chosen: ChosenLender, most: u32) {
        let ChosenLender { lender, reason } = chosen;
        let blocks = self.next_from(lender, most);
        lenders.take_aside(lender.place, blocks);
        self.named.push(lender.place);
        self.left -= blocks;
        self.advice.push(Advice {
            borrower: self.wish.borrower.node,
            lender: lender.node,
            blocks,
            reason,
            shortage: self.wish.shortage,
        });
    }
}

/// A lender, and why it was chosen.
struct ChosenLender {
    lender: PooledLender,
    reason: AdviceReason,
}

/// The rich lenders of the borrower's rack, then all others, the largest first.
fn next(
    wish: &Wish,
    lenders: &mut LenderPool,
    richest: u32,
    from_one: u32,
) -> Option<ChosenLender> {
    let near = wish.borrower.rack.and_then(|rack| lenders.largest_in(rack));
    let is_rich = |lender: &PooledLender| lender.left.saturating_mul(RICH_WITHIN) >= richest;
    if let Some(lender) = near.filter(is_rich) {
        let lendable = lender.left;
        let reason = AdviceReason::SameRack { lendable, from_one };
        return Some(ChosenLender { lender, reason });
    }
    let lender = lenders.largest()?;
    let lendable = lender.left;
    let reason = AdviceReason::MostLendable { lendable, from_one };
    Some(ChosenLender { lender, reason })
}
