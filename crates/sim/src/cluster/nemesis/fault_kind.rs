//! The kinds of faults, and in which runs each may be.

use crate::cluster::leadership::Leadership;
use crate::cluster::plan::FaultScope;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// One direction of a link, or both, lets nothing through.
    Cut,
    /// A connection breaks amid its messages.
    Break,
    /// Nothing leaves on a link for a while.
    Stall,
    /// A link is slow.
    Slow,
    /// A node lets no connection in.
    Refuse,
    /// A node ends, and starts again.
    Crash,
    /// A node stops, and goes on.
    Stop,
    /// A node's clock runs at another speed.
    Clock,
    /// A host needs memory itself.
    Need,
    /// A node wishes for more or less.
    Wish,
    /// An operator asks for blocks back.
    Recall,
    /// An operator drains a node, or lets it lend again.
    Drain,
    /// A lender alters pages.
    Lie,
    /// Who leads ends, and starts again.
    LeaderCrash,
    /// Who leads stops, for longer than its term may last.
    LeaderStop,
    /// Nobody reaches who leads, or it reaches nobody, or both.
    LeaderCut,
    /// Another one is elected, and who led does not know.
    LeaderDuel,
    /// Nobody reaches etcd.
    EtcdAway,
    /// etcd has no quorum.
    EtcdQuorum,
    /// etcd's own leader ends.
    EtcdElection,
    /// A node does not reach etcd.
    EtcdCut,
}

impl FaultKind {
    /// Every kind.
    pub(super) const ALL: [FaultKind; 21] = [
        FaultKind::Cut,
        FaultKind::Break,
        FaultKind::Stall,
        FaultKind::Slow,
        FaultKind::Refuse,
        FaultKind::Crash,
        FaultKind::Stop,
        FaultKind::Clock,
        FaultKind::Need,
        FaultKind::Wish,
        FaultKind::Recall,
        FaultKind::Drain,
        FaultKind::Lie,
        FaultKind::LeaderCrash,
        FaultKind::LeaderStop,
        FaultKind::LeaderCut,
        FaultKind::LeaderDuel,
        FaultKind::EtcdAway,
        FaultKind::EtcdQuorum,
        FaultKind::EtcdElection,
        FaultKind::EtcdCut,
    ];

    /// Returns whether a run of this scope, led so, may have it.
    pub(super) fn is_within(self, scope: FaultScope, leadership: Leadership) -> bool {
        let is_etcds = matches!(
            self,
            FaultKind::EtcdAway
                | FaultKind::EtcdQuorum
                | FaultKind::EtcdElection
                | FaultKind::EtcdCut
                | FaultKind::LeaderDuel
        );
        let is_leaders = matches!(
            self,
            FaultKind::LeaderCrash | FaultKind::LeaderStop | FaultKind::LeaderCut
        );
        let is_there = match leadership {
            Leadership::Mesh | Leadership::Nobody => !is_etcds && !is_leaders,
            Leadership::Static => !is_etcds,
            Leadership::Etcd => true,
        };
        is_there && (is_etcds || scope == FaultScope::Everything)
    }
}
