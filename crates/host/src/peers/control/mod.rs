//! This host among those that it lends to and borrows from: control connections, sessions and leases.
//!
//! ```text
//!  peers ◄──lines over TLS──► control thread ◄──inputs, actions──► `LendingNode`
//!                                   │  │
//!               blocks lent, taken, │  │ sessions, leases, loans
//!               leases opened, ended▼  ▼
//!                                store  tables ◄── threads that carry pages
//! ```
//!
//! One thread drives the state machine of `lend`. It alone changes the tables. Threads that carry pages read them. A
//! connection that opens with `S` carries pages, and its socket goes to whoever serves those.

mod connection;
mod control_plane;
mod control_plane_error;
mod control_thread;
mod dialer;
mod grant_turn;
mod members;
mod newcomers;
mod notices;
mod peer_tables;
mod refusals;
mod sessions;
mod settings;
mod socket_options;
mod store_work;
#[cfg(test)]
mod tests;

pub use self::control_plane::{ControlPlane, ControlPlaneParts, ControlTeller};
pub use self::control_plane_error::ControlPlaneError;
pub use self::members::{ChangedMembers, ControlMember, MemberTable};
pub use self::notices::{PeerNotice, PeerObserver, ServePageConnections};
pub use self::peer_tables::{PeerLeases, PeerTables};
pub use self::refusals::{REFUSED_PARTIES_MAX, RefusalCounts, RefusedParty};
pub use self::sessions::{PeerSession, SessionTable, node_number};
pub use self::settings::ControlPlaneSettings;
