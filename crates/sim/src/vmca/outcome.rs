//! What a run came to.

use serde::Serialize;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VmcaOutcome {
    /// How long each program ran, node by node.
    pub times: Vec<RunningTime>,
    /// The nodes that ran them.
    pub nodes: Vec<NodeOutcome>,
    /// How many violations the judges found.
    pub wrongs: u64,
}

/// How long a program ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunningTime {
    /// The node, by the paper's number.
    pub node: usize,
    /// The virtual machine, by its name in the paper's figures.
    pub vm: String,
    /// Which run of the program. `all` if there is one.
    pub run: String,
    /// Virtual seconds.
    pub secs: f64,
}

/// What a node did. Pages are those of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeOutcome {
    /// The node, by the paper's number.
    pub node: usize,
    /// The most blocks that it had of others.
    pub borrowed_most: u32,
    /// Seconds until it had half of its part of the idle nodes' memory. `None` if it never had.
    pub borrowed_half_secs: Option<u64>,
    /// Puts and gets of pages at other nodes.
    pub far_accesses: u64,
    /// Pages read from its disk.
    pub disk_pages_read: u64,
    /// Pages written to it.
    pub disk_pages_written: u64,
    /// Reads and writes that did not continue where the one before ended. Each takes the disk's latency.
    pub disk_seeks: u64,
}
