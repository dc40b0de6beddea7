//! What is known of a node's leader beside its lending node, for the judge: who leads by what the node was told, when
//! that one spoke, and when the node itself asked or advised.

use std::time::Duration;

use sublet_lend::ids::Term;
use sublet_lend::node::FollowingStatus;

use crate::cluster::ids::NodeNumber;
use crate::cluster::judges::{KnownLeader, ObeyedLeader, SeekingBorrower, SilentLeader};
use crate::cluster::verdict::Finding;

/// A longer gap between looks means that the node was stopped.
const GAP_MAX: Duration = Duration::from_millis(1_500);

/// What terms mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermOrder {
    /// They rise for ever.
    Rising,
    /// They are those of one run of the leader.
    OfOneRun,
}

/// Whether a borrower wants to ask somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BorrowerWish {
    Seeks,
    Rests,
}

/// Whether a leader has advice for somebody who is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderIntent {
    Advises,
    Rests,
}

/// What is known of a node's leader. All times are those of the node's clock.
#[derive(Debug)]
pub(super) struct LeaderWatch {
    order: TermOrder,
    leader: Option<NodeNumber>,
    /// The highest term that the node was told.
    elected: Term,
    /// The highest term that this leader named, if it is above that.
    highest: Term,
    /// When the leader said something that only a leader says, or was named.
    heard_at: Duration,
    /// When a leader last said such a thing, whoever was named since.
    led_at: Duration,
    /// Since when the node knows of no leader, if it knows of none.
    leaderless_since: Duration,
    /// When the node asked somebody, or did not want to.
    asked_at: Duration,
    /// When the node advised somebody, or had nothing to advise.
    advised_at: Duration,
    looked_at: Duration,
    planned_at: Duration,
    drawn: u64,
}

impl LeaderWatch {
    /// The watch of a node that starts now, whose settings name this leader.
    pub(super) fn new(leader: Option<NodeNumber>, order: TermOrder) -> LeaderWatch {
        LeaderWatch {
            order,
            leader,
            elected: Term::default(),
            highest: Term::default(),
            heard_at: Duration::ZERO,
            led_at: Duration::ZERO,
            leaderless_since: Duration::ZERO,
            asked_at: Duration::ZERO,
            advised_at: Duration::ZERO,
            looked_at: Duration::ZERO,
            planned_at: Duration::ZERO,
            drawn: 0,
        }
    }

    /// How often members were drawn, at the last look.
    pub(super) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// The node was told who leads.
    pub(super) fn told(&mut self, now: Duration, leader: Option<NodeNumber>, term: Term) {
        if self.leader.is_some() {
            self.leaderless_since = now;
        }
        self.leader = leader;
        self.heard_at = now;
        self.advised_at = now;
        self.elected = self.elected.max(term);
        self.highest = self.elected;
    }

    /// A node said what only a leader says.
    pub(super) fn heard(&mut self, now: Duration, from: NodeNumber, term: Term) {
        let is_of_term = self.order == TermOrder::OfOneRun || term >= self.highest;
        if self.leader == Some(from) && is_of_term {
            self.heard_at = now;
            self.led_at = now;
            if self.order == TermOrder::Rising {
                self.highest = term;
            }
        }
    }

    /// What a node says as a leader was obeyed. Returns what is wrong with that.
    pub(super) fn obeyed(&self, from: NodeNumber, term: Term) -> Option<Finding> {
        let obeyed = ObeyedLeader {
            from,
            term,
            leader: self.leader,
            highest: self.highest,
        };
        obeyed.check()
    }

    /// The node asks a member, or calls one to do so.
    pub(super) fn asked(&mut self, now: Duration) {
        self.asked_at = now;
    }

    /// The node advises somebody.
    pub(super) fn advised(&mut self, now: Duration) {
        self.advised_at = now;
    }

