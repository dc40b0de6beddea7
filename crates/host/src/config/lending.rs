//! What contradicts itself in the tables of lending.

use std::collections::{BTreeMap, BTreeSet};

use sublet_types::{Bytes, NodeName};

use super::faults::{ConfigFault, FaultKind};
use super::knobs::LENDING_KNOBS;
use super::nearest::nearest;
use super::written::WrittenConfig;

impl WrittenConfig {
    /// Faults of the peers, and of what is lent and borrowed.
    pub(super) fn lending_faults(&self, faults: &mut Vec<ConfigFault>) {
        match self.first_said("peers") {
            Some(said) => {
                self.identity_faults(&said, faults);
                self.peer_listener_faults(&said, faults);
                self.member_faults(faults);
                self.borrower_faults(faults);
                self.cluster_faults(faults);
            }
            None => {
                let said = ["lend", "borrow"].map(|table| self.first_said(table));
                let faulty = said.into_iter().flatten();
                faults.extend(faulty.map(|key| self.fault(&key, FaultKind::NoPeers)));
            }
        }
        self.lending_amount_faults(faults);
    }

    /// Returns whether anything was said of peers but this key.
    pub(super) fn has_peers_beside(&self, key: &str) -> bool {
        let knobs = LENDING_KNOBS.iter().filter(|knob| knob.table == "peers");
        let mut keys = knobs.map(|knob| format!("peers.{}", knob.name));
        keys.any(|said| said != key && self.locations.contains_key(&said))
    }

    /// The first key of a table of lending that was set, in the order of the reference.
    fn first_said(&self, table: &str) -> Option<String> {
        let knobs = LENDING_KNOBS.iter().filter(|knob| knob.table == table);
        let mut keys = knobs.map(|knob| format!("{table}.{}", knob.name));
        keys.find(|key| self.locations.contains_key(key))
    }

    /// Parts that are missing of this host's name and of the files that prove it.
    fn identity_faults(&self, said: &str, faults: &mut Vec<ConfigFault>) {
        let peers = &self.lending.peers;
        let parts = [
            (peers.node.is_some(), "peers.node"),
            (peers.ca.is_some(), "peers.ca"),
            (peers.certificate.is_some(), "peers.certificate"),
            (peers.key.is_some(), "peers.key"),
        ];
        for (_, needs) in parts.into_iter().filter(|(is_there, _)| !is_there) {
            faults.push(self.fault(said, |key| FaultKind::Needs { key, needs }));
        }
    }

    fn peer_listener_faults(&self, said: &str, faults: &mut Vec<ConfigFault>) {
        let is_lending = self.lending.lend.max != Some(Bytes::ZERO);
        if self.lending.peers.listen.is_none() && is_lending {
            let said_max = self.locations.contains_key("lend.max");
            let key = if said_max { "lend.max" } else { said };
            faults.push(self.fault(key, |_| FaultKind::NoPeerListener));
        }
    }

    fn member_faults(&self, faults: &mut Vec<ConfigFault>) {
        let peers = &self.lending.peers;
        let mut named = BTreeSet::new();
        let mut places = BTreeMap::new();
        for member in &peers.members {
            let node = member.name.clone();
            if peers.node.as_ref() == Some(&node) {
                faults.push(self.fault("peers.members", |key| FaultKind::OwnMember { key, node }));
            } else if !named.insert(&member.name) {
                let wrong = |key| FaultKind::MemberTwice { key, node };
                faults.push(self.fault("peers.members", wrong));
            } else if let Some(other) = places.insert(member.place(), &member.name) {
                let nodes = [other.clone(), node];
                let wrong = |key| FaultKind::MembersAtOnePlace { key, nodes };
                faults.push(self.fault("peers.members", wrong));
            }
        }
    }

    /// Names of borrowers that no member has. With etcd, members come and go.
    fn borrower_faults(&self, faults: &mut Vec<ConfigFault>) {
        let members = self.lending.peers.members.iter();
        let members: Vec<&str> = members.map(|member| member.name.as_str()).collect();
        if !self.lending.peers.etcd.is_empty() {
            return;
        }
        let named = self.lending.lend.to.iter().flatten();
        let unknown = named.filter(|node| !members.contains(&node.as_str()));
        for node in unknown {
            faults.push(self.fault("lend.to", |key| FaultKind::NoMember {
                key,
                node: node.clone(),
                nearest: nearest_member(node, &members),
            }));
        }
    }

    fn lending_amount_faults(&self, faults: &mut Vec<ConfigFault>) {
        let amounts = [
            ("lend.max", self.lending.lend.max.unwrap_or(Bytes::ZERO)),
            ("borrow.max", self.lending.borrow.max),
        ];
        for (key, amount) in amounts {
            if amount > Bytes::ZERO
                && let Err(source) = amount.of_a_block_or_more()
            {
                faults.push(self.fault(key, |key| FaultKind::BelowBlock { key, source }));
            }
        }
    }
}

/// The member that is most likely meant.
pub(super) fn nearest_member(node: &NodeName, members: &[&str]) -> Option<String> {
    nearest(node.as_str(), members.iter().copied()).map(str::to_owned)
}
