//! The member's machine: it takes answers and the time, and says what to ask and what to tell.

use std::collections::VecDeque;
use std::time::Duration;

use crate::keys::{ClusterKey, ClusterKeys};
use crate::mirror::Difference;
use crate::record::{LeaderRecord, NodeRecord};
use crate::store::{Entry, StoreError, Term};

use super::election::{Election, ElectionFacts, ElectionNeed, LeadershipChange, Vacancy};
use super::event::{ElectedLeader, MemberEvent};
use super::lease_keeper::{LeaseKeeper, LeaseNeed, LeaseOutcome};
use super::random::SeededRandom;
use super::request::{ElectionRequest, LeaseRequest, StoreAnswer, StoreRequest, ViewRequest};
use super::settings::{Candidacy, MemberSettings};
use super::view::{PrefixView, ViewNeed, ViewOutcome};

/// The most events that wait to be taken before the driver is to stop taking changes from a watch.
pub const EVENTS_WAITING_MAX: usize = 1 << 14;

/// A node as a member of its cluster. All moments are those of one monotonic clock.
#[derive(Debug)]
pub struct ClusterMember {
    settings: MemberSettings,
    keys: ClusterKeys,
    leader_value: Vec<u8>,
    phase: Phase,
    lease: LeaseKeeper,
    view: PrefixView,
    election: Election,
    is_displaced: bool,
    /// The store has not renewed the lease in time, so that what it said of the leader may be over.
    is_cut_off: bool,
    random: SeededRandom,
    events: VecDeque<MemberEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Member,
    Leaving,
    Left,
}

impl ClusterMember {
    /// A member that has not asked for anything yet.
    pub fn new(settings: MemberSettings) -> ClusterMember {
        let leader = LeaderRecord {
            node: settings.node.clone(),
        };
        ClusterMember {
            keys: ClusterKeys::new(&settings.cluster),
            leader_value: leader.encode(),
            phase: Phase::Member,
            lease: LeaseKeeper::default(),
            view: PrefixView::default(),
            election: Election::new(settings.candidacy),
            is_displaced: false,
            is_cut_off: false,
            random: SeededRandom::new(settings.seed),
            events: VecDeque::new(),
            settings,
        }
    }

    /// The next thing to tell.
    pub fn next_event(&mut self) -> Option<MemberEvent> {
        self.events.pop_front()
    }

    /// The number of events that wait to be taken.
    pub fn events_waiting(&self) -> usize {
        self.events.len()
    }

    /// The term in which this node leads at that moment. It needs no answer of the store.
    pub fn leads(&self, now: Duration) -> Option<Term> {
        let term = self.election.leading()?;
        self.lease.leading_lease(now).map(|_| term)
    }

    /// Returns whether the node has left, so that nothing more is to be done.
    pub fn has_left(&self) -> bool {
        self.phase == Phase::Left
    }

    /// Changes whether the node wants to lead.
    pub fn set_candidacy(&mut self, now: Duration, candidacy: Candidacy) {
        self.settings.candidacy = candidacy;
        self.judge(now);
    }

    /// Changes what the node writes about itself, and registers it.
    pub fn set_record(&mut self, record: Vec<u8>) {
        if record != self.settings.record {
            self.settings.record = record;
            self.lease.unregister();
        }
    }

    /// Begins to leave the cluster: the lease is revoked, and with it the registration and the leadership.
    pub fn leave(&mut self, now: Duration) {
        if self.phase == Phase::Member {
            self.phase = Phase::Leaving;
            self.judge(now);
        }
    }

    /// Notes that time has passed.
    pub fn tick(&mut self, now: Duration) {
        self.judge(now);
    }

