//! The node as one that follows a leader: what it reports, and whose advice counts.
//!
//! Advice counts only if it comes from the leader that the settings or the election name. Its term must not be below that
//! of the election, or below the highest that this leader told. It leads to a request. The lender decides.

use std::time::Duration;

use super::lender_search::AdviceOutcome;
use super::link::Membership;
use super::machine::LendingNode;
use super::settings::LeaderNaming;
use super::told_view::ViewAnswers;
use crate::control::{
    BlockCount, BorrowAdvice, ClusterReport, ControlMessage, MembersUpdate, PairCounts,
};
use crate::ids::{Incarnation, NodeName, PeerId, Term};

/// A borrower whose leader says nothing as a leader for so long looks for lenders itself. That one lives does not count:
/// it may lead no more, and not know who does.
pub const LEADER_SILENT_AFTER: Duration = Duration::from_secs(15);

/// The term of a leader that the settings name. Another run of it begins anew.
const FIXED_TERM: Term = Term(1);

impl LendingNode {
    /// Returns whether a peer is the leader that this node follows.
    pub(super) fn is_followed(&self, peer: PeerId) -> bool {
        let part = self.on_demand.as_ref();
        part.is_some_and(|part| part.leader.peer == Some(peer))
    }

    /// Returns whether nobody leads, or the leader is silent.
    pub(super) fn lacks_leader(&self, now: Duration) -> bool {
        self.on_demand.as_ref().is_some_and(|part| {
            let is_silent = now >= part.leader.heard_at + LEADER_SILENT_AFTER;
            part.ledger.is_none() && (part.leader.name.is_none() || is_silent)
        })
    }

    /// Finds the leader among the members, and leads if it is this node.
    pub(super) fn find_leader(&mut self, now: Duration) {
        let Some(part) = &self.on_demand else {
            return;
        };
        let is_own = part.leader.name.as_ref() == Some(&self.settings.node);
        let term = match part.settings.leader {
            LeaderNaming::Fixed(_) => FIXED_TERM,
            LeaderNaming::Nobody | LeaderNaming::Elected => part.leader.elected,
        };
        let leads_already = part.ledger.as_ref().map(|ledger| ledger.term()) == Some(term);
        let peer = part.leader.name.as_ref().and_then(|name| {
            let peer = self.names.get(name).copied()?;
            let is_member = self.links[peer.slot()].membership == Membership::Member;
            is_member.then_some(peer)
        });
        if let Some(part) = &mut self.on_demand {
            part.leader.peer = peer;
            if !is_own {
                part.ledger = None;
            }
        }
        if is_own && !leads_already {
            self.begin_to_lead(now, term);
        }
        if let Some(peer) = peer {
            self.wake(peer);
        }
    }

