//! Hosts that lend each other memory: who lends what to whom (`control`), and how pages go there and come back.
//!
//! ```text
//!            borrower                                       lender
//!   outbox ──► courier ────── Write, one connection ──────► page server ──► lent blocks
//!          ◄── settle  ◄───── Done ───────────────────────
//!   a get  ──► fetcher ────── Read, one a thread ─────────► page server ◄── lent blocks
//!          ◄── a page  ◄───── Data ───────────────────────
//! ```
//!
//! Who may connect, which block an index stands for, and which leases there are is what the control connections know.
//! Begin at `lending`. `far_memory` and `lease_routes` are what other threads see.

mod by_peer;
mod byte_buffers;
pub mod certificate_expiry;
pub mod cluster;
pub(crate) mod cluster_events;
pub(crate) mod cluster_figures;
mod cluster_peers;
pub mod control;
pub mod courier;
pub mod far_memory;
pub mod lease_routes;
pub mod lender_session;
pub mod lending;
pub(crate) mod lending_figures;
pub mod lost_writes;
pub mod membership;
mod outgoing_socket;
pub mod page_faults;
pub mod page_fetcher;
mod page_ranges;
pub mod page_server;
mod peer_event_reasons;
pub(crate) mod peer_events;
pub mod policy_wish;
#[cfg(test)]
pub(crate) mod tests;
pub mod ticket_check;
mod topology;
