//! What a node reports for the log, each with its reason.

use crate::control::{GrantLimit, LeaseEnd, Version, VersionRange};
use crate::ids::{LeaseId, PeerId};
use crate::node::link::ShutCause;

/// Something to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LendingEvent {
    /// With whom.
    pub peer: PeerId,
    /// What changed.
    pub change: LendingChange,
}

/// What changed between this node and a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LendingChange {
    /// They understand each other.
    Connected {
        /// What they speak.
        version: Version,
    },
    /// The connection is lost.
    Lost {
        /// Why.
        reason: LinkLoss,
    },
    /// They have no common version, and do not lend. It is logged once until the peer's versions change.
    Incompatible {
        /// What this node speaks.
        ours: VersionRange,
        /// What the peer speaks.
        theirs: VersionRange,
    },
    /// The peer is shut out for a while. It is logged once a cause.
    Shut {
        /// Why.
        cause: ShutCause,
    },
    /// The peer is denied.
    Denied,
    /// The peer wants to go.
    Leaving,
    /// The peer was granted blocks.
    Granted {
        /// The lease.
        lease: LeaseId,
        /// How many.
        blocks: u32,
        /// Why there are fewer than it asked for.
        limit: Option<GrantLimit>,
    },
    /// The peer was granted nothing. It is logged once until the reason changes.
    Refused {
        /// Why.
        limit: GrantLimit,
    },
    /// The peer has been asked for blocks back.
    RecallAsked {
        /// How many.
        blocks: u32,
        /// Why.
        reason: RecallReason,
    },
    /// Blocks were taken back from the peer.
    Recalled {
        /// The lease.
        lease: LeaseId,
        /// How many.
        blocks: u32,
        /// Why.
        reason: RecallReason,
    },
    /// Blocks that the peer does not claim were taken back.
    Unclaimed {
        /// The lease.
        lease: LeaseId,
        /// How many.
        blocks: u32,
    },
    /// A lease of the peer ended.
    LoanEnded {
        /// The lease.
        lease: LeaseId,
        /// How many blocks it had.
        blocks: u32,
        /// Why.
        reason: LoanEnd,
    },
    /// The peer granted blocks to this node.
    Borrowed {
        /// The lease.
        lease: LeaseId,
        /// How many.
        blocks: u32,
        /// Why there are fewer than it was asked for.
        limit: Option<GrantLimit>,
    },
    /// The peer granted nothing to this node. It is logged once until the reason changes.
    BorrowRefused {
        /// Why.
        limit: GrantLimit,
    },
    /// The peer asks for blocks back.
    ReturnAsked {
        /// How many.
        blocks: u32,
    },
    /// The peer took blocks back.
    TakenByLender {
        /// The lease.
        lease: LeaseId,
        /// How many.
        blocks: u32,
    },
    /// This node returned blocks.
    Returned {
        /// The lease.
        lease: LeaseId,
        /// How many.
        blocks: u32,
        /// Why.
        reason: ReturnReason,
    },
    /// A lease that this node has of the peer ended.
    BorrowEnded {
        /// The lease.
        lease: LeaseId,
        /// Why.
        reason: BorrowEnd,
    },
}

/// Why a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLoss {
    /// It ended.
    Ended,
    /// The peer said nothing for a second.
    Silent,
    /// The peer did not begin in time.
    NoHello,
    /// A newer connection replaces it.
    Replaced,
    /// The peer said goodbye.
    Bye,
    /// What is to be sent has no room.
    SendsFull,
    /// Nobody needed it for a minute.
    Idle,
}

/// Why blocks are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallReason {
    /// The host needs them.
    Host,
    /// The node's tenants want memory.
    Wanted,
    /// The node drains.
    Drain,
    /// An operator said so.
    Operator,
    /// The node leaves.
    Leaving,
    /// The time of a notice is over.
    NoticeOver,
}

/// Why a lease that this node gave ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoanEnd {
    /// The last block was returned.
    Returned,
    /// The last block was taken back.
    Recalled,
    /// The last block was not claimed.
    Unclaimed,
    /// The borrower stayed away for too long.
    Away,
    /// The borrower runs anew.
    OtherIncarnation,
    /// One of both said goodbye.
    Bye,
    /// The borrower is shut out.
    Shut,
}

/// Why a lease that this node has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorrowEnd {
    /// The lender said so.
    Lender(LeaseEnd),
    /// The lender stayed away for too long.
    Away,
    /// The lender runs anew.
    OtherIncarnation,
    /// One of both said goodbye.
    Bye,
    /// The lender is shut out.
    Shut,
}

/// Why a borrower gives blocks back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnReason {
    /// The lender asks for them.
    Recalled,
    /// They held nothing, or nobody read them for long.
    Unused,
    /// They do not fit what the node may hold.
    NoRoom,
    /// One of both leaves.
    Leaving,
}
