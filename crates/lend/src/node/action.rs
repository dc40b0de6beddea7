//! What a node wants done.

use std::collections::VecDeque;
use std::time::Duration;

use crate::control::{ControlMessage, Version};
use crate::ids::{
    ConnectionId, Incarnation, LeaseId, LentBlock, NodeName, PeerId, SessionId, SessionNonce,
};
use crate::index_set::{IndexRange, IndexRanges};
use crate::node::event::{LendingEvent, RecallReason, ReturnReason};

/// The most messages that wait to be taken. A connection whose message finds no room is closed.
pub const SENDS_QUEUED_MAX: usize = 16 << 10;

/// The most events that wait to be taken. Others are dropped and counted.
pub(super) const EVENTS_QUEUED_MAX: usize = 16 << 10;

/// What a node wants done. All amounts are blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LendingAction {
    /// Connect to a peer. The answer is `Connected` or `ConnectFailed`.
    Connect {
        /// To whom.
        peer: PeerId,
    },
    /// Send a message.
    Send {
        /// On which connection.
        connection: ConnectionId,
        /// The message.
        message: ControlMessage,
    },
    /// Close a connection when all that was sent is out.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// A session is there. Data connections may be opened for it.
    OpenSession {
        /// With whom.
        peer: PeerId,
        /// The control connection.
        connection: ConnectionId,
        /// What both speak.
        version: Version,
        /// The peer's run.
        incarnation: Incarnation,
        /// This node's number of it: the peer's data connections name it.
        ours: SessionId,
        /// The peer's number of it: this node's data connections name it.
        theirs: SessionId,
        /// This node's random bytes.
        our_nonce: SessionNonce,
        /// The peer's random bytes.
        their_nonce: SessionNonce,
    },
    /// Close the data connections of a session.
    CloseSession {
        /// With whom.
        peer: PeerId,
        /// This node's number of it.
        ours: SessionId,
    },
    /// Set blocks aside for a peer. The answer is `BlocksLent`.
    LendBlocks {
        /// For whom.
        peer: PeerId,
        /// How many.
        blocks: u32,
    },
    /// Take blocks back that are in no lease any more.
    FreeBlocks {
        /// The blocks.
        blocks: Vec<LentBlock>,
        /// Why.
        reason: FreeReason,
    },
    /// Take lent blocks back, in the store's order. The answer is `BlocksTaken`.
    TakeLent {
        /// How many.
        blocks: u32,
        /// Why. The answer repeats it.
        reason: RecallReason,
    },
    /// Say how hot the lent blocks of a peer are. The answer is `Heats`.
    ReportHeats {
        /// The peer.
        peer: PeerId,
    },
    /// Make a new borrowed lease, with these indices ready.
    OpenLease {
        /// The lender.
        peer: PeerId,
        /// The lender's run.
        incarnation: Incarnation,
        /// The lease.
        lease: LeaseId,
        /// The indices.
        range: IndexRange,
    },
    /// Make more indices of a borrowed lease ready.
    ExtendLease {
        /// The lender.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
        /// The indices.
        range: IndexRange,
    },
    /// Forget what is in borrowed blocks: the lender took them.
    ForgetBlocks {
        /// The lender.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
        /// The indices.
        ranges: IndexRanges,
    },
    /// Neither read nor write the leases of a lender for now: the connection is lost. `CloseSession` comes before it.
    /// Only a host without sessions, such as a model, has to act on this one.
    SuspendLeases {
        /// The lender.
        peer: PeerId,
    },
    /// Read and write the leases of a lender again.
    ResumeLeases {
        /// The lender.
        peer: PeerId,
    },
    /// Forget a borrowed lease with all that is in it. With the last one of a lender ends its suspension.
    EndLease {
        /// The lender.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
    },
    /// Empty borrowed blocks of a lender, at most so many, and give them back. The answers are `BlocksReturned`.
    ChooseReturns {
        /// The lender.
        peer: PeerId,
        /// How many.
        blocks: u32,
        /// Within what time.
        within: Duration,
        /// Why.
        reason: ReturnReason,
    },
    /// Log an event.
    Log(LendingEvent),
    /// Log that a node which is no member came with a certificate of the cluster. It comes once a name.
    LogStranger {
        /// Its name.
        name: NodeName,
    },
    /// The node has parted from all, as it was told.
    Left,
}

/// Why the store gets blocks back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeReason {
    /// The borrower returned them.
    Returned,
    /// The time of a notice is over.
    NoticeOver,
    /// The borrower does not claim them.
    Unclaimed,
    /// Their lease ended.
    LeaseEnded,
    /// They were set aside and not granted.
    NotGranted,
}

/// Actions that wait to be taken, in order. What the store must do is bounded by the blocks that there are.
#[derive(Debug, Default)]
pub(super) struct ActionQueue {
    actions: VecDeque<LendingAction>,
    sends: usize,
    events: usize,
    /// Events that found no room.
    pub(super) events_dropped: u64,
}

impl ActionQueue {
    /// Appends an action that is no message.
    pub(super) fn push(&mut self, action: LendingAction) {
        self.actions.push_back(action);
    }

    /// Appends a message. Returns whether there was room.
    pub(super) fn push_send(&mut self, connection: ConnectionId, message: ControlMessage) -> bool {
        let has_room = self.sends < SENDS_QUEUED_MAX;
        if has_room {
            self.sends += 1;
            self.actions.push_back(LendingAction::Send {
                connection,
                message,
            });
        }
        has_room
    }

    /// Appends an event if there is room.
    pub(super) fn push_event(&mut self, event: LendingEvent) {
        if self.events == EVENTS_QUEUED_MAX {
            self.events_dropped += 1;
            return;
        }
        self.events += 1;
        self.actions.push_back(LendingAction::Log(event));
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<LendingAction> {
        let action = self.actions.pop_front()?;
        match action {
            LendingAction::Send { .. } => self.sends -= 1,
            LendingAction::Log(_) => self.events -= 1,
            _ => {}
        }
        Some(action)
    }
}
