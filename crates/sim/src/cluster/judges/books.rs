//! Books: each node's blocks add up, and lender and borrower count the same when all is quiet.

use crate::cluster::ids::NodeNumber;
use crate::cluster::verdict::{ClusterJudge, Finding};

/// What one node counts. All amounts are blocks unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cluster) struct NodeBooks {
    /// What the arena holds.
    pub(in crate::cluster) held: u64,
    /// What its tenants own of that.
    pub(in crate::cluster) owned: u64,
    /// What is free, waits for readers, or is the index.
    pub(in crate::cluster) unowned: u64,
    /// What the store has lent.
    pub(in crate::cluster) lent: u64,
    /// What the table of loans has.
    pub(in crate::cluster) lent_in_table: u64,
    /// What the store has of lenders.
    pub(in crate::cluster) borrowed: u64,
    /// What the table of borrowed leases has.
    pub(in crate::cluster) borrowed_in_table: u64,
    /// Pages in the outbox, those among them that were cancelled.
    pub(in crate::cluster) outbound_pages: u64,
}

fn finding(what: String) -> Option<Finding> {
    Some(Finding::of(ClusterJudge::Books, what))
}

impl NodeBooks {
    /// What must hold whenever the node has told its tables what its store did.
    pub(in crate::cluster) fn check(&self) -> Option<Finding> {
        let sum = self.owned + self.unowned + self.lent;
        if sum != self.held {
            return finding(format!(
                "{} own, {} free and {} lent blocks are not the {} that are held",
                self.owned, self.unowned, self.lent, self.held
            ));
        }
        if self.lent != self.lent_in_table {
            return finding(format!(
                "the store has lent {} blocks, and its table {}",
                self.lent, self.lent_in_table
            ));
        }
        None
    }

    /// What must hold besides when all is quiet.
    pub(in crate::cluster) fn check_quiet(&self) -> Option<Finding> {
        if self.borrowed != self.borrowed_in_table {
            return finding(format!(
                "the store has borrowed {} blocks, and its table {}",
                self.borrowed, self.borrowed_in_table
            ));
        }
        match self.outbound_pages {
            0 => self.check(),
            pages => finding(format!("{pages} pages never left the outbox")),
        }
    }

    /// What must hold besides when every page was flushed, and nobody wishes for memory.
    pub(in crate::cluster) fn check_empty(&self) -> Option<Finding> {
        match self.borrowed {
            0 => None,
            blocks => finding(format!(
                "{blocks} blocks hold nothing and were not given back"
            )),
        }
    }
}

/// What a lender and a borrower count of each other, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct PairBooks {
    pub(in crate::cluster) borrower: NodeNumber,
    pub(in crate::cluster) lent: u32,
    pub(in crate::cluster) borrowed: u32,
}

impl PairBooks {
    /// What must hold when all is quiet.
    pub(in crate::cluster) fn check_quiet(self) -> Option<Finding> {
        let PairBooks {
            borrower,
            lent,
            borrowed,
        } = self;
        match lent == borrowed {
            true => None,
            false => finding(format!(
                "it lends {lent} blocks to {borrower}, which has borrowed {borrowed}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: NodeBooks = NodeBooks {
        held: 10,
        owned: 5,
        unowned: 2,
        lent: 3,
        lent_in_table: 3,
        borrowed: 4,
        borrowed_in_table: 4,
        outbound_pages: 0,
    };

    #[test]
    fn sums_that_differ_are_found() {
        assert_eq!(GOOD.check_quiet(), None);
        for wrong in [
            NodeBooks { held: 11, ..GOOD },
            NodeBooks { owned: 6, ..GOOD },
            NodeBooks {
                lent_in_table: 2,
                ..GOOD
            },
        ] {
            assert!(wrong.check().is_some() && wrong.check_quiet().is_some());
        }
        for unquiet in [
            NodeBooks {
                borrowed: 5,
                ..GOOD
            },
            NodeBooks {
                outbound_pages: 1,
                ..GOOD
            },
        ] {
            assert!(unquiet.check().is_none() && unquiet.check_quiet().is_some());
        }
        assert!(GOOD.check_empty().is_some());
        assert_eq!(
            NodeBooks {
                borrowed: 0,
                ..GOOD
            }
            .check_empty(),
            None
        );
        let pair = PairBooks {
            borrower: NodeNumber(1),
            lent: 4,
            borrowed: 4,
        };
        assert_eq!(pair.check_quiet(), None);
        assert!(PairBooks { lent: 5, ..pair }.check_quiet().is_some());
    }
}
