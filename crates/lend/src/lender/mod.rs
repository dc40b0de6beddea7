//! The lender's side: which blocks are in which lease of which peer, and how much a peer is granted.
//!
//! ```text
//!  lease:  Open ──last block gone (returned, taken)──▶ Ended          index:  Lent(block) ──▶ Gone, and never used again
//!            └────pair ends (bye, other incarnation, 10 s)──▶ Ended
//! ```
//!
//! The home of a block alone decides who uses it. A block is in at most one lease of this table, so that a partition
//! never gives a block two users.

mod audit;
mod grant_decision;
mod lent_lease;
mod loan_table;

pub use audit::{ClaimOutcome, HeldMismatch, UNCLAIMED_FOR};
pub use grant_decision::{GrantDecision, GrantInputs, LendLimits, LendMax, MaxEach, decide_grant};
pub use lent_lease::{IndexLookup, LEASE_WINDOW_MAX};
pub use loan_table::{
    EndedLease, FreedBlocks, KEPT_FOR, LeaseGrant, LoanLookup, LoanTable, TakenRanges,
};
