//! The etcd of a simulated cluster: etcd's contract in memory, behind calls that are delayed, lost and refused.
//!
//! ```text
//!  node ──request──▶ Arrives ──served?──▶ answer ──▶ Answers ──▶ node      a call ends within its time limit
//!                                └──▶ what changed ──▶ Tells ──▶ nodes that watch
//! ```
//!
//! Time of leases passes only while etcd serves. Whoever leads etcd next lets each lease live for its whole time again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use sublet_etcd::keys::ClusterKeys;
use sublet_etcd::member::{LeaseRequest, StoreAnswer, StoreRequest, ViewRequest};
use sublet_etcd::store::{Revision, WatchEnd};
use sublet_etcd::testing::{FakeEtcd, failed_answer, unreachable};

use super::ids::{NodeNumber, NodeRun};
use super::mutation::Mutation;
use crate::rng::SimRng;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// How often etcd looks for leases that have ended.
const LOOK_EVERY: VirtualDuration = VirtualDuration::micros(500_000);

/// The time limit of a renewal, as the daemon sets it.
const RENEWAL_LIMIT: VirtualDuration = VirtualDuration::secs(1);

/// The time limit of any other call.
const CALL_LIMIT: VirtualDuration = VirtualDuration::secs(3);

/// One answer in so many is lost while there are faults.
const LOST_ONE_IN: u64 = 200;

/// What is wrong with all of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdCondition {
    /// Nothing.
    Serving,
    /// Nobody reaches any of its members.
    Away,
    /// Its members are there, and too few to decide anything. Watches stay open, and nothing changes.
    NoQuorum,
    /// Its leader is gone, and it elects another. Calls wait.
    Electing,
}

/// What the service wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EtcdAlarm {
    /// Leases may have ended.
    Look,
    /// A request reaches etcd.
    Arrives(u64),
    /// An answer reaches its node.
    Answers(u64),
    /// A watch tells what has changed. The number is the watch's.
    Tells(NodeRun, u64),
    /// What was wrong with all of etcd may be over.
    Recovers,
}

/// A call that is under way.
#[derive(Debug)]
struct EtcdCall {
    run: NodeRun,
    asked_at: VirtualInstant,
    stage: CallStage,
}

#[derive(Debug)]
enum CallStage {
    Request(StoreRequest),
    Answer(StoreAnswer),
}

/// A watch that is open.
#[derive(Debug)]
struct EtcdWatch {
    number: u64,
    prefix: String,
    next: Revision,
    is_due: bool,
}

/// The etcd of a cluster.
pub(super) struct EtcdService {
    etcd: FakeEtcd,
    luck: SimRng,
    /// Hundredths of the true speed of its clock.
    percent: u32,
    /// The time that has passed for leases.
    lived: VirtualDuration,
    at: VirtualInstant,
    condition: EtcdCondition,
    /// Until when the condition lasts, if something is wrong.
    wrong_until: VirtualInstant,
    /// Since when nothing is wrong with all of it.
    serving_since: VirtualInstant,
    /// Nodes that do not reach it.
    cut: BTreeSet<NodeNumber>,
    calls: BTreeMap<u64, EtcdCall>,
    watches: BTreeMap<NodeRun, EtcdWatch>,
    next: u64,
    alarms: Vec<(VirtualInstant, EtcdAlarm)>,
    loses_answers: bool,
    mutation: Option<Mutation>,
}

impl EtcdService {
    /// An etcd without a key, whose clock has this speed in hundredths.
    pub(super) fn new(
        mut luck: SimRng,
        (slowest, fastest): (u32, u32),
        mutation: Option<Mutation>,
    ) -> EtcdService {
        let percent = slowest + luck.below(u64::from(fastest - slowest + 1)) as u32;
        EtcdService {
            etcd: FakeEtcd::default(),
            luck,
            percent,
            lived: VirtualDuration::default(),
            at: VirtualInstant::START,
            condition: EtcdCondition::Serving,
            wrong_until: VirtualInstant::START,
            serving_since: VirtualInstant::START,
            cut: BTreeSet::new(),
            calls: BTreeMap::new(),
            watches: BTreeMap::new(),
            next: 1,
            alarms: vec![(VirtualInstant::START, EtcdAlarm::Look)],
            loses_answers: true,
            mutation,
        }
    }

    /// Alarms that were set since the last call. Each must be given back at its time.
    pub(super) fn take_alarms(&mut self) -> Vec<(VirtualInstant, EtcdAlarm)> {
        std::mem::take(&mut self.alarms)
    }

    /// Since when it serves all that reach it. `None` if it does not.
    pub(super) fn serving_since(&self) -> Option<VirtualInstant> {
        (self.condition == EtcdCondition::Serving).then_some(self.serving_since)
    }

    /// Returns whether a node reaches it.
    pub(super) fn is_reached_by(&self, node: NodeNumber) -> bool {
        !self.cut.contains(&node)
    }

