//! Who leads, and what this node does about it.

use std::time::Duration;

use crate::store::{Entry, LeaseId, Term};

use super::retry_pause::RetryPause;
use super::settings::Candidacy;

/// The longest time that a candidate lets others go first after a leader is gone.
const SPREAD: Duration = Duration::from_millis(200);

/// This node's part in the election.
#[derive(Debug)]
pub(super) struct Election {
    pub(super) candidacy: Candidacy,
    pub(super) is_busy: bool,
    pub(super) pause: RetryPause,
    /// The term in which this node leads.
    leading: Option<Term>,
    /// The last term that this node began to resign. It leads no more in it, whatever became of the call.
    given_up: Option<Term>,
    /// The last term whose key the store has deleted for this node. The watch may tell it later.
    resigned: Option<Term>,
    /// From when on this node may campaign, since nobody leads.
    vacant_from: Option<Duration>,
}

/// What is to be asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionNeed {
    Campaign(LeaseId),
    Resign(Term),
}

/// What an election is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElectionFacts<'a> {
    /// The leader's entry.
    pub(super) leader: Option<&'a Entry>,
    /// The lease under which this node may lead now.
    pub(super) lease: Option<LeaseId>,
    /// The lease that this node holds, though it may be too late to lead.
    pub(super) held: Option<LeaseId>,
}

/// How this node's own leadership changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeadershipChange {
    Elected(Term),
    Deposed(Term),
}

impl Election {
    pub(super) fn new(candidacy: Candidacy) -> Election {
        Election {
            candidacy,
            is_busy: false,
            pause: RetryPause::default(),
            leading: None,
            given_up: None,
            resigned: None,
            vacant_from: None,
        }
    }

    /// The term in which this node leads.
    pub(super) fn leading(&self) -> Option<Term> {
        self.leading
    }

    /// Judges whether this node leads. A new term ends the one before.
    pub(super) fn judge(&mut self, facts: ElectionFacts<'_>) -> Vec<LeadershipChange> {
        let wants = self.candidacy == Candidacy::Candidate;
        let mine = facts
            .leader
            .filter(|leader| wants && facts.lease.is_some() && leader.lease == facts.lease);
        let term = mine.map(Entry::term);
        let term = term.filter(|term| self.given_up != Some(*term));
        if term == self.leading {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.leading, term);
        let deposed = before.map(LeadershipChange::Deposed);
        let elected = term.map(LeadershipChange::Elected);
        deposed.into_iter().chain(elected).collect()
    }

    /// Notes whether nobody leads. A draw says how long this node lets others go first.
    pub(super) fn note_vacancy(&mut self, is_vacant: Vacancy, now: Duration, draw: u64) {
        let spread = Duration::from_millis(draw % (SPREAD.as_millis() as u64 + 1));
        self.vacant_from = match (is_vacant, self.vacant_from) {
            (Vacancy::Vacant, Some(from)) => Some(from),
            (Vacancy::Vacant, None) => Some(now + spread),
            (Vacancy::Taken, _) => None,
        };
    }

    /// Returns what is to be asked now.
    pub(super) fn need(&self, facts: ElectionFacts<'_>, now: Duration) -> Option<ElectionNeed> {
        if self.is_busy || !self.pause.is_over(now) {
            return None;
        }
        match (facts.leader, self.candidacy) {
            (Some(leader), _) => self
                .is_to_resign(leader, facts)
                .then(|| ElectionNeed::Resign(leader.term())),
            (None, Candidacy::Candidate) => {
                let lease = facts.lease?;
                let from = self.vacant_from?;
                (from <= now).then_some(ElectionNeed::Campaign(lease))
            }
            (None, Candidacy::Follower) => None,
        }
    }

    /// Returns when the time alone changes something.
    pub(super) fn wakes_at(&self, facts: ElectionFacts<'_>) -> Option<Duration> {
        if self.is_busy {
            return None;
        }
        match (facts.leader, self.candidacy) {
            (Some(leader), _) => self.is_to_resign(leader, facts).then(|| self.pause.until()),
            (None, Candidacy::Candidate) => {
                facts.lease?;
                self.vacant_from.map(|from| from.max(self.pause.until()))
            }
            (None, Candidacy::Follower) => None,
        }
    }

    /// Notes that the node gives a term up.
    pub(super) fn give_up(&mut self, term: Term) {
        self.given_up = Some(term);
    }

    /// Notes that the store has deleted the key of the term that was given up, or has another one.
    pub(super) fn note_resigned(&mut self) {
        self.resigned = self.given_up;
    }

    /// Returns whether this node has the leader's key and is not to keep it.
    fn is_to_resign(&self, leader: &Entry, facts: ElectionFacts<'_>) -> bool {
        let term = Some(leader.term());
        let is_mine = facts.held.is_some() && leader.lease == facts.held;
        let is_over = self.candidacy == Candidacy::Follower || self.given_up == term;
        is_mine && is_over && self.resigned != term
    }
}

/// Whether somebody has the leader's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vacancy {
    /// Nobody has it.
    Vacant,
    /// Somebody has it, or it is not known.
    Taken,
}