    /// An election has an outcome. That nobody leads counts in any term. What the last leader told of terms does not bind
    /// the next one: it may have lied.
    pub(super) fn leader_named(&mut self, now: Duration, leader: Option<NodeName>, term: Term) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let is_outdated = leader.is_some() && term < part.leader.elected;
        if part.settings.leader != LeaderNaming::Elected || is_outdated {
            part.ignored += 1;
            return;
        }
        if part.leader.name != leader || part.leader.elected != term {
            part.leader.heard_at = now;
            part.leader.told = Term::default();
            part.view.clear();
        }
        if part.leader.name != leader && leader.is_some() {
            part.told = ViewAnswers::default();
        }
        part.leader.name = leader;
        part.leader.elected = part.leader.elected.max(term);
        self.find_leader(now);
        let peer = self.on_demand.as_ref().and_then(|part| part.leader.peer);
        if let Some(peer) = peer.filter(|peer| self.links[peer.slot()].is_up()) {
            self.report_to_leader(now, peer);
        }
    }

    /// Terms may begin again with lower numbers.
    pub(super) fn forget_terms(&mut self, now: Duration) {
        if let Some(part) = &mut self.on_demand {
            part.leader.elected = Term::default();
            part.leader.told = Term::default();
            part.leader.heard_at = now;
            part.view.clear();
        }
    }

    /// A session with the leader begins. Terms of a leader that the settings name are those of one run.
    pub(super) fn leader_session(&mut self, now: Duration, peer: PeerId, incarnation: Incarnation) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        if part.leader.peer != Some(peer) {
            return;
        }
        let is_other_run = part.leader.incarnation.replace(incarnation) != Some(incarnation);
        if is_other_run && matches!(part.settings.leader, LeaderNaming::Fixed(_)) {
            part.leader.told = Term::default();
        }
        part.view.clear();
        self.report_to_leader(now, peer);
    }

    /// What this node tells its leader.
    pub(super) fn cluster_report(&self) -> ClusterReport {
        let arena = self.on_demand.as_ref().map(|part| part.arena);
        let arena = arena.unwrap_or_default();
        let rack = self
            .on_demand
            .as_ref()
            .and_then(|part| part.settings.rack.clone());
        let name = |peer: &PeerId| self.links[peer.slot()].name.clone();
        let lent = self
            .awake
            .iter()
            .map(|peer| (name(peer), self.loans.lent_to(*peer)));
        let (lent, lent_left_off) = PairCounts::largest(lent);
        let borrowed = self
            .awake
            .iter()
            .map(|peer| (name(peer), self.borrows.borrowed_of(*peer)));
        let (borrowed, borrowed_left_off) = PairCounts::largest(borrowed);
        let wanted = if self.phase.goes() { 0 } else { self.lacking() };
        ClusterReport {
            total: BlockCount::saturating(arena.total),
            free: BlockCount::saturating(arena.free),
            lendable: BlockCount::saturating(self.lendable_now().saturating_sub(self.set_aside)),
            wanted: BlockCount::saturating(wanted),
            rack,
            lent,
            borrowed,
            pairs_left_off: lent_left_off.saturating_add(borrowed_left_off),
            leaving: self.phase.goes(),
        }
    }

    /// Sends this node's figures to its leader.
    pub(super) fn report_to_leader(&mut self, now: Duration, leader: PeerId) {
        let report = Box::new(self.cluster_report());
        self.links[leader.slot()].session.since_report = Duration::ZERO;
        self.send(now, leader, ControlMessage::ClusterReport(report));
    }

    /// Returns whether a message that only a leader sends counts.
    fn obeys(&mut self, now: Duration, peer: PeerId, term: Term) -> bool {
        let Some(part) = &mut self.on_demand else {
            self.links[peer.slot()].counters.lines_unknown += 1;
            return false;
        };
        let counts = part.leader.peer == Some(peer) && term >= part.leader.term();
        if counts {
            part.leader.told = term;
            part.leader.heard_at = now;
        } else {
            part.ignored += 1;
        }
        counts
    }

    pub(super) fn advised_by(&mut self, now: Duration, peer: PeerId, advice: &BorrowAdvice) {
        if self.obeys(now, peer, advice.term) {
            self.advised(now, advice);
        }
    }

    /// The leader, or this node as one, advises this node.
    pub(super) fn advised(&mut self, now: Duration, advice: &BorrowAdvice) {
        if advice.borrower != self.settings.node {
            return;
        }
        let lender = self.names.get(&advice.lender).copied();
        let outcome = match lender {
            Some(lender) => self.wish_for(now, lender, advice.blocks.get()),
            None => AdviceOutcome::Impossible,
        };
        match outcome {
            AdviceOutcome::Followed => {
                if let Some(part) = &mut self.on_demand {
                    part.followed += 1;
                }
            }
            AdviceOutcome::Unneeded => {}
            AdviceOutcome::Impossible => self.look_for_others(now),
        }
    }

    /// The leader's advice could not be followed: members are drawn although it speaks.
    pub(super) fn look_for_others(&mut self, now: Duration) {
        if let Some(part) = &mut self.on_demand {
            part.search.unadvised_until = now + LEADER_SILENT_AFTER;
        }
    }

    pub(super) fn members_told(&mut self, now: Duration, peer: PeerId, update: &MembersUpdate) {
        if self.obeys(now, peer, update.term)
            && let Some(part) = &mut self.on_demand
        {
            part.view.update(update);
        }
    }
}