    /// The run that an alarm is for, if it is for one that must not be stopped.
    pub(super) fn run_of(&self, alarm: EtcdAlarm) -> Option<NodeRun> {
        match alarm {
            EtcdAlarm::Answers(id) => self.calls.get(&id).map(|call| call.run),
            EtcdAlarm::Tells(run, _) => Some(run),
            EtcdAlarm::Look | EtcdAlarm::Arrives(_) | EtcdAlarm::Recovers => None,
        }
    }

    /// A node asks for something. A request about its view ends its watch.
    pub(super) fn ask(&mut self, now: VirtualInstant, run: NodeRun, request: StoreRequest) {
        if matches!(request, StoreRequest::View(_)) {
            self.watches.remove(&run);
        }
        let call = EtcdCall {
            run,
            asked_at: now,
            stage: CallStage::Request(request),
        };
        let due = now + self.delay();
        let id = self.put(call);
        self.alarms.push((due, EtcdAlarm::Arrives(id)));
    }

    /// A run is over. Its lease ends by itself.
    pub(super) fn forget(&mut self, run: NodeRun) {
        self.watches.remove(&run);
        self.calls.retain(|_, call| call.run != run);
    }

    /// Does what an alarm says. Returns what reaches which run.
    pub(super) fn wake(
        &mut self,
        now: VirtualInstant,
        alarm: EtcdAlarm,
    ) -> Option<(NodeRun, StoreAnswer)> {
        self.advance(now);
        match alarm {
            EtcdAlarm::Look => {
                self.keep_leaders_lease();
                self.alarms.push((now + LOOK_EVERY, EtcdAlarm::Look));
                self.wake_watches(now);
                None
            }
            EtcdAlarm::Arrives(id) => {
                self.arrive(now, id);
                None
            }
            EtcdAlarm::Answers(id) => {
                let call = self.calls.remove(&id)?;
                match call.stage {
                    CallStage::Answer(answer) => Some((call.run, answer)),
                    CallStage::Request(_) => None,
                }
            }
            EtcdAlarm::Tells(run, number) => Some((run, self.tell(run, number)?)),
            EtcdAlarm::Recovers => {
                if now >= self.wrong_until && self.condition != EtcdCondition::Serving {
                    self.recover(now);
                }
                None
            }
        }
    }

    /// Lets something be wrong with all of it for so long.
    pub(super) fn break_for(
        &mut self,
        now: VirtualInstant,
        condition: EtcdCondition,
        lasts: VirtualDuration,
    ) {
        self.advance(now);
        self.condition = condition;
        self.wrong_until = now + lasts;
        self.alarms.push((self.wrong_until, EtcdAlarm::Recovers));
        self.wake_watches(now);
    }

    /// Lets a node not reach it.
    pub(super) fn cut(&mut self, node: NodeNumber) {
        self.cut.insert(node);
    }

    /// Lets a node reach it again.
    pub(super) fn reconnect(&mut self, now: VirtualInstant, node: NodeNumber) {
        self.cut.remove(&node);
        self.wake_watches(now);
    }

    /// Ends the lease of who leads the cluster, as an operator may. Another one wins, and who led does not know.
    pub(super) fn depose(&mut self, now: VirtualInstant, keys: &ClusterKeys) {
        let lease = self.etcd.get(&keys.leader()).and_then(|entry| entry.lease);
        if let Some(lease) = lease {
            self.etcd.revoke(lease);
            self.wake_watches(now);
        }
    }

    /// Forgets all changes up to now.
    pub(super) fn compact(&mut self) {
        self.etcd.compact();
    }

    /// Lets nothing be wrong any more, and nothing be lost.
    pub(super) fn heal(&mut self, now: VirtualInstant) {
        self.advance(now);
        self.loses_answers = false;
        self.cut.clear();
        if self.condition != EtcdCondition::Serving {
            self.recover(now);
        }
        self.wake_watches(now);
    }

    fn recover(&mut self, now: VirtualInstant) {
        self.condition = EtcdCondition::Serving;
        self.serving_since = now;
        self.etcd.extend_leases();
        self.wake_watches(now);
    }

    fn advance(&mut self, now: VirtualInstant) {
        let passed = now.since(self.at);
        self.at = self.at.max(now);
        if self.condition == EtcdCondition::Serving {
            self.lived += VirtualDuration(passed.0 * u64::from(self.percent) / 100);
            let before = self.etcd.revision();
            self.etcd.advance_to(self.lived.into());
            if self.etcd.revision() != before {
                self.wake_watches(now);
            }
        }
    }

    /// If the run leaves that rule out: the lease of a leader lives on whoever renews it.
    fn keep_leaders_lease(&mut self) {
        if self.mutation == Some(Mutation::LeaderLeaseKept) {
            let entries = self.etcd.read("/").entries;
            let leader = entries.iter().find(|entry| entry.key.ends_with("/leader"));
            if let Some(lease) = leader.and_then(|entry| entry.lease) {
                self.etcd.renew(lease);
            }
        }
    }

