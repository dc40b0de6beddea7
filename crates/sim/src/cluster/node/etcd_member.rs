//! A node's place in etcd, and what its lending node learns of it: who the members are, and who leads.
//!
//! This node leads for its lending node only while its lease lives by its own clock. A leader's key alone is not enough.

use std::time::Duration;

use sublet_etcd::member::{
    Candidacy, ClusterMember, ElectedLeader, MemberEvent, MemberSettings as EtcdSettings,
    StoreAnswer, StoreRequest, TTL_DEFAULT,
};
use sublet_etcd::record::NodeRecord;
use sublet_etcd::store::Term as EtcdTerm;
use sublet_lend::ids::{ClusterName, Incarnation, NodeName, Term};
use sublet_lend::node::{LendTo, LendingInput, MemberSettings, MembersChange};

/// A node's place in etcd.
pub(super) struct EtcdMember {
    machine: ClusterMember,
    own: NodeName,
    /// Who leads, by etcd.
    known: Option<ElectedLeader>,
    /// The term in which this node leads.
    leading: Option<EtcdTerm>,
    /// What the lending node was told last.
    told: LeaderTold,
    /// Whether a leader that etcd names no more still counts, because a rule is left out.
    awaits_leader: bool,
}

/// Who leads and in which term, as a lending node is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaderTold {
    pub(super) leader: Option<NodeName>,
    pub(super) term: Term,
}

impl EtcdMember {
    /// A node that has not asked for anything yet.
    pub(super) fn new(own: NodeName, incarnation: Incarnation, seed: u64) -> EtcdMember {
        let record = NodeRecord {
            addresses: vec![format!("{own}:7071")],
            fingerprint: "00".repeat(32),
            incarnation: incarnation.to_string(),
            rack: None,
        };
        let settings = EtcdSettings {
            cluster: ClusterName::default(),
            node: own.clone(),
            record: record.encode().expect("a short record"),
            candidacy: Candidacy::Candidate,
            ttl: TTL_DEFAULT,
            seed,
        };
        EtcdMember {
            machine: ClusterMember::new(settings),
            own,
            known: None,
            leading: None,
            told: LeaderTold::default(),
            awaits_leader: false,
        }
    }

    /// Believes in a leader until another one leads.
    pub(super) fn await_leader(&mut self) {
        self.awaits_leader = true;
    }

    /// Takes an answer.
    pub(super) fn apply(&mut self, now: Duration, answer: StoreAnswer) {
        self.machine.apply(now, answer);
    }

    /// Notes that time has passed.
    pub(super) fn tick(&mut self, now: Duration) {
        self.machine.tick(now);
    }

    /// The next call to make.
    pub(super) fn next_request(&mut self, now: Duration) -> Option<StoreRequest> {
        self.machine.next_request(now)
    }

    /// Who leads, by what the lending node was told last.
    pub(super) fn told(&self) -> &LeaderTold {
        &self.told
    }

    /// What the lending node is to be told.
    pub(super) fn inputs(&mut self) -> Vec<LendingInput> {
        let mut change = MembersChange::default();
        let mut inputs = Vec::new();
        while let Some(event) = self.machine.next_event() {
            match event {
                MemberEvent::Node { name, .. } => {
                    change.removed.retain(|gone| *gone != name);
                    let lend = LendTo::Allowed;
                    change.added.push(MemberSettings { name, lend });
                }
                MemberEvent::NodeGone { name } | MemberEvent::UnreadableNode { name, .. } => {
                    change.added.retain(|member| member.name != name);
                    change.removed.push(name);
                }
                MemberEvent::Leader(None) if self.awaits_leader => {}
                MemberEvent::Leader(leader) => self.known = leader,
                MemberEvent::Elected { term } => self.leading = Some(term),
                MemberEvent::Deposed { .. } => self.leading = None,
                MemberEvent::Registered
                | MemberEvent::Unregistered
                | MemberEvent::Displaced
                | MemberEvent::Settings(_)
                | MemberEvent::Synchronized
                | MemberEvent::StoreRestored
                | MemberEvent::StoreFailed(_)
                | MemberEvent::Left => {}
            }
        }
        if change != MembersChange::default() {
            inputs.push(LendingInput::Members(change));
        }
        let leader = self.leader();
        if leader != self.told {
            self.told = leader.clone();
            let LeaderTold { leader, term } = leader;
            inputs.push(LendingInput::Leader { leader, term });
        }
        inputs
    }

    fn leader(&self) -> LeaderTold {
        let nobody = LeaderTold {
            leader: None,
            term: self.told.term,
        };
        match &self.known {
            Some(known) if known.node != self.own || self.leading == Some(known.term) => {
                LeaderTold {
                    leader: Some(known.node.clone()),
                    term: Term(known.term.0),
                }
            }
            _ => nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use sublet_etcd::testing::FakeEtcd;

    use super::*;
    use crate::cluster::ids::NodeNumber;

    #[test]
    fn it_leads_while_its_lease_lives_by_its_own_clock_and_no_longer() {
        let own = NodeNumber(2).name();
        let mut member = EtcdMember::new(own, Incarnation(5), 3);
        let mut etcd = FakeEtcd::default();
        let millis = Duration::from_millis;
        for step in 0..10 {
            let now = millis(100 * step);
            member.tick(now);
            while let Some(request) = member.next_request(now) {
                member.apply(now, etcd.answer(request));
            }
        }
        let leads = |input: &LendingInput| match input {
            LendingInput::Leader { leader, term } => Some((leader.is_some(), *term)),
            _ => None,
        };
        let told: Vec<_> = member.inputs().iter().filter_map(leads).collect();
        let [(true, term)] = told[..] else {
            panic!("{told:?}");
        };
        // The key is still there, and nothing was renewed.
        member.tick(TTL_DEFAULT);
        let told: Vec<_> = member.inputs().iter().filter_map(leads).collect();
        assert_eq!(told, [(false, term)]);
    }
}
