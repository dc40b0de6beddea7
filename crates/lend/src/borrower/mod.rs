//! The borrower's side: which leases it has of which lender, and whom it asks for how much.
//!
//! ```text
//!  lender:  Asked ──▶ Open ◀──same incarnation comes back── Suspect ──10 s, bye, other incarnation──▶ Ended
//!                      └──connection lost──▶ Suspect           (a lease also ends when its lender says so)
//! ```

mod ask_backoff;
mod borrow_table;
mod lender_choice;

pub use ask_backoff::{ASK_AGAIN_MAX, ASK_AGAIN_MIN, AskBackoff};
pub use borrow_table::{
    BorrowState, BorrowTable, BorrowedLease, EndedBorrow, GrantFault, GrantOutcome, RecalledPart,
    SUSPECT_FOR,
};
pub use lender_choice::{FROM_ONE_MIN, LenderCandidate, LenderShare, choose_lenders};
