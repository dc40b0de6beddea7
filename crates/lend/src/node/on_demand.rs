//! What a node keeps in addition if it has connections on demand: its leader, and whom it is about to ask.

use std::collections::BTreeMap;
use std::time::Duration;

use sublet_policy::placement::DrawStream;

use super::member_view::MemberView;
use super::settings::{LeaderNaming, OnDemandSettings};
use super::told_view::ViewAnswers;
use crate::ids::{Incarnation, NodeName, PeerId, Term};
use crate::leader::Ledger;

/// The leader that a node follows.
#[derive(Clone, Debug)]
pub(super) struct FollowedLeader {
    /// Its name, if somebody leads.
    pub(super) name: Option<NodeName>,
    /// Its number, unless it is this node, or no member.
    pub(super) peer: Option<PeerId>,
    /// The highest term of an election whose outcome this node was told.
    pub(super) elected: Term,
    /// The highest term that this leader told. It may know of its election before this node does.
    pub(super) told: Term,
    /// Its run at the last session.
    pub(super) incarnation: Option<Incarnation>,
    /// When it said something that only a leader says, or was named.
    pub(super) heard_at: Duration,
}

impl FollowedLeader {
    /// The term below which nothing that it says counts.
    pub(super) fn term(&self) -> Term {
        self.elected.max(self.told)
    }
}

/// A lender that is to be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct LenderWish {
    /// For how many blocks.
    pub(super) blocks: u32,
    /// Until when.
    pub(super) until: Duration,
}

/// Members that were drawn. The one that can lend most is asked.
#[derive(Clone, Debug)]
pub(super) struct DrawnMembers {
    pub(super) peers: Vec<PeerId>,
    /// When the answers that are there must do.
    pub(super) until: Duration,
}

/// Whom a borrower is about to ask.
#[derive(Clone, Debug, Default)]
pub(super) struct LenderSearch {
    /// Lenders that are asked as soon as there is a connection.
    pub(super) wishes: BTreeMap<PeerId, LenderWish>,
    pub(super) drawn: Option<DrawnMembers>,
    /// When members may be drawn again.
    pub(super) draw_at: Duration,
    /// How often they were.
    pub(super) draws_made: u64,
    /// Until when members are drawn although there is a leader: its advice could not be followed.
    pub(super) unadvised_until: Duration,
}

impl LenderSearch {
    /// Returns whether a connection with a peer is wanted.
    pub(super) fn needs(&self, peer: PeerId) -> bool {
        let is_drawn = |drawn: &DrawnMembers| drawn.peers.contains(&peer);
        self.wishes.contains_key(&peer) || self.drawn.as_ref().is_some_and(is_drawn)
    }

    /// Asks nobody any more.
    pub(super) fn stop(&mut self) {
        self.wishes.clear();
        self.drawn = None;
    }
}

/// How large the arena is, in blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArenaBlocks {
    pub(super) total: u32,
    pub(super) free: u32,
}

/// What a node keeps in addition if it has connections on demand.
#[derive(Debug)]
pub(super) struct OnDemand {
    pub(super) settings: OnDemandSettings,
    pub(super) leader: FollowedLeader,
    pub(super) view: MemberView,
    pub(super) search: LenderSearch,
    pub(super) draws: DrawStream,
    pub(super) arena: ArenaBlocks,
    /// What the leader told of the cluster.
    pub(super) told: ViewAnswers,
    /// While this node leads.
    pub(super) ledger: Option<Ledger>,
    /// When this node last reported to its own ledger.
    pub(super) reported_at: Option<Duration>,
    /// For how long it leads and no other member has reported to it, as far as it was awake.
    pub(super) unheard_for: Duration,
    /// Until when it lets others lead.
    pub(super) stands_down_until: Duration,
    /// Messages that only a leader sends, of others or of an earlier term.
    pub(super) ignored: u64,
    /// Advice that was followed.
    pub(super) followed: u64,
}

impl OnDemand {
    pub(super) fn new(now: Duration, settings: OnDemandSettings) -> OnDemand {
        let name = match &settings.leader {
            LeaderNaming::Fixed(name) => Some(name.clone()),
            LeaderNaming::Nobody | LeaderNaming::Elected => None,
        };
        OnDemand {
            draws: DrawStream::new(settings.seed),
            settings,
            leader: FollowedLeader {
                name,
                peer: None,
                elected: Term::default(),
                told: Term::default(),
                incarnation: None,
                heard_at: now,
            },
            view: MemberView::default(),
            search: LenderSearch::default(),
            arena: ArenaBlocks::default(),
            told: ViewAnswers::default(),
            ledger: None,
            reported_at: None,
            unheard_for: Duration::ZERO,
            stands_down_until: Duration::ZERO,
            ignored: 0,
            followed: 0,
        }
    }
}