    fn delay(&mut self) -> VirtualDuration {
        VirtualDuration::micros(1_000 + self.luck.below(9_000))
    }

    fn put(&mut self, call: EtcdCall) -> u64 {
        let id = self.next;
        self.next += 1;
        self.calls.insert(id, call);
        id
    }

    /// A request reaches etcd, or does not.
    fn arrive(&mut self, now: VirtualInstant, id: u64) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        let EtcdCall {
            run,
            asked_at,
            stage: CallStage::Request(request),
        } = call
        else {
            return;
        };
        let limit = match request {
            StoreRequest::Lease(LeaseRequest::Renew { .. }) => RENEWAL_LIMIT,
            _ => CALL_LIMIT,
        };
        let limit_at = asked_at + limit;
        let opens_watch = matches!(request, StoreRequest::View(ViewRequest::Watch { .. }));
        let (answer, due) = match self.condition {
            _ if self.cut.contains(&run.node) => (
                failed_answer(&request, unreachable(ErrorKind::TimedOut)),
                limit_at,
            ),
            EtcdCondition::Away => {
                let refused = unreachable(ErrorKind::ConnectionRefused);
                (failed_answer(&request, refused), now + self.delay())
            }
            EtcdCondition::Electing if !opens_watch && self.wrong_until < limit_at => {
                let due = self.wrong_until + self.delay();
                let stage = CallStage::Request(request);
                let id = self.put(EtcdCall {
                    run,
                    asked_at,
                    stage,
                });
                self.alarms.push((due, EtcdAlarm::Arrives(id)));
                return;
            }
            EtcdCondition::NoQuorum | EtcdCondition::Electing if !opens_watch => (
                failed_answer(&request, unreachable(ErrorKind::TimedOut)),
                limit_at,
            ),
            EtcdCondition::Serving | EtcdCondition::NoQuorum | EtcdCondition::Electing => {
                self.serve(now, (run, limit_at), request)
            }
        };
        let stage = CallStage::Answer(answer);
        let id = self.put(EtcdCall {
            run,
            asked_at,
            stage,
        });
        self.alarms.push((due.max(now), EtcdAlarm::Answers(id)));
    }

    /// Does what is asked. Returns the answer and when it arrives. A lost one is an error at the time limit.
    fn serve(
        &mut self,
        now: VirtualInstant,
        (run, limit_at): (NodeRun, VirtualInstant),
        request: StoreRequest,
    ) -> (StoreAnswer, VirtualInstant) {
        let is_lost = self.loses_answers && self.luck.below(LOST_ONE_IN) == 0;
        let lost = failed_answer(&request, unreachable(ErrorKind::TimedOut));
        let watched = match &request {
            StoreRequest::View(ViewRequest::Watch { prefix, from }) => {
                Some((prefix.clone(), *from))
            }
            _ => None,
        };
        let answer = self.etcd.answer(request);
        if is_lost {
            self.wake_watches(now);
            return (lost, limit_at);
        }
        if let (Some((prefix, next)), StoreAnswer::WatchOpened(Ok(_))) = (watched, &answer) {
            let number = self.next;
            self.next += 1;
            let watch = EtcdWatch {
                number,
                prefix,
                next,
                is_due: false,
            };
            self.watches.insert(run, watch);
        }
        self.wake_watches(now);
        (answer, now + self.delay())
    }

    /// Lets each watch tell what is new.
    fn wake_watches(&mut self, now: VirtualInstant) {
        let revision = self.etcd.revision();
        let is_away = self.condition == EtcdCondition::Away;
        for (run, watch) in &mut self.watches {
            let has_news = is_away || watch.next <= revision;
            if has_news && !watch.is_due && !self.cut.contains(&run.node) {
                watch.is_due = true;
                // The answer that the watch is open comes first.
                let wait = VirtualDuration::micros(11_000 + self.luck.below(20_000));
                self.alarms
                    .push((now + wait, EtcdAlarm::Tells(*run, watch.number)));
            }
        }
    }

    fn tell(&mut self, run: NodeRun, number: u64) -> Option<StoreAnswer> {
        let watch = self.watches.get_mut(&run)?;
        if watch.number != number {
            return None;
        }
        watch.is_due = false;
        if self.cut.contains(&run.node) {
            return None;
        }
        let told = match self.condition {
            EtcdCondition::Away => Err(WatchEnd::Cut(unreachable(ErrorKind::ConnectionReset))),
            _ => {
                let changes = self.etcd.changes_from(&watch.prefix, watch.next);
                changes.ok_or(WatchEnd::Compacted)
            }
        };
        watch.next = watch.next.max(self.etcd.revision().next());
        match told {
            Ok(changes) if changes.is_empty() => None,
            Ok(changes) => Some(StoreAnswer::Changed(Ok(changes))),
            Err(end) => {
                self.watches.remove(&run);
                Some(StoreAnswer::Changed(Err(end)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
