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
//! Among a few nodes each has a connection with each ([`Topology::FullMesh`]). Of two nodes the one with the lesser name
//! dials. A new connection replaces the old one.
//!
//! Among many, connections are made on demand ([`Topology::OnDemand`]): with the leader, and with nodes that one has a
//! lease with or asks. Whoever needs one dials. If both do at once, that of the lesser name stays. An idle one ends after
//! a minute. A borrower asks whom the leader advises. Without a leader it asks the freer of two members that it draws.

mod action;
mod borrowing;
mod chosen_returns;
mod cluster_view;
mod counters;
mod event;
mod flood;
mod following;
mod input;
mod leading;
mod lender_search;
mod lending;
mod link;
mod links;
mod links_on_demand;
mod liveness;
mod machine;
mod member_view;
mod membership;
mod on_demand;
mod recalls;
mod roles;
mod settings;
mod status;
mod told_view;

pub use action::{FreeReason, LendingAction, SENDS_QUEUED_MAX};
pub use chosen_returns::ChosenReturns;
pub use counters::PeerCounters;
pub use event::{
    BorrowEnd, LendingChange, LendingEvent, LinkLoss, LoanEnd, RecallReason, ReturnReason,
};
pub use following::LEADER_SILENT_AFTER;
pub use input::{LendingInput, LoanShortfall, MembersChange};
pub use leading::{LEADS_UNHEARD_MAX, STANDS_DOWN_FOR};
pub use link::{LinkState, ShutCause};
pub use links_on_demand::IDLE_AFTER;
pub use machine::{LendingNode, TICK_EVERY};
pub use membership::PEER_NUMBERS_MAX;
pub use roles::{LEND_AGAIN_AFTER, ROLE_PAUSE};
pub use settings::{
    LeaderNaming, LendTo, MEMBERS_MAX, MemberSettings, NodeSettings, NodeSettingsError,
    OnDemandSettings, PEERS_MAX, Presence, Topology,
};
pub use status::{FollowingStatus, LendingPhase, LendingStatus, PeerStatus};
pub use told_view::ToldView;
