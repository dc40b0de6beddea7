//! What a run came to.

use super::node::Node;

/// What a run came to. All amounts are blocks, or blocks times seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementOutcome {
    /// Granted.
    pub granted: u64,
    /// Taken back by lenders that needed it.
    pub recalled: u64,
    /// For each node: wanted beyond its own memory for at least a second, and had of that.
    wanted_and_had: Vec<(u64, u64)>,
    /// Seconds in which a node had far memory, summed over the nodes.
    borrowing_seconds: u64,
    /// The part of a node's far memory at the lender that had most of it, summed over those seconds.
    largest_shares: f64,
    /// The lenders of a node, summed over those seconds.
    lenders: u64,
}

impl PlacementOutcome {
    pub(super) fn new(nodes: usize) -> PlacementOutcome {
        PlacementOutcome {
            granted: 0,
            recalled: 0,
            wanted_and_had: vec![(0, 0); nodes],
            borrowing_seconds: 0,
            largest_shares: 0.0,
            lenders: 0,
        }
    }

    /// Counts a second of a node.
    pub(super) fn count_node(&mut self, number: usize, node: &Node) {
        let had = node.borrowed_in_all();
        let wanted = node.wanted_for_a_second();
        let (wanted_sum, had_sum) = &mut self.wanted_and_had[number];
        *wanted_sum += u64::from(wanted);
        *had_sum += u64::from(had.min(wanted));
        let largest = node.borrowed.values().max().copied().unwrap_or(0);
        if had > 0 {
            self.borrowing_seconds += 1;
            self.largest_shares += f64::from(largest) / f64::from(had);
            self.lenders += node.borrowed.len() as u64;
        }
    }

    /// Blocks recalled ÷ granted.
    pub fn recalled_share(&self) -> f64 {
        ratio(self.recalled as f64, self.granted as f64)
    }

    /// Unmet ÷ wanted.
    pub fn unmet_share(&self) -> f64 {
        let wanted: u64 = self.wanted_and_had.iter().map(|(wanted, _)| wanted).sum();
        let had: u64 = self.wanted_and_had.iter().map(|(_, had)| had).sum();
        ratio(wanted.saturating_sub(had) as f64, wanted as f64)
    }

    /// The part of a borrower's far memory at one lender, on average.
    pub fn largest_share(&self) -> f64 {
        ratio(self.largest_shares, self.borrowing_seconds as f64)
    }

    /// The lenders of a borrower, on average.
    pub fn lenders(&self) -> f64 {
        ratio(self.lenders as f64, self.borrowing_seconds as f64)
    }

    /// Fairness: the least of all nodes' granted ÷ wanted, over the median of them.
    pub fn fairness(&self) -> f64 {
        let wants = self.wanted_and_had.iter().filter(|(wanted, _)| *wanted > 0);
        let mut met: Vec<f64> = wants
            .map(|(wanted, had)| *had as f64 / *wanted as f64)
            .collect();
        met.sort_by(f64::total_cmp);
        let least = met.first().copied().unwrap_or(1.0);
        let median = met.get(met.len() / 2).copied().unwrap_or(1.0);
        ratio(least, median)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
