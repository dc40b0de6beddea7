//! The members of the cluster as the host reaches them, by their numbers. Members come and go while the daemon runs.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use sublet_lend::ids::PeerId;
use sublet_lend::node::{LendTo, MemberSettings, MembersChange};
use sublet_types::NodeName;

/// One member beside this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlMember {
    /// Its name, as its certificate has it.
    pub name: NodeName,
    /// The name or address of its host. A name is resolved anew at each attempt to connect.
    pub host: String,
    /// The TCP port at which it listens.
    pub port: u16,
    /// Whether it may be lent to.
    pub lend: LendTo,
}

impl ControlMember {
    /// What the state machine is told of it.
    pub(super) fn settings(&self) -> MemberSettings {
        MemberSettings {
            name: self.name.clone(),
            lend: self.lend,
        }
    }
}

/// Members that came, or that listen elsewhere now, and those that went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedMembers {
    /// Members that are new, or of which something else is new.
    pub added: Vec<ControlMember>,
    /// Members that are no more.
    pub removed: Vec<NodeName>,
}

impl ChangedMembers {
    /// What the state machine is told of it.
    pub(super) fn change(&self) -> MembersChange {
        MembersChange {
            added: self.added.iter().map(ControlMember::settings).collect(),
            removed: self.removed.clone(),
        }
    }
}

/// All that are or were members, by number.
#[derive(Debug, Default)]
pub struct MemberTable(RwLock<BTreeMap<PeerId, ControlMember>>);

impl MemberTable {
    /// The members of the settings. Their places are their numbers.
    pub(super) fn new(members: &[ControlMember]) -> MemberTable {
        let numbered = (0..).map(PeerId).zip(members.iter().cloned());
        MemberTable(RwLock::new(numbered.collect()))
    }

    /// The member of this number.
    pub fn get(&self, peer: PeerId) -> Option<ControlMember> {
        self.0.read().get(&peer).cloned()
    }

    /// The name of this number.
    pub fn name(&self, peer: PeerId) -> Option<NodeName> {
        self.0.read().get(&peer).map(|member| member.name.clone())
    }

    /// All numbers.
    pub fn numbers(&self) -> Vec<PeerId> {
        self.0.read().keys().copied().collect()
    }

    pub(super) fn set(&self, peer: PeerId, member: ControlMember) {
        self.0.write().insert(peer, member);
    }
}