    /// Looks at the node as a borrower. Returns what is wrong.
    pub(super) fn look(
        &mut self,
        now: Duration,
        following: &FollowingStatus,
        wish: BorrowerWish,
    ) -> Option<Finding> {
        let was_stopped = now > self.looked_at + GAP_MAX;
        let has_drawn = std::mem::replace(&mut self.drawn, following.drawn) != following.drawn;
        self.looked_at = now;
        if was_stopped || has_drawn || wish == BorrowerWish::Rests {
            self.asked_at = now;
        }
        let leader = match self.leader {
            Some(_) => KnownLeader::SilentFor(now.saturating_sub(self.heard_at)),
            None => KnownLeader::NoneFor(now.saturating_sub(self.leaderless_since)),
        };
        let borrower = SeekingBorrower {
            leader,
            unled_for: now.saturating_sub(self.led_at),
            idle_for: now.saturating_sub(self.asked_at),
        };
        borrower.check()
    }

    /// Looks at the node as a leader in a term. Returns what is wrong.
    pub(super) fn look_at_advice(
        &mut self,
        now: Duration,
        term: Term,
        intent: LeaderIntent,
    ) -> Option<Finding> {
        let was_stopped = now > self.planned_at + 2 * GAP_MAX;
        self.planned_at = now;
        if was_stopped || intent == LeaderIntent::Rests {
            self.advised_at = now;
        }
        let idle_for = now.saturating_sub(self.advised_at);
        SilentLeader { term, idle_for }.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_leader_of_a_lower_term_says_breaks_no_silence() {
        let (at, node) = (Duration::from_secs, NodeNumber);
        let mut watch = LeaderWatch::new(None, TermOrder::Rising);
        watch.told(at(1), Some(node(4)), Term(8));
        watch.heard(at(2), node(3), Term(9));
        watch.heard(at(3), node(4), Term(7));
        assert_eq!((watch.heard_at, watch.highest), (at(1), Term(8)));
        watch.heard(at(4), node(4), Term(9));
        assert_eq!((watch.heard_at, watch.highest), (at(4), Term(9)));
        assert!(watch.obeyed(node(4), Term(8)).is_some());
        assert!(watch.obeyed(node(4), Term(9)).is_none());
        watch.told(at(5), Some(node(3)), Term(8));
        assert_eq!(
            watch.highest,
            Term(8),
            "what the last leader named is forgotten"
        );
        let mut named = LeaderWatch::new(Some(node(4)), TermOrder::OfOneRun);
        named.heard(at(4), node(4), Term(9));
        assert!(named.obeyed(node(4), Term(1)).is_none());
    }

    #[test]
    fn time_in_which_the_node_was_stopped_does_not_count() {
        let at = Duration::from_secs;
        let mut watch = LeaderWatch::new(None, TermOrder::Rising);
        let mut look = |secs| {
            watch
                .look(at(secs), &FollowingStatus::default(), BorrowerWish::Seeks)
                .is_some()
        };
        assert!((0..=6).all(|secs| !look(secs)));
        assert!(look(7));
        assert!(!look(30) && !look(31));
    }

    /// A node whose leader is gone may have waited for it.
    #[test]
    fn a_node_that_has_just_lost_its_leader_need_not_have_asked() {
        let at = Duration::from_secs;
        let mut watch = LeaderWatch::new(None, TermOrder::Rising);
        let mut found = Vec::new();
        for secs in 0..30 {
            match secs {
                1 => watch.told(at(1), Some(NodeNumber(4)), Term(8)),
                10 | 12 => watch.told(at(secs), None, Term(8)),
                _ => {}
            }
            if watch
                .look(at(secs), &FollowingStatus::default(), BorrowerWish::Seeks)
                .is_some()
            {
                found.push(secs);
            }
        }
        assert_eq!(found.first(), Some(&17));
    }

    /// Leaders that are named and gone again, and say nothing, are none.
    #[test]
    fn a_node_does_not_wait_for_one_silent_leader_after_another() {
        let at = Duration::from_secs;
        let mut watch = LeaderWatch::new(None, TermOrder::Rising);
        let mut found = Vec::new();
        for secs in 0..30 {
            let named = (secs % 5 < 4).then_some(NodeNumber(4));
            watch.told(at(secs), named, Term(secs / 5));
            let looked = watch.look(at(secs), &FollowingStatus::default(), BorrowerWish::Seeks);
            if looked.is_some() {
                found.push(secs);
            }
        }
        assert_eq!(found.first(), Some(&22));
    }
}
