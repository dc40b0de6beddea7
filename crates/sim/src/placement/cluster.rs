//! All nodes and their leader, second by second.

use sublet_policy::placement::{
    Advice, LoanPair, NodeNumber, NodeReport, PlacementChoice, RackNumber, advise,
};

use super::node::Node;
use super::outcome::PlacementOutcome;
use super::scene::{NODES, PlacementScene};
use crate::rng::SimRng;

/// The nodes of a rack.
const RACK: usize = 20;

/// All nodes and their leader.
pub(super) struct Cluster {
    scene: PlacementScene,
    nodes: Vec<Node>,
    /// What the nodes reported a second ago.
    reports: Vec<NodeReport>,
    draws: SimRng,
    outcome: PlacementOutcome,
}

impl Cluster {
    pub(super) fn new(scene: PlacementScene, seed: u64) -> Cluster {
        Cluster {
            scene,
            nodes: (0..NODES).map(|n| Node::new(scene, seed, n)).collect(),
            reports: Vec::new(),
            draws: SimRng::of_part(seed, u64::MAX),
            outcome: PlacementOutcome::new(NODES),
        }
    }

    /// A second passes.
    pub(super) fn second(&mut self, choice: &PlacementChoice) {
        for node in &mut self.nodes {
            node.pass(self.scene);
        }
        (0..NODES).for_each(|lender| self.recall(lender));
        (0..NODES).for_each(|borrower| self.give_back(borrower));
        let draw = self.draws.bits();
        let loans = |LoanPair { lender, borrower }| {
            let borrowed = &self.nodes[borrower.0 as usize].borrowed;
            borrowed.get(&(lender.0 as usize)).copied().unwrap_or(0)
        };
        for advice in advise(&self.reports, &loans, choice, draw) {
            self.grant(&advice);
        }
        self.reports = (0..NODES).map(|number| self.report(number)).collect();
        self.count();
    }

    pub(super) fn into_outcome(self) -> PlacementOutcome {
        self.outcome
    }

    /// A lender takes back what it needs, from whoever has most of it.
    fn recall(&mut self, lender: usize) {
        let mut missing = self.nodes[lender].overlent();
        if missing == 0 {
            return;
        }
        let of = |node: &Node| node.borrowed.get(&lender).copied().unwrap_or(0);
        let mut borrowers: Vec<(u32, usize)> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(number, node)| (of(node), number))
            .collect();
        borrowers.sort_by_key(|(blocks, number)| (u32::MAX - blocks, *number));
        for (blocks, borrower) in borrowers {
            let taken = blocks.min(missing);
            self.end(lender, borrower, taken);
            self.outcome.recalled += u64::from(taken);
            missing -= taken;
        }
    }

    /// A borrower gives back what it does not need.
    fn give_back(&mut self, borrower: usize) {
        let node = &self.nodes[borrower];
        let mut excess = node.borrowed_in_all().saturating_sub(node.need_beyond());
        while excess > 0 {
            let Some((&lender, &blocks)) = self.nodes[borrower].borrowed.last_key_value() else {
                return;
            };
            let returned = blocks.min(excess);
            self.end(lender, borrower, returned);
            excess -= returned;
        }
    }

    fn end(&mut self, lender: usize, borrower: usize, blocks: u32) {
        if blocks == 0 {
            return;
        }
        self.nodes[lender].lent -= blocks;
        let borrowed = &mut self.nodes[borrower].borrowed;
        if let Some(held) = borrowed.get_mut(&lender) {
            *held -= blocks;
            if *held == 0 {
                borrowed.remove(&lender);
            }
        }
    }

    /// A borrower follows advice. Both ends look at what is so now.
    fn grant(&mut self, advice: &Advice) {
        let (borrower, lender) = (advice.borrower.0 as usize, advice.lender.0 as usize);
        let asked = advice.blocks.min(self.nodes[borrower].wanted());
        let is_free_to_ask = self.nodes[borrower].lent == 0;
        let blocks = asked.min(self.nodes[lender].lendable());
        if blocks == 0 || !is_free_to_ask {
            return;
        }
        self.nodes[lender].lent += blocks;
        *self.nodes[borrower].borrowed.entry(lender).or_default() += blocks;
        self.outcome.granted += u64::from(blocks);
    }

    fn report(&self, number: usize) -> NodeReport {
        let node = &self.nodes[number];
        NodeReport {
            node: NodeNumber(number as u32),
            rack: Some(RackNumber((number / RACK) as u32)),
            lendable: node.lendable(),
            wanted: node.wanted(),
            borrowed: node.borrowed_in_all(),
        }
    }

    fn count(&mut self) {
        for (number, node) in self.nodes.iter().enumerate() {
            self.outcome.count_node(number, node);
        }
    }
}
