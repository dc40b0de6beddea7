//! The service by itself: which calls are answered, when, and what watches tell.

use sublet_etcd::member::{ElectionRequest, StoreAnswer};
use sublet_etcd::store::LeaseId;

use super::*;

const RUN: NodeRun = NodeRun {
    node: NodeNumber(3),
    run: 0,
};

/// A service whose alarms are kept in order.
struct Woken {
    service: EtcdService,
    due: Vec<(VirtualInstant, EtcdAlarm)>,
    now: VirtualInstant,
}

impl Woken {
    fn new() -> Woken {
        let mut service = EtcdService::new(SimRng::seeded(5), (100, 100), None);
        service.loses_answers = false;
        Woken {
            service,
            due: Vec::new(),
            now: VirtualInstant::START,
        }
    }

    fn ask(&mut self, request: StoreRequest) {
        self.service.ask(self.now, RUN, request);
    }

    /// Lets time pass. Returns the answers, and when each came.
    fn pass(&mut self, secs: u64) -> Vec<(VirtualInstant, StoreAnswer)> {
        let end = self.now + VirtualDuration::secs(secs);
        let mut answers = Vec::new();
        loop {
            self.due.extend(self.service.take_alarms());
            self.due.sort_by_key(|(at, _)| *at);
            match self.due.first().copied() {
                Some((at, alarm)) if at <= end => {
                    self.due.remove(0);
                    self.now = self.now.max(at);
                    let answer = self.service.wake(self.now, alarm);
                    answers.extend(answer.map(|(_, answer)| (self.now, answer)));
                }
                _ => break,
            }
        }
        self.now = end;
        answers
    }

    fn lease(&mut self) -> LeaseId {
        let ttl = std::time::Duration::from_secs(5);
        self.ask(StoreRequest::Lease(LeaseRequest::Grant { ttl }));
        match &self.pass(1)[..] {
            [(_, StoreAnswer::Granted(Ok(grant)))] => grant.lease,
            other => panic!("{other:?}"),
        }
    }

    fn campaign(&mut self, lease: LeaseId) {
        self.ask(StoreRequest::Election(ElectionRequest::Campaign {
            key: "/p/leader".to_owned(),
            value: Vec::new(),
            lease,
        }));
    }
}

fn renew(lease: LeaseId) -> StoreRequest {
    StoreRequest::Lease(LeaseRequest::Renew { lease })
}

#[test]
fn a_watch_tells_that_the_lease_of_a_leader_has_ended() {
    let mut woken = Woken::new();
    let lease = woken.lease();
    let prefix = "/p/".to_owned();
    let from = Revision(1);
    woken.ask(StoreRequest::View(ViewRequest::Watch { prefix, from }));
    woken.campaign(lease);
    let answers = woken.pass(3);
    assert_eq!(answers.len(), 3, "{answers:?}");
    let answers = woken.pass(4);
    assert!(
        matches!(&answers[..], [(_, StoreAnswer::Changed(Ok(changes)))] if changes.len() == 1),
        "{answers:?}"
    );
}

#[test]
fn without_a_quorum_calls_end_at_their_limits_and_leases_live_on() {
    let mut woken = Woken::new();
    let lease = woken.lease();
    let lasts = VirtualDuration::secs(20);
    woken
        .service
        .break_for(woken.now, EtcdCondition::NoQuorum, lasts);
    let asked_at = woken.now;
    woken.ask(renew(lease));
    let answers = woken.pass(19);
    let [(at, StoreAnswer::Renewed(Err(_)))] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(at.since(asked_at), RENEWAL_LIMIT);
    woken.pass(2);
    woken.ask(renew(lease));
    let answers = woken.pass(1);
    let renewed = matches!(&answers[..], [(_, StoreAnswer::Renewed(Ok(_)))]);
    assert!(renewed, "{answers:?}");
}

#[test]
fn calls_wait_for_a_short_election_and_not_for_a_long_one() {
    for (secs, is_answered) in [(2, true), (5, false)] {
        let mut woken = Woken::new();
        let lease = woken.lease();
        let lasts = VirtualDuration::secs(secs);
        woken
            .service
            .break_for(woken.now, EtcdCondition::Electing, lasts);
        woken.campaign(lease);
        let answers = woken.pass(6);
        let [(_, StoreAnswer::Campaigned(answer))] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(answer.is_ok(), is_answered);
    }
}

#[test]
fn nobody_who_is_cut_off_is_answered_and_nobody_at_all_while_it_is_away() {
    let mut woken = Woken::new();
    let lease = woken.lease();
    woken.service.cut(RUN.node);
    woken.ask(renew(lease));
    let answers = woken.pass(2);
    assert!(matches!(&answers[..], [(_, StoreAnswer::Renewed(Err(_)))]));
    woken.service.reconnect(woken.now, RUN.node);
    let lasts = VirtualDuration::secs(9);
    woken
        .service
        .break_for(woken.now, EtcdCondition::Away, lasts);
    woken.ask(renew(lease));
    let answers = woken.pass(1);
    assert!(matches!(&answers[..], [(_, StoreAnswer::Renewed(Err(_)))]));
    woken.service.heal(woken.now);
    woken.ask(renew(lease));
    let answers = woken.pass(1);
    assert!(matches!(&answers[..], [(_, StoreAnswer::Renewed(Ok(_)))]));
}