    /// Returns when [`ClusterMember::tick`] and [`ClusterMember::next_request`] are to be called, if nothing else
    /// happens before.
    pub fn wakes_at(&self, now: Duration) -> Option<Duration> {
        if self.phase != Phase::Member {
            return None;
        }
        let election = self
            .election
            .wakes_at(facts(&self.view, &self.lease, &self.keys, now));
        [self.lease.wakes_at(now), self.view.wakes_at(), election]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the next call to make, at once. Its answer is to be applied, whatever it is.
    pub fn next_request(&mut self, now: Duration) -> Option<StoreRequest> {
        match self.phase {
            Phase::Member => {
                let request = self.lease_request(now);
                let request = request.or_else(|| self.view_request(now));
                request.or_else(|| self.election_request(now))
            }
            Phase::Leaving => self.revocation(now),
            Phase::Left => None,
        }
    }

    /// Takes the answer to a call, or what an open watch told.
    pub fn apply(&mut self, now: Duration, answer: StoreAnswer) {
        match answer {
            StoreAnswer::Granted(answer) => {
                let outcome = self.lease.granted(answer);
                self.note_lease(now, outcome);
            }
            StoreAnswer::Registered(answer) => {
                let outcome = self.lease.registered(answer);
                self.note_lease(now, outcome);
            }
            StoreAnswer::Renewed(answer) => {
                let outcome = self.lease.renewed(answer);
                self.note_lease(now, outcome);
            }
            StoreAnswer::Revoked(answer) => self.note_revocation(answer),
            StoreAnswer::Read(answer) => {
                let outcome = self.view.read(answer);
                self.note_view(now, outcome);
            }
            StoreAnswer::WatchOpened(answer) => {
                let outcome = self.view.opened(answer);
                self.note_view(now, outcome);
            }
            StoreAnswer::Changed(answer) => {
                let outcome = self.view.changed(answer);
                self.note_view(now, outcome);
            }
            StoreAnswer::Campaigned(answer) => self.note_campaign(now, answer),
            StoreAnswer::Resigned(answer) => {
                self.election.is_busy = false;
                self.note_election(now, answer);
            }
        }
        self.judge(now);
    }

    fn lease_request(&mut self, now: Duration) -> Option<StoreRequest> {
        let need = self.lease.need(now)?;
        self.lease.send(now);
        Some(StoreRequest::Lease(match need {
            LeaseNeed::Grant => LeaseRequest::Grant {
                ttl: self.settings.ttl,
            },
            LeaseNeed::Renew(lease) => LeaseRequest::Renew { lease },
            LeaseNeed::Register(lease) => LeaseRequest::Register {
                key: self.keys.node(&self.settings.node),
                value: self.settings.record.clone(),
                lease,
            },
        }))
    }

    fn view_request(&mut self, now: Duration) -> Option<StoreRequest> {
        let prefix = self.keys.prefix().to_owned();
        Some(StoreRequest::View(match self.view.ask(now)? {
            ViewNeed::Read => ViewRequest::Read { prefix },
            ViewNeed::Watch(from) => ViewRequest::Watch { prefix, from },
        }))
    }

    fn election_request(&mut self, now: Duration) -> Option<StoreRequest> {
        let need = self
            .election
            .need(facts(&self.view, &self.lease, &self.keys, now), now)?;
        self.election.is_busy = true;
        let key = self.keys.leader();
        Some(StoreRequest::Election(match need {
            ElectionNeed::Campaign(lease) => ElectionRequest::Campaign {
                key,
                value: self.leader_value.clone(),
                lease,
            },
            ElectionNeed::Resign(term) => {
                self.election.give_up(term);
                ElectionRequest::Resign { key, term }
            }
        }))
    }

    /// Asks once for the end of the lease. A call in flight is waited for, since it may be what grants the lease.
    fn revocation(&mut self, now: Duration) -> Option<StoreRequest> {
        if self.lease.is_busy() {
            return None;
        }
        match self.lease.held() {
            Some(held) => {
                let lease = held.lease;
                self.lease.send(now);
                Some(StoreRequest::Lease(LeaseRequest::Revoke { lease }))
            }
            None => {
                self.finish_leaving();
                None
            }
        }
    }

    fn note_revocation(&mut self, answer: Result<(), StoreError>) {
        self.lease.drop_lease();
        self.events
            .extend(answer.err().map(MemberEvent::StoreFailed));
        self.finish_leaving();
    }

    fn finish_leaving(&mut self) {
        if self.phase == Phase::Leaving {
            self.phase = Phase::Left;
            self.events.push_back(MemberEvent::Left);
        }
    }

    fn note_lease(&mut self, now: Duration, outcome: LeaseOutcome) {
        match outcome {
            LeaseOutcome::Unchanged => {}
            LeaseOutcome::Registered => self.events.push_back(MemberEvent::Registered),
            LeaseOutcome::Lost => {
                self.is_displaced = false;
                self.lease.pause.fail(now, self.random.draw());
                self.events.push_back(MemberEvent::Unregistered);
            }
            LeaseOutcome::Failed(error) => {
                self.lease.pause.fail(now, self.random.draw());
                self.events.push_back(MemberEvent::StoreFailed(error));
            }
        }
    }

    fn note_view(&mut self, now: Duration, outcome: ViewOutcome) {
        match outcome {
            ViewOutcome::Differences(differences) => self.tell_all(differences),
            ViewOutcome::Synchronized(differences) => {
                self.tell_all(differences);
                self.events.push_back(MemberEvent::Synchronized);
            }
            ViewOutcome::Restored(differences) => {
                self.lease.unregister();
                self.events.push_back(MemberEvent::StoreRestored);
                self.tell_all(differences);
                self.events.push_back(MemberEvent::Synchronized);
            }
            ViewOutcome::Forgotten => self.view.pause.fail(now, self.random.draw()),
            ViewOutcome::Failed(error) => {
                self.view.pause.fail(now, self.random.draw());
                self.events.push_back(MemberEvent::StoreFailed(error));
            }
        }
        self.check_own_registration();
    }

    fn note_campaign(&mut self, now: Duration, answer: Result<Entry, StoreError>) {
        self.election.is_busy = false;
        match answer {
            Ok(entry) => {
                self.election.pause.succeed();
                let difference = self.view.mirror.take_entry(entry);
                self.tell_all(difference);
            }
            Err(StoreError::LeaseGone) => {
                let outcome = self.lease.renewed(Err(StoreError::LeaseGone));
                self.note_lease(now, outcome);
            }
            Err(error) => self.note_election(now, Err(error)),
        }
    }

    fn note_election(&mut self, now: Duration, answer: Result<(), StoreError>) {
        match answer {
            Ok(()) => {
                self.election.pause.succeed();
                self.election.note_resigned();
            }
            Err(error) => {
                self.election.pause.fail(now, self.random.draw());
                self.events.push_back(MemberEvent::StoreFailed(error));
            }
        }
    }

    fn tell_all(&mut self, differences: impl IntoIterator<Item = Difference>) {
        for difference in differences {
            let event = match &difference {
                Difference::Put(entry) => self.event_of(entry),
                Difference::Gone(entry) => match self.keys.parse(&entry.key) {
                    Some(ClusterKey::Node(name)) => Some(MemberEvent::NodeGone { name }),
                    Some(ClusterKey::Leader) => Some(MemberEvent::Leader(None)),
                    Some(ClusterKey::Settings) => Some(MemberEvent::Settings(None)),
                    None => None,
                },
            };
            self.events.extend(event);
        }
    }

    fn event_of(&self, entry: &Entry) -> Option<MemberEvent> {
        Some(match self.keys.parse(&entry.key)? {
            ClusterKey::Node(name) => match NodeRecord::parse(&entry.value) {
                Ok(record) => MemberEvent::Node { name, record },
                Err(fault) => MemberEvent::UnreadableNode { name, fault },
            },
            // A leader whose name nobody can read leads nobody. Its key still keeps others from leading.
            ClusterKey::Leader => {
                MemberEvent::Leader(LeaderRecord::parse(&entry.value).ok().map(|leader| {
                    ElectedLeader {
                        node: leader.node,
                        term: entry.term(),
                    }
                }))
            }
            ClusterKey::Settings => MemberEvent::Settings(Some(entry.value.clone())),
        })
    }

    /// Registers again if the registration is gone though the lease lives. Yields if another process has the name.
    fn check_own_registration(&mut self) {
        let Some(held) = self.lease.held() else {
            return;
        };
        let Some(registered) = held.registered.filter(|_| self.view.is_read()) else {
            return;
        };
        let key = self.keys.node(&self.settings.node);
        match self.view.mirror.get(&key) {
            Some(own) if own.modified > registered && own.lease != Some(held.lease) => {
                if own.lease.is_none() {
                    // No process wrote that: each has a lease.
                    self.lease.unregister();
                } else if !self.is_displaced {
                    self.is_displaced = true;
                    self.events.push_back(MemberEvent::Displaced);
                }
            }
            None if self.view.mirror.revision() >= registered => {
                self.is_displaced = false;
                self.lease.unregister();
            }
            _ => {}
        }
    }

    /// Judges the node's own leadership, and whether it may campaign.
    fn judge(&mut self, now: Duration) {
        let is_candidate = self.phase == Phase::Member && !self.is_displaced;
        self.election.candidacy = match is_candidate {
            true => self.settings.candidacy,
            false => Candidacy::Follower,
        };
        let draw = self.random.draw();
        let facts = facts(&self.view, &self.lease, &self.keys, now);
        let vacancy = match facts.leader {
            None if self.view.is_read() => Vacancy::Vacant,
            _ => Vacancy::Taken,
        };
        let changes = self.election.judge(facts);
        self.election.note_vacancy(vacancy, now, draw);
        self.events
            .extend(changes.into_iter().map(|change| match change {
                LeadershipChange::Elected(term) => MemberEvent::Elected { term },
                LeadershipChange::Deposed(term) => MemberEvent::Deposed { term },
            }));
        self.judge_contact(now);
    }

    /// Tells that nobody leads while the store does not answer. A leader that cannot renew its lease has stopped, and the
    /// store cannot say so.
    fn judge_contact(&mut self, now: Duration) {
        let is_cut_off = self.lease.is_overdue(now);
        if std::mem::replace(&mut self.is_cut_off, is_cut_off) == is_cut_off {
            return;
        }
        let leader = self.view.mirror.get(&self.keys.leader());
        let event = match (is_cut_off, leader) {
            (true, Some(_)) => Some(MemberEvent::Leader(None)),
            (false, Some(entry)) => self.event_of(entry),
            (_, None) => None,
        };
        self.events.extend(event);
    }
}

fn facts<'a>(
    view: &'a PrefixView,
    lease: &LeaseKeeper,
    keys: &ClusterKeys,
    now: Duration,
) -> ElectionFacts<'a> {
    ElectionFacts {
        leader: view.mirror.get(&keys.leader()),
        lease: lease.leading_lease(now),
        held: lease.held().map(|held| held.lease),
    }
}
