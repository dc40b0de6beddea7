//! The links between nodes: who reaches whom, how slowly, and who lets nobody in.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::ids::NodeNumber;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// What disturbs one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum LinkFault {
    /// Nothing comes through.
    Cut,
    /// Nothing leaves before this time.
    Stalled(VirtualInstant),
    /// Messages take so many times as long.
    Slow(u32),
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default)]
struct LinkDirection {
    is_cut: bool,
    /// When the last message has left.
    busy_until: VirtualInstant,
    slowness: Option<u32>,
}

/// All links. Those that nobody used and nothing disturbs are not in it.
#[derive(Debug, Default)]
pub(in crate::cluster) struct LinkTable {
    directions: BTreeMap<(NodeNumber, NodeNumber), LinkDirection>,
    /// Nodes whose hosts are off.
    down: BTreeSet<NodeNumber>,
    refusing: BTreeSet<NodeNumber>,
}

impl LinkTable {
    /// Disturbs the direction from one node to another.
    pub(in crate::cluster) fn disturb(
        &mut self,
        from: NodeNumber,
        to: NodeNumber,
        fault: LinkFault,
    ) {
        let direction = self.directions.entry((from, to)).or_default();
        match fault {
            LinkFault::Cut => direction.is_cut = true,
            LinkFault::Stalled(until) => direction.busy_until = direction.busy_until.max(until),
            LinkFault::Slow(times) => direction.slowness = Some(times),
        }
    }

    /// Ends what disturbs the direction from one node to another, but for a stall.
    pub(in crate::cluster) fn heal(&mut self, from: NodeNumber, to: NodeNumber) {
        if let Some(direction) = self.directions.get_mut(&(from, to)) {
            direction.is_cut = false;
            direction.slowness = None;
        }
    }

    /// Ends all that disturbs, but for stalls and for hosts that are off.
    pub(in crate::cluster) fn heal_all(&mut self) {
        for direction in self.directions.values_mut() {
            direction.is_cut = false;
            direction.slowness = None;
        }
        self.refusing.clear();
    }

    /// Turns a host off.
    pub(in crate::cluster) fn turn_off(&mut self, node: NodeNumber) {
        self.down.insert(node);
    }

    /// Turns a host on.
    pub(in crate::cluster) fn turn_on(&mut self, node: NodeNumber) {
        self.down.remove(&node);
    }

    /// Lets a node accept no connection.
    pub(in crate::cluster) fn refuse(&mut self, node: NodeNumber) {
        self.refusing.insert(node);
    }

    /// Lets a node accept connections again.
    pub(in crate::cluster) fn admit(&mut self, node: NodeNumber) {
        self.refusing.remove(&node);
    }

    /// Returns whether what one node sends comes to another.
    pub(super) fn passes(&self, from: NodeNumber, to: NodeNumber) -> bool {
        let is_cut = |direction: &LinkDirection| direction.is_cut;
        let is_off = self.down.contains(&from) || self.down.contains(&to);
        !is_off && !self.directions.get(&(from, to)).is_some_and(is_cut)
    }

    /// Returns whether a node accepts no connection.
    pub(super) fn refuses(&self, node: NodeNumber) -> bool {
        self.refusing.contains(&node)
    }

    /// How many times longer than usual messages take.
    pub(super) fn slowness(&self, from: NodeNumber, to: NodeNumber) -> u32 {
        let direction = self.directions.get(&(from, to));
        direction
            .and_then(|direction| direction.slowness)
            .unwrap_or(1)
    }

    /// Takes a direction for the time of a transfer. Returns when the transfer begins.
    pub(super) fn reserve(
        &mut self,
        now: VirtualInstant,
        way: (NodeNumber, NodeNumber),
        transfer: VirtualDuration,
    ) -> VirtualInstant {
        let direction = self.directions.entry(way).or_default();
        let begins = now.max(direction.busy_until);
        direction.busy_until = begins + transfer;
        begins
    }
}
