//! Who has lent how much to whom.

use sublet_policy::placement::LoanPair;

use super::scenarios::NODES;

/// The loans between all nodes, in blocks. Nodes count from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct LoanBook {
    /// By borrower, then by lender.
    borrowed: [[u32; NODES]; NODES],
}

/// Blocks that a lender lends to a borrower.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loan {
    pub(super) lender: usize,
    pub(super) borrower: usize,
    pub(super) blocks: u32,
}

impl LoanBook {
    /// Adds a loan.
    pub(super) fn add(&mut self, loan: Loan) {
        self.borrowed[loan.borrower][loan.lender] += loan.blocks;
    }

    /// What a borrower has of a lender.
    pub(super) fn between(&self, pair: LoanPair) -> u32 {
        self.borrowed[pair.borrower.0 as usize][pair.lender.0 as usize]
    }

    /// What a node has of all others.
    pub(super) fn borrowed(&self, borrower: usize) -> u32 {
        self.borrowed[borrower].iter().sum()
    }

    /// What a node has lent to all others.
    pub(super) fn lent(&self, lender: usize) -> u32 {
        self.borrowed.iter().map(|of| of[lender]).sum()
    }

    /// Ends all loans of a borrower.
    pub(super) fn return_all(&mut self, borrower: usize) {
        self.borrowed[borrower] = [0; NODES];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_what_is_borrowed() {
        let mut loans = LoanBook::default();
        for (lender, borrower, blocks) in [(0, 2, 5), (1, 2, 7), (1, 3, 4), (0, 2, 1)] {
            loans.add(Loan {
                lender,
                borrower,
                blocks,
            });
        }
        let lent = |loans: &LoanBook| [0, 1, 2, 3].map(|node| loans.lent(node));
        assert_eq!(lent(&loans), [6, 11, 0, 0]);
        assert_eq!([loans.borrowed(2), loans.borrowed(3)], [13, 4]);
        loans.return_all(2);
        assert_eq!(lent(&loans), [0, 4, 0, 0]);
    }
}
