//! Decides whether a lender is quick enough to be asked.
//!
//! ```text
//!            far > 80 % of backing
//!     Open ─────────────────────────► Shut
//!      ▲    requests are measured       │   pings are measured, one each 100 ms
//!      └────────────────────────────────┘
//!            far < 50 % of backing
//! ```
//!
//! *Far* is the average time of a request to the lender. A request that timed out counts with its time limit. *Backing*
//! is the average cost of a miss. A lender is worth asking if it answers sooner than the backing would. So both
//! thresholds are fractions of the backing's latency: a lender that answers in 2 ms spares a slow disk much and an NVMe
//! disk nothing.
//!
//! Between the two, what a page from the lender saves is little, and it costs CPU time at both ends. A lender that is not
//! [much quicker](is_much_quicker) than a backing is borrowed less of, and sent less.
//!
//! PUMA (Lorrillere and others, SYSTOR 2015, sections 3.3.2 and 4.5) compares with constants. Its rule is here for
//! figures beside ours.

mod average;
mod lender_guard;
mod puma;

pub use lender_guard::{
    GuardChange, GuardPolicy, GuardState, LenderGuard, MUCH_QUICKER, RING_MISS, is_much_quicker,
};
