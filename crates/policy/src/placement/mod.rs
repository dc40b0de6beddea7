//! Which node should borrow of which: the leader's advice, each second, from what all nodes report.
//!
//! A leader only advises. The lender decides what it grants, so that wrong advice costs a request and nothing else.
//! There is one file per policy, and [`catalogue`] is the table of them all. A node that wants memory lends none.
//!
//! ```text
//! reports ──▶ borrowers (wanted > 0) ──ration──▶ wishes ──┐
//!        └──▶ lenders (wanted = 0, lendable > reserve) ───┴─ policy ──▶ advice, each with its reason
//! ```
//!
//! Equal reports make equal advice, in whatever order they come. With n reports the work is n log n.

mod advice;
mod borrowers;
pub mod catalogue;
mod draws;
mod greedy_remote;
mod lender_pool;
mod ration;
mod report;
mod spread;
#[cfg(test)]
mod tests;
mod two_choices;
mod two_level;

pub use advice::{Advice, AdviceReason, ShortageReason};
pub use catalogue::{PlacementChoice, PlacementPolicy};
pub use draws::DrawStream;
pub use report::{LoanPair, Loans, NodeNumber, NodeReport, RackNumber};

use borrowers::borrowers_of;
use lender_pool::LenderPool;

/// Advises who should borrow of whom. `loans` says who has what already. `draw` is a fresh random number: it decides
/// between equals, and what a policy leaves to chance. No lender is named for more than it reports, and no borrower for more than it wants.
pub fn advise(
    reports: &[NodeReport],
    loans: &dyn Loans,
    choice: &PlacementChoice,
    draw: u64,
) -> Vec<Advice> {
    let mut lenders = LenderPool::new(reports, choice.reserve());
    place((reports, loans), choice, draw, &mut lenders)
}

/// What [`advise`] does, with lenders that count what is done with them.
fn place(
    (reports, loans): (&[NodeReport], &dyn Loans),
    choice: &PlacementChoice,
    draw: u64,
    lenders: &mut LenderPool,
) -> Vec<Advice> {
    let mut draws = DrawStream::new(draw);
    let borrowers = borrowers_of(reports, draws.bits());
    match choice.policy() {
        PlacementPolicy::GreedyRemote => {
            greedy_remote::place(&borrowers, lenders, choice.request())
        }
        PlacementPolicy::TwoLevel => two_level::place(&borrowers, lenders),
        PlacementPolicy::Spread => {
            let wishes = ration::up_to_a_level(&borrowers, lenders.left());
            spread::place(&wishes, loans, lenders, choice.spread_limits())
        }
        PlacementPolicy::TwoChoices => two_choices::place(&borrowers, lenders, &mut draws),
    }
}
