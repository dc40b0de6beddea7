//! One node among its peers: a state machine over all control connections. It reads no clock and sends nothing itself.
//!
//! The host feeds [`LendingInput`]s by [`LendingNode::handle`], and carries out each [`LendingAction`] in order.
//!
//! ```text
//!  link:  Away ──dial──▶ Connecting ──▶ Greeting ──hello, hello──▶ Up ──silence, cut──▶ Away
//!                                          │ no common version        │ flood, lie, denied
//!                                          ▼                          ▼
//!                                     Incompatible                Shut, Denied
//! ```
//!
//! Of two nodes the one with the lesser name dials. A new connection replaces the old one.

mod action;
mod borrowing;
mod counters;
mod event;
mod flood;
mod input;
mod lending;
mod link;
mod links;
mod liveness;
mod machine;
mod recalls;
mod roles;
mod settings;
mod status;

pub use action::{FreeReason, LendingAction, SENDS_QUEUED_MAX};
pub use counters::PeerCounters;
pub use event::{
    BorrowEnd, LendingChange, LendingEvent, LinkLoss, LoanEnd, RecallReason, ReturnReason,
};
pub use input::{LendingInput, LoanShortfall};
pub use link::{LinkState, ShutCause};
pub use machine::{LendingNode, TICK_EVERY};
pub use roles::{LEND_AGAIN_AFTER, ROLE_PAUSE};
pub use settings::{LendTo, MemberSettings, NodeSettings, NodeSettingsError, PEERS_MAX};
pub use status::{LendingPhase, LendingStatus, PeerStatus};
