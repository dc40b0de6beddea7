//! A node as a member of its cluster: it registers under a lease, knows the others, and leads if it is elected.
//!
//! ```text
//!  lease      (none) ──Grant──► held ──Put──► registered ──Renew…──► gone: begin again
//!  view       unread ──Read──► read ──Watch──► watching ──cut──► read;  compacted ──► unread
//!  election   nobody leads ──Campaign──► somebody leads;  this node, and no more a candidate ──Resign──► nobody leads
//! ```
//!
//! The three go on beside each other, each with at most one call in flight. The driver makes the calls, in real time or
//! in virtual time, and hands their answers back. While the store is away, the members that were known stay known.
//!
//! The node leads while two things hold: the leader's key has the node's lease, and [`crate::lease_clock`] says that
//! the lease lives. It asks nobody, so it stops by itself when it is cut off.

mod election;
mod event;
mod lease_keeper;
mod machine;
mod random;
mod request;
mod retry_pause;
mod settings;
mod view;

pub use self::event::{ElectedLeader, MemberEvent};
pub use self::machine::{ClusterMember, EVENTS_WAITING_MAX};
pub use self::request::{ElectionRequest, LeaseRequest, StoreAnswer, StoreRequest, ViewRequest};
pub use self::settings::{Candidacy, MemberSettings, TTL_DEFAULT};
