//! Why blocks go back that a store has emptied: a lender asked for so many, or nobody used them.

use std::collections::BTreeMap;

use super::event::ReturnReason;
use crate::ids::PeerId;

/// Blocks that one lender is to have back, and why.
#[derive(Clone, Copy, Debug)]
struct LenderReturns {
    /// Those that the store has not given back yet.
    left: u32,
    reason: ReturnReason,
}

/// What a store was asked to give back by [`ChooseReturns`](super::LendingAction::ChooseReturns) and has not given back
/// yet. Emptying takes time, so the answers come later.
#[derive(Debug, Default)]
pub struct ChosenReturns(BTreeMap<PeerId, LenderReturns>);

impl ChosenReturns {
    /// Records that the store has begun to empty blocks of a lender.
    pub fn choose(&mut self, lender: PeerId, blocks: u32, reason: ReturnReason) {
        if blocks > 0 {
            let returns = LenderReturns {
                left: blocks,
                reason,
            };
            self.0.insert(lender, returns);
        }
    }

    /// Records that blocks go back to a lender now. Returns why.
    pub fn give_back(&mut self, lender: PeerId, blocks: u32) -> ReturnReason {
        let Some(chosen) = self.0.get_mut(&lender) else {
            return ReturnReason::Unused;
        };
        let reason = chosen.reason;
        chosen.left = chosen.left.saturating_sub(blocks);
        if chosen.left == 0 {
            self.0.remove(&lender);
        }
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_back_for_the_reason_that_was_given_until_all_have_gone() {
        let (a, b) = (PeerId(0), PeerId(1));
        let mut returns = ChosenReturns::default();
        returns.choose(a, 3, ReturnReason::Recalled);
        returns.choose(b, 0, ReturnReason::Leaving);
        let mut reasons = [(a, 2), (b, 1), (a, 2), (a, 1)].into_iter();
        let mut next = || {
            let (lender, blocks) = reasons.next().expect("four");
            returns.give_back(lender, blocks)
        };
        assert_eq!(next(), ReturnReason::Recalled);
        assert_eq!(next(), ReturnReason::Unused, "nobody asked for any");
        assert_eq!(next(), ReturnReason::Recalled, "one of these was asked for");
        assert_eq!(next(), ReturnReason::Unused);
    }
}
