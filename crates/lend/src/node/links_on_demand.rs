//! Connections on demand: which are needed, which of two stays, and when an idle one ends.

use std::time::Duration;

use super::event::LinkLoss;
use super::link::{LinkState, Membership, PairEnd};
use super::machine::LendingNode;
use crate::borrower::BorrowState;
use crate::ids::PeerId;

/// A connection that nobody needs ends when there was no message for so long but signs of life.
pub const IDLE_AFTER: Duration = Duration::from_secs(60);

/// Two connections that were opened within this time are the two of a pair that called each other. A later one means
/// that its end has lost the one before.
const TOGETHER_WITHIN: Duration = Duration::from_secs(5);

impl LendingNode {
    /// Returns whether there is a lease with a peer, or a request that is not answered.
    pub(super) fn has_business(&self, peer: PeerId) -> bool {
        self.borrows.state(peer) != BorrowState::Idle
            || self.loans.lent_to(peer) > 0
            || self.links[peer.slot()].pending.is_some()
    }

    /// Returns whether this node wants a connection with a peer.
    pub(super) fn needs_link(&self, peer: PeerId) -> bool {
        if self.has_business(peer) {
            return true;
        }
        let is_member = self.links[peer.slot()].membership == Membership::Member;
        match &self.on_demand {
            Some(part) => is_member && (part.leader.peer == Some(peer) || part.search.needs(peer)),
            None => is_member,
        }
    }

    /// Returns whether this node is the one that opens a connection with a peer.
    pub(super) fn opens_link(&self, peer: PeerId) -> bool {
        let is_callers_turn =
            self.on_demand.is_some() || self.links[peer.slot()].lesser == PairEnd::Us;
        is_callers_turn && self.needs_link(peer)
    }

    /// Looks after a peer at each tick from now on.
    pub(super) fn wake(&mut self, peer: PeerId) {
        self.awake.insert(peer);
    }

    /// Looks no more after peers with which nothing is going on.
    pub(super) fn let_rest(&mut self) {
        if self.on_demand.is_none() {
            return;
        }
        let mut awake = std::mem::take(&mut self.awake);
        awake.retain(|peer| {
            let state = self.links[peer.slot()].state;
            let is_resting = matches!(state, LinkState::Away { .. } | LinkState::Denied);
            !is_resting || self.needs_link(*peer)
        });
        self.awake = awake;
    }

    /// Returns whether the present connection stays although the peer has another one. Both ends called at once: that
    /// of the lesser name stays.
    pub(super) fn keeps_present(&self, now: Duration, peer: PeerId, opener: PairEnd) -> bool {
        let link = &self.links[peer.slot()];
        let is_new = now < link.session.opened_at + TOGETHER_WITHIN;
        let is_of_both = link.session.opener.is_some_and(|present| present != opener);
        let present_stays = link.session.opener == Some(link.lesser);
        self.on_demand.is_some()
            && link.connection().is_some()
            && is_new
            && is_of_both
            && present_stays
    }

    /// Returns whether a connection is there for nothing.
    pub(super) fn is_idle(&self, now: Duration, peer: PeerId) -> bool {
        let link = &self.links[peer.slot()];
        let was_unused = match (link.membership, &self.on_demand) {
            (Membership::Former, _) => true,
            (Membership::Member, Some(_)) => now >= link.session.used_at + IDLE_AFTER,
            (Membership::Member, None) => false,
        };
        was_unused && !self.needs_link(peer)
    }

    /// Ends an idle connection. There is no lease that could end with it.
    pub(super) fn end_idle(&mut self, now: Duration, peer: PeerId) {
        self.lose(now, peer, LinkLoss::Idle);
        let link = &mut self.links[peer.slot()];
        link.failures = 0;
        link.state = LinkState::Away { retry_at: now };
    }
}
