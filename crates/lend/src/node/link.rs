//! What a node keeps about the control connection with one peer.

use std::collections::BTreeSet;
use std::time::Duration;

use super::counters::PeerCounters;
use super::flood::FloodMeter;
use super::settings::{LendTo, MemberSettings};
use crate::control::{GrantLimit, LendReport, Version, VersionRange};
use crate::ids::{ConnectionId, Incarnation, NodeName, SessionId, SessionNonce};

/// The wait before the second attempt to connect. The first is at once.
const DIAL_AGAIN_MIN: Duration = Duration::from_millis(250);

/// The longest wait between attempts to connect.
const DIAL_AGAIN_MAX: Duration = Duration::from_secs(5);

/// Why a peer is shut out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutCause {
    /// It belongs to another cluster.
    Cluster,
    /// It calls itself by another name than its certificate.
    Name,
    /// It sent what is no line of this protocol.
    Garbled,
    /// It sent a message where none of the kind may be.
    Protocol,
    /// It granted what was not asked for, or the same twice.
    Grant,
    /// It sent too many lines, or too many bytes.
    Flood,
    /// Its data connections lied.
    Distrust,
    /// It said that this node misbehaved.
    SaidBye,
}

impl ShutCause {
    /// How long the peer is shut out.
    pub fn lasts(self) -> Duration {
        match self {
            ShutCause::Distrust => Duration::from_secs(600),
            _ => Duration::from_secs(60),
        }
    }
}

/// The state of the control connection with one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is none.
    Away {
        /// When this node tries again, if it is the one that dials.
        retry_at: Duration,
    },
    /// The host tries to connect.
    Connecting,
    /// It is there, and the peer's hello is not.
    Greeting {
        /// The connection.
        connection: ConnectionId,
        /// Since when.
        since: Duration,
    },
    /// Both understand each other.
    Up {
        /// The connection.
        connection: ConnectionId,
        /// What both speak.
        version: Version,
    },
    /// There is no common version. The pair does not lend.
    Incompatible {
        /// What this node speaks.
        ours: VersionRange,
        /// What the peer speaks.
        theirs: VersionRange,
        /// When it is tried again.
        retry_at: Duration,
    },
    /// The peer is shut out.
    Shut {
        /// Why.
        cause: ShutCause,
        /// Until when.
        until: Duration,
    },
    /// An operator shut the peer out.
    Denied,
}

/// What this node has asked a borrower for, with notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// How many blocks it may keep.
    pub(super) keep: u32,
    /// When the rest is taken.
    pub(super) until: Duration,
    /// What is done about it.
    pub(super) stage: NoticeStage,
}

/// How far a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoticeStage {
    /// The borrower has time.
    Waiting,
    /// Its time is over, and the store was asked for the heats.
    Ranking,
}

/// Blocks that the store sets aside for a borrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingLoan {
    /// This node's number of the session that asked.
    pub(super) session: SessionId,
    /// How many the store sets aside.
    pub(super) blocks: u32,
    /// Why the borrower gets fewer than it asked for.
    pub(super) limit: Option<GrantLimit>,
}

/// One end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairEnd {
    /// This node.
    Us,
    /// The peer.
    Them,
}

/// Whether a peer is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// It is.
    Member,
    /// It was. What is lent and borrowed ends by itself.
    Former,
}

/// A ping that is not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPing {
    pub(super) tag: u64,
    pub(super) at: Duration,
}

/// Whether a peer has said that it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PeerIntent {
    /// It has not.
    #[default]
    Stays,
    /// It has.
    Leaves,
}

/// All that lasts as long as a session.
#[derive(Debug, Default)]
pub(super) struct LinkSession {
    pub(super) ours: SessionId,
    pub(super) nonce: Option<SessionNonce>,
    pub(super) incarnation: Option<Incarnation>,
    /// For how long the peer has said nothing, as far as this node was awake.
    pub(super) silence: Duration,
    /// For how long this node has said nothing.
    pub(super) quiet: Duration,
    /// Time since this node's last ping.
    pub(super) since_ping: Duration,
    /// Time since the last report.
    pub(super) since_report: Duration,
    pub(super) ping: Option<SentPing>,
    pub(super) round_trip: Option<Duration>,
    pub(super) report: LendReport,
    /// When the peer reported last.
    pub(super) report_at: Option<Duration>,
    /// What this node reported last.
    pub(super) reported: Option<LendReport>,
    pub(super) intent: PeerIntent,
    /// Who opened the connection.
    pub(super) opener: Option<PairEnd>,
    /// Since when there is the connection.
    pub(super) opened_at: Duration,
    /// When there was last a message that is no mere sign of life.
    pub(super) used_at: Duration,
}

/// What a node keeps about one peer beside leases.
#[derive(Debug)]
pub(super) struct PeerLink {
    pub(super) name: NodeName,
    pub(super) lend: LendTo,
    pub(super) membership: Membership,
    /// When it was a member last, if it is none.
    pub(super) former_since: Option<Duration>,
    /// The end whose name is the lesser. In a full mesh it dials. Of two connections at once its own stays.
    pub(super) lesser: PairEnd,
    pub(super) state: LinkState,
    pub(super) failures: u32,
    /// How often it was dialed in vain since its last session. A session that ends is none of these.
    pub(super) failed_dials: u32,
    /// When its last session ended, if it had one.
    pub(super) lost_at: Option<Duration>,
    pub(super) session: LinkSession,
    pub(super) flood: FloodMeter,
    pub(super) pending: Option<PendingLoan>,
    pub(super) notice: Option<Notice>,
    /// The last reasons that were logged.
    pub(super) refusal_logged: Option<GrantLimit>,
    pub(super) borrow_refusal_logged: Option<GrantLimit>,
    pub(super) causes_logged: BTreeSet<ShutCause>,
    pub(super) versions_logged: Option<VersionRange>,
    pub(super) counters: PeerCounters,
}

impl PeerLink {
    /// A peer without a connection. `node` is this node's name.
    pub(super) fn new(node: &NodeName, member: &MemberSettings) -> PeerLink {
        PeerLink {
            name: member.name.clone(),
            lend: member.lend,
            membership: Membership::Member,
            former_since: None,
            lesser: if *node < member.name {
                PairEnd::Us
            } else {
                PairEnd::Them
            },
            state: LinkState::Away {
                retry_at: Duration::ZERO,
            },
            failures: 0,
            failed_dials: 0,
            lost_at: None,
            session: LinkSession::default(),
            flood: FloodMeter::default(),
            pending: None,
            notice: None,
            refusal_logged: None,
            borrow_refusal_logged: None,
            causes_logged: BTreeSet::new(),
            versions_logged: None,
            counters: PeerCounters::default(),
        }
    }

    /// The connection, if there is one.
    pub(super) fn connection(&self) -> Option<ConnectionId> {
        match self.state {
            LinkState::Greeting { connection, .. } | LinkState::Up { connection, .. } => {
                Some(connection)
            }
            _ => None,
        }
    }

    /// Returns whether both ends understand each other.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up { .. })
    }

    /// The state after a connection was lost or not made. The wait doubles from attempt to attempt.
    pub(super) fn away(&mut self, now: Duration) -> LinkState {
        let wait = DIAL_AGAIN_MIN * (1 << self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        LinkState::Away {
            retry_at: now + wait.min(DIAL_AGAIN_MAX),
        }
    }
}
