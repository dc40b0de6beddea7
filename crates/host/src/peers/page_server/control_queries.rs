//! What the page server asks of the control connections: who may connect, and which block an index stands for.

use sublet_lend::ids::{LeaseId, PeerId, SessionId};
use sublet_lend::lender::LoanLookup;
use sublet_lend::wire::{AdmissionError, ConnectionKeys, HelloMessage, NewestWrite};

use crate::peers::page_faults::{FaultParty, PageFault};

/// A page connection that was let in.
#[derive(Clone, Debug)]
pub struct AdmittedConnection {
    /// The borrower.
    pub peer: PeerId,
    /// The control session that the connection belongs to.
    pub session: SessionId,
    /// The keys of the connection's codes.
    pub keys: ConnectionKeys,
    /// Which of the session's write connections counts.
    pub newest_write: NewestWrite,
}

/// Why a page connection is not let in. It is closed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionRefused {
    /// No control connection has this session.
    #[error(
        "the hello names session {0}, which no control connection has; connect the control connection first"
    )]
    NoSession(u64),
    /// The session does not let it in.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
}

/// Lets page connections into control sessions. Any thread asks, and none may wait long.
pub trait AdmitConnections: Send + Sync {
    /// Checks a hello, and counts its connection as open.
    ///
    /// # Errors
    ///
    /// The session is unknown, or does not let the connection in.
    fn admit(&self, hello: &HelloMessage) -> Result<AdmittedConnection, ConnectionRefused>;

    /// Counts a connection of a session as closed. The session may have ended before.
    fn release(&self, session: SessionId);

    /// Takes notice of what a borrower, or whoever connected, does wrong.
    fn report(&self, party: FaultParty, fault: PageFault);
}

/// Finds the block that an index of a lease stands for. Any thread asks, and none may wait long.
pub trait FindLentBlocks: Send + Sync {
    /// Looks an index up for a connection of a session.
    fn find(&self, peer: PeerId, session: SessionId, lease: LeaseId, index: u32) -> LoanLookup;
}
