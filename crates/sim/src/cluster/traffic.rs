//! How much control traffic each node has: bytes of the lines that it sends and is sent, before TLS.
//!
//! The first seconds do not count. All nodes start then, and each is told the names of all others once.

use serde::Serialize;

use super::ids::{NodeNumber, NodeRun};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// The bytes a second that a node's connections may cost, each.
pub const CONNECTION_BYTES_MAX: u64 = 300;

/// The bytes a second that a node may cost besides.
pub const NODE_BYTES_MAX: u64 = 500;

/// Traffic counts from the first sample after this time.
const COUNTS_AFTER: VirtualDuration = VirtualDuration::secs(10);

/// What is counted of one node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeTraffic {
    bytes: u64,
    /// Open connections, summed over the samples.
    connections: u64,
}

/// What is counted of all nodes.
#[derive(Debug, Default)]
pub(super) struct ControlTraffic {
    nodes: Vec<NodeTraffic>,
    samples: u64,
    /// Since when it counts.
    since: VirtualInstant,
}

/// The control traffic of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeTrafficFigures {
    /// The node.
    pub node: NodeNumber,
    /// Bytes a second, sent and received.
    pub bytes_per_sec: u64,
    /// Control connections in the mean, in hundredths.
    pub connections_hundredths: u64,
}

impl NodeTrafficFigures {
    /// The bytes a second that the node may have.
    pub fn bytes_max(&self) -> u64 {
        NODE_BYTES_MAX + CONNECTION_BYTES_MAX * self.connections_hundredths / 100
    }

    /// How much more it has, or less.
    pub(super) fn excess(&self) -> i64 {
        self.bytes_per_sec as i64 - self.bytes_max() as i64
    }
}

/// The control traffic of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ControlTrafficFigures {
    /// Bytes a second of a node in the mean.
    pub mean_bytes_per_sec: u64,
    /// The node that is nearest to what it may have, or farthest above it.
    pub busiest: NodeTrafficFigures,
    /// Who led at the end, if somebody did.
    pub leader: Option<NodeTrafficFigures>,
}

impl ControlTraffic {
    /// A line went from one end of a connection to the other.
    pub(super) fn carried(&mut self, ends: [NodeRun; 2], bytes: u64) {
        for end in ends {
            self.of(end.node).bytes += bytes;
        }
    }

    /// A sample begins.
    pub(super) fn begin_sample(&mut self, now: VirtualInstant) {
        let start = VirtualInstant::START;
        if self.since == start && now >= start + COUNTS_AFTER {
            *self = ControlTraffic {
                since: now,
                ..ControlTraffic::default()
            };
        }
        self.samples += 1;
    }

    /// A node has so many connections at the sample.
    pub(super) fn sample(&mut self, node: NodeNumber, connections: usize) {
        self.of(node).connections += connections as u64;
    }

    fn of(&mut self, node: NodeNumber) -> &mut NodeTraffic {
        if self.nodes.len() <= node.slot() {
            self.nodes.resize(node.slot() + 1, NodeTraffic::default());
        }
        &mut self.nodes[node.slot()]
    }

    /// The figures until now.
    pub(super) fn figures(
        &self,
        now: VirtualInstant,
        leader: Option<NodeNumber>,
    ) -> ControlTrafficFigures {
        let secs = (now.since(self.since).0 / 1_000_000_000).max(1);
        let of = |(number, node): (usize, &NodeTraffic)| NodeTrafficFigures {
            node: NodeNumber(number as u16),
            bytes_per_sec: node.bytes / secs,
            connections_hundredths: 100 * node.connections / self.samples.max(1),
        };
        let nodes: Vec<NodeTrafficFigures> = self.nodes.iter().enumerate().map(of).collect();
        let sum: u64 = nodes.iter().map(|node| node.bytes_per_sec).sum();
        let busiest = nodes.iter().max_by_key(|node| node.excess());
        ControlTrafficFigures {
            mean_bytes_per_sec: sum / (nodes.len() as u64).max(1),
            busiest: busiest.copied().unwrap_or_default(),
            leader: leader.and_then(|leader| nodes.get(leader.slot()).copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_count_and_the_busiest_is_the_one_above_its_bound() {
        let run = |node| NodeRun {
            node: NodeNumber(node),
            run: 0,
        };
        let mut traffic = ControlTraffic::default();
        traffic.carried([run(0), run(1)], 1_000_000);
        let at = |secs| VirtualInstant::START + VirtualDuration::secs(secs);
        traffic.begin_sample(at(9));
        traffic.sample(NodeNumber(1), 1_000);
        traffic.begin_sample(at(10));
        traffic.sample(NodeNumber(1), 20);
        traffic.sample(NodeNumber(0), 1);
        traffic.carried([run(0), run(1)], 6_000);
        traffic.carried([run(2), run(1)], 2_000);
        for secs in 11..14 {
            traffic.begin_sample(at(secs));
            traffic.sample(NodeNumber(1), 20);
            traffic.sample(NodeNumber(0), 1);
        }
        let figures = traffic.figures(at(15), Some(NodeNumber(1)));
        assert_eq!(figures.mean_bytes_per_sec, (1_200 + 1_600 + 400) / 3);
        assert_eq!(figures.busiest.node, NodeNumber(0));
        assert_eq!(
            (figures.busiest.bytes_per_sec, figures.busiest.bytes_max()),
            (1_200, 800)
        );
        let leader = figures.leader.expect("it has traffic");
        assert_eq!((leader.bytes_per_sec, leader.bytes_max()), (1_600, 6_500));
    }
}
