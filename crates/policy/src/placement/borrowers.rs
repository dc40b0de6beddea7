//! Who wants memory, in an order in which nobody is always the first.

use super::advice::ShortageReason;
use super::draws::mixed;
use super::report::{NodeNumber, NodeReport, RackNumber};

/// A node that wants memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Borrower {
    pub(super) node: NodeNumber,
    pub(super) rack: Option<RackNumber>,
    /// In blocks, above 0.
    pub(super) wanted: u32,
    /// What it has already, in blocks.
    pub(super) borrowed: u32,
}

/// What a borrower is to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) borrower: Borrower,
    /// In blocks.
    pub(super) blocks: u32,
    /// Why that is less than it wants, if so.
    pub(super) shortage: Option<ShortageReason>,
}

/// All borrowers, in an order that `draw` decides and that of the reports does not.
pub(super) fn borrowers_of(reports: &[NodeReport], draw: u64) -> Vec<Borrower> {
    let wants = reports.iter().filter(|report| report.wanted > 0);
    let borrower = |report: &NodeReport| Borrower {
        node: report.node,
        rack: report.rack,
        wanted: report.wanted,
        borrowed: report.borrowed,
    };
    let mut borrowers: Vec<Borrower> = wants.map(borrower).collect();
    borrowers
        .sort_by_cached_key(|borrower| (mixed(draw ^ u64::from(borrower.node.0)), borrower.node));
    borrowers
}
