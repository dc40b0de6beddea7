//! The paper's four scenarios, and the nodes that they run on.

use std::fmt;
use std::str::FromStr;

use sublet_types::Bytes;

use crate::scenario::{BuiltInScenario, Scenario};

/// The nodes of the cluster.
pub(super) const NODES: usize = 4;

/// The nodes that run virtual machines, counted from 0: the paper's nodes 3 and 4. The others are idle.
pub(super) const BUSY: [usize; 2] = [2, 3];

/// The blocks of 2 MiB that a node has for its tier: "every node having 1GB of Tmem initially available".
pub(super) const OWN_BLOCKS: u32 = Bytes::gib(1).blocks() as u32;

/// A scenario of Table IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VmcaScenario {
    /// In-memory-analytics twice on three machines.
    One,
    /// Graph-analytics on three machines.
    Two,
    /// Graph-analytics on two machines, in-memory-analytics on a third, all twice.
    Three,
    /// Graph-analytics, and data-caching's client and server.
    Four,
}

/// There are four scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the paper's scenarios are 1, 2, 3 and 4")]
pub struct UnknownScenario;

impl FromStr for VmcaScenario {
    type Err = UnknownScenario;

    fn from_str(text: &str) -> Result<VmcaScenario, UnknownScenario> {
        let is_it = |scenario: &VmcaScenario| scenario.to_string() == text;
        VmcaScenario::ALL
            .into_iter()
            .find(is_it)
            .ok_or(UnknownScenario)
    }
}

/// `1` to `4`.
impl fmt::Display for VmcaScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place() + 1)
    }
}

impl VmcaScenario {
    /// All of them.
    pub const ALL: [VmcaScenario; 4] = [
        VmcaScenario::One,
        VmcaScenario::Two,
        VmcaScenario::Three,
        VmcaScenario::Four,
    ];

    /// Its place among all.
    pub(super) fn place(self) -> usize {
        self as usize
    }

    /// What runs on a node.
    pub(super) fn of_a_node(self) -> Scenario {
        let name = match self {
            VmcaScenario::One => "vmca-1",
            VmcaScenario::Two => "vmca-2",
            VmcaScenario::Three => "vmca-3",
            VmcaScenario::Four => "vmca-4",
        };
        let shipped = BuiltInScenario::find(name).expect("it is shipped");
        shipped.scenario().expect("the tests read every scenario")
    }
}
