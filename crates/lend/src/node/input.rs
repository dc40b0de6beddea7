//! What happens to a node.

use std::time::Duration;

use sublet_policy::placement::PlacementChoice;

use crate::control::{ControlLine, ControlMessage};
use crate::ids::{ConnectionId, LeaseId, LentBlock, NodeName, PeerId, SessionNonce, Term};
use crate::index_set::IndexRanges;
use crate::node::event::{RecallReason, ReturnReason};
use crate::node::settings::MemberSettings;

/// Why a store set fewer blocks aside than it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoanShortfall {
    /// It has no more memory.
    NoMemory,
    /// Others have their turn now. The borrower asks for the rest again.
    TurnOver,
}

/// A change of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersChange {
    /// Members that are new, or of which something else is new.
    pub added: Vec<MemberSettings>,
    /// Members that are no more.
    pub removed: Vec<NodeName>,
}

/// What happens to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LendingInput {
    /// Time has passed. It comes every [`super::TICK_EVERY`].
    Tick,
    /// A control connection is there, and TLS has checked the certificate. On demand, it is one that this node opened.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// The name that the certificate proves.
        name: NodeName,
        /// 32 fresh random bytes.
        nonce: SessionNonce,
    },
    /// As `Connected`, of a connection that the peer opened. In a full mesh both are the same.
    Accepted {
        /// The connection.
        connection: ConnectionId,
        /// The name that the certificate proves.
        name: NodeName,
        /// 32 fresh random bytes.
        nonce: SessionNonce,
    },
    /// An attempt to connect failed.
    ConnectFailed {
        /// To whom.
        peer: PeerId,
    },
    /// A connection brought a line.
    Heard {
        /// The connection.
        connection: ConnectionId,
        /// The line.
        line: ControlLine,
    },
    /// A connection brought bytes. Those of the lines that it brought are among them.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// How many, as TLS sends them.
        bytes: usize,
    },
    /// A connection brought what is no line of this protocol.
    Garbled {
        /// The connection.
        connection: ConnectionId,
    },
    /// A connection ended.
    Ended {
        /// The connection.
        connection: ConnectionId,
    },
    /// How many blocks the host can lend now, beyond those that it has lent.
    Lendable {
        /// The blocks.
        blocks: u32,
    },
    /// How large the arena may be and how much of that is free, in blocks, for the leader.
    Arena {
        /// What it may have.
        total: u32,
        /// What of that nobody uses.
        free: u32,
    },
    /// The members changed. Leases with members that are no more end by themselves.
    Members(MembersChange),
    /// An election has an outcome, if [`super::LeaderNaming::Elected`]. A leader of a lower term than that of an outcome
    /// before is ignored.
    Leader {
        /// Who leads. `None` if nobody does, or if it is not known.
        leader: Option<NodeName>,
        /// Its term.
        term: Term,
    },
    /// Chooses lenders for others in another way, while this node leads.
    Placement(PlacementChoice),
    /// How many blocks the node wants to have of others in all.
    Wanted {
        /// The blocks.
        blocks: u32,
    },
    /// The answer to [`super::LendingAction::LendBlocks`]: as many as asked for, or fewer, or none.
    BlocksLent {
        /// For whom they are.
        peer: PeerId,
        /// The blocks.
        blocks: Vec<LentBlock>,
        /// Why there are no more, if there are fewer than were asked for.
        shortfall: LoanShortfall,
    },
    /// The store has taken lent blocks back, for itself or because of [`super::LendingAction::TakeLent`]. Its order
    /// counts, and nobody is asked.
    BlocksTaken {
        /// The blocks.
        blocks: Vec<LentBlock>,
        /// Why.
        reason: RecallReason,
    },
    /// The answer to [`super::LendingAction::ReportHeats`]: each lent block of a peer with its heat.
    Heats {
        /// The peer.
        peer: PeerId,
        /// The blocks and how hot they are.
        heats: Vec<(LentBlock, u64)>,
    },
    /// The store has emptied borrowed blocks and gives them back.
    BlocksReturned {
        /// The lender.
        peer: PeerId,
        /// The lease.
        lease: LeaseId,
        /// The indices.
        ranges: IndexRanges,
        /// Why.
        reason: ReturnReason,
    },
    /// Lends nothing until [`LendingInput::Resume`], and recalls everything with notice.
    Drain {
        /// The notice.
        within: Duration,
    },
    /// Lends again.
    Resume,
    /// Takes everything back at once, and lends again half a minute later.
    RecallNow,
    /// Asks borrowers for some blocks back.
    Recall {
        /// How many.
        blocks: u32,
        /// The notice.
        within: Duration,
    },
    /// Shuts a peer out, and ends its leases at once.
    Deny {
        /// The peer.
        peer: PeerId,
    },
    /// Lets a denied peer in again.
    Allow {
        /// The peer.
        peer: PeerId,
    },
    /// The data connections found that a peer lies.
    Distrust {
        /// The peer.
        peer: PeerId,
    },
    /// Recalls and returns everything, and then parts from all.
    Leave {
        /// How long that may take.
        within: Duration,
    },
    /// Asks the leader how the cluster stands. The answer is in [`super::LendingNode::told_view`].
    AskView,
    /// Takes part again after [`LendingInput::Leave`]. What was to be given back and is not yet stays where it is.
    Join,
    /// The store of the election was restored from a copy, so that its terms may begin again with lower numbers.
    TermsBeginAnew,
}

impl LendingInput {
    /// A message that a connection brought.
    pub fn message(connection: ConnectionId, message: ControlMessage) -> LendingInput {
        LendingInput::Heard {
            connection,
            line: ControlLine::Message(message),
        }
    }
}
