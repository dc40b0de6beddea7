//! What a member tells its host.

use sublet_types::NodeName;

use crate::record::{NodeRecord, RecordError};
use crate::store::{StoreError, Term};

/// What a member tells its host.
#[derive(Debug)]
pub enum MemberEvent {
    /// The others can see this node.
    Registered,
    /// The lease has ended, so the others see this node no more. It tries again by itself.
    Unregistered,
    /// Another process has registered under this node's name. This one is a candidate no more.
    Displaced,
    /// A node is new, or its record has changed. This node is told of itself, too.
    Node {
        /// Its name.
        name: NodeName,
        /// What it says about itself.
        record: NodeRecord,
    },
    /// A node's record is none. The node counts as gone until it writes another.
    UnreadableNode {
        /// Its name.
        name: NodeName,
        /// What is wrong.
        fault: RecordError,
    },
    /// A node's registration has ended.
    NodeGone {
        /// Its name.
        name: NodeName,
    },
    /// Another node leads, or this one, or nobody. Nobody is also told while the store does not renew this node's lease.
    Leader(Option<ElectedLeader>),
    /// This node leads from now on.
    Elected {
        /// Its term.
        term: Term,
    },
    /// This node leads no more.
    Deposed {
        /// The term that ended.
        term: Term,
    },
    /// The cluster's settings, as they stand in the store. `None` if there are none.
    Settings(Option<Vec<u8>>),
    /// All that the store has was told. What was not is not there.
    Synchronized,
    /// The store was restored from a backup. Terms may begin again with lower numbers.
    StoreRestored,
    /// A call failed. It is tried again by itself, and what was known stays known.
    StoreFailed(StoreError),
    /// The node has left the cluster. Nothing more comes.
    Left,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectedLeader {
    /// The node.
    pub node: NodeName,
    /// Its term.
    pub term: Term,
}
