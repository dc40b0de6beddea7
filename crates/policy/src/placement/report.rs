//! What a node reports, as far as placement needs it.

use serde::{Deserialize, Serialize};

/// A node, by the number that its leader gave it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct NodeNumber(pub u32);

/// A rack, by the number that the leader gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RackNumber(pub u32);

/// A lender and who borrows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoanPair {
    /// Who lends.
    pub lender: NodeNumber,
    /// Who borrows.
    pub borrower: NodeNumber,
}

/// Who has how much of whom already.
pub trait Loans {
    /// What the borrower has of the lender, in blocks.
    fn blocks(&self, pair: LoanPair) -> u32;
}

impl<F: Fn(LoanPair) -> u32> Loans for F {
    fn blocks(&self, pair: LoanPair) -> u32 {
        self(pair)
    }
}

/// What a node reports. All amounts are blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// The node.
    pub node: NodeNumber,
    /// Where it stands, if it says so.
    pub rack: Option<RackNumber>,
    /// What it would lend now beyond what it has lent. Its own reserve is left out.
    pub lendable: u32,
    /// What it wants beyond what it has.
    pub wanted: u32,
    /// What it has of others.
    pub borrowed: u32,
}
