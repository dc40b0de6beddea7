//! How a node stands with its peers, for `status` and the metrics.

use std::time::Duration;

use super::counters::PeerCounters;
use super::link::LinkState;
use crate::control::LendReport;
use crate::ids::{Incarnation, NodeName, PeerId, Term};

/// Whether a node lends at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LendingPhase {
    /// It does as its settings say.
    Lending,
    /// It lends nothing until it is told to resume.
    Draining {
        /// When it takes what is not returned.
        until: Duration,
    },
    /// It took everything back, and lends again later.
    Paused {
        /// When it lends again.
        until: Duration,
    },
    /// It recalls and returns everything, and parts from all at the latest at this time.
    Leaving {
        /// When.
        until: Duration,
    },
    /// It has parted from all.
    Left,
}

impl LendingPhase {
    /// Returns whether the node parts from all its peers, or has.
    pub(super) fn goes(self) -> bool {
        matches!(self, LendingPhase::Leaving { .. } | LendingPhase::Left)
    }
}

/// How a node stands. All amounts are blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LendingStatus {
    /// Whether it lends.
    pub phase: LendingPhase,
    /// What it has lent.
    pub lent: u32,
    /// What it has borrowed.
    pub borrowed: u32,
    /// What it wants to have of others in all.
    pub wanted: u32,
    /// What it would lend now beyond what it has lent: 0 while its settings, its phase or its own needs bar it.
    pub lendable: u32,
    /// How many connections came from nodes that are no members.
    pub strangers: u64,
    /// How many events were dropped because nobody took them.
    pub events_dropped: u64,
    /// How many members were refused because there were too many.
    pub members_refused: u64,
    /// The leader that the node follows, if it has connections on demand.
    pub following: Option<FollowingStatus>,
    /// Each peer, in the order of the members. Those that are no more come only while there are leases.
    pub peers: Vec<PeerStatus>,
}

/// The leader that a node follows. By default nobody leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowingStatus {
    /// Its name, if somebody leads.
    pub leader: Option<NodeName>,
    /// The highest term that was seen.
    pub term: Term,
    /// For how long it has said nothing that only a leader says. `None` if this node leads, or nobody.
    pub silent_for: Option<Duration>,
    /// How many members take no part, by its list. `None` if the list is not known.
    pub absent: Option<usize>,
    /// How often members were drawn to be asked, because nobody advised.
    pub drawn: u64,
    /// How much of its advice was followed.
    pub followed: u64,
    /// How many messages were ignored that only a leader sends: they were of others, or of an earlier term.
    pub ignored: u64,
}

/// How a node stands with one peer. All amounts are blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its number.
    pub peer: PeerId,
    /// Its name.
    pub name: NodeName,
    /// The connection.
    pub link: LinkState,
    /// When the last session ended. `None` if there was none.
    pub lost_at: Option<Duration>,
    /// How often it was dialed in vain since.
    pub failed_dials: u32,
    /// Whether it said that it leaves.
    pub leaves: bool,
    /// The peer's run, if there is a session.
    pub incarnation: Option<Incarnation>,
    /// The time of a ping to it and back.
    pub round_trip: Option<Duration>,
    /// What it has borrowed of this node.
    pub lent: u32,
    /// What this node has borrowed of it.
    pub borrowed: u32,
    /// What it last said of itself.
    pub report: LendReport,
    /// What happened since the start.
    pub counters: PeerCounters,
}
