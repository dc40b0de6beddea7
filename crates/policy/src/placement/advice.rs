//! A piece of advice, and why it is given: as values for programs, and as a sentence for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::report::NodeNumber;

/// Advice that a node borrow of another. All amounts are blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Who should borrow.
    pub borrower: NodeNumber,
    /// Of whom.
    pub lender: NodeNumber,
    /// How much.
    pub blocks: u32,
    /// Why of this lender.
    pub reason: AdviceReason,
    /// Why the borrower is to have less than it wants, if so.
    pub shortage: Option<ShortageReason>,
}

/// Why a policy chose a lender. All amounts are blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum AdviceReason {
    /// It can lend most, and a request is for so many (`greedy-remote`).
    SmallRequest {
        /// What the lender can lend.
        lendable: u32,
        /// The most blocks of a request.
        request: u32,
    },
    /// It can lend most, and more than all that is wanted (`two-level`).
    MostForAll {
        /// What the lender can lend.
        lendable: u32,
    },
    /// It can lend most, and gives all of it (`two-level`).
    MostForPart {
        /// What the lender can lend.
        lendable: u32,
    },
    /// It stands in the borrower's rack, and no other has more than twice as much (`spread`).
    SameRack {
        /// What the lender can lend.
        lendable: u32,
        /// The most that is to come from one lender, with what came earlier.
        from_one: u32,
    },
    /// It can lend most of those that are left (`spread`).
    MostLendable {
        /// What the lender can lend.
        lendable: u32,
        /// The most that is to come from one lender, with what came earlier.
        from_one: u32,
    },
    /// The borrower gets more than its part of this lender, because the others have too little (`spread`).
    OthersHaveTooLittle {
        /// What the lender can lend.
        lendable: u32,
        /// The most that is to come from one lender if others have enough.
        from_one: u32,
    },
    /// It can lend more than another that was drawn (`two-choices`).
    FreerOfTwo {
        /// What the lender can lend.
        lendable: u32,
        /// What the other can lend.
        other: u32,
    },
    /// A newer leader's reason.
    #[serde(other)]
    Other,
}

/// Why a borrower is to have less than it wants. All amounts are blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "shortage", rename_all = "kebab-case")]
pub enum ShortageReason {
    /// All want more than there is. Each gets all that it wants, up to an equal level (`spread`).
    EqualLevel {
        /// What the borrower wants.
        wanted: u32,
        /// What all want together.
        wanted_by_all: u64,
        /// What all lenders have together.
        lendable: u64,
    },
    /// A newer leader's reason.
    #[serde(other)]
    Other,
}

/// `borrow 20 blocks: it can lend most, 900 blocks, …`
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "borrow {} blocks: {}", self.blocks, self.reason)?;
        match self.shortage {
            Some(shortage) => write!(f, "; {shortage}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for AdviceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdviceReason::SmallRequest { lendable, request } => write!(
                f,
                "the lender can lend most, {lendable} blocks, and a request is for {request} at most"
            ),
            AdviceReason::MostForAll { lendable } => write!(
                f,
                "the lender can lend most, {lendable} blocks, more than all that is wanted"
            ),
            AdviceReason::MostForPart { lendable } => write!(
                f,
                "the lender can lend most of those that are left, and gives all its {lendable} blocks"
            ),
            AdviceReason::SameRack { lendable, from_one } => write!(
                f,
                "the lender stands in the same rack and can lend {lendable} blocks, at least half as much as any; \
                 at most {from_one} come from one lender"
            ),
            AdviceReason::MostLendable { lendable, from_one } => write!(
                f,
                "the lender can lend most of those that are left, {lendable} blocks; at most {from_one} come from one \
                 lender"
            ),
            AdviceReason::OthersHaveTooLittle { lendable, from_one } => write!(
                f,
                "the lender can lend {lendable} blocks; it then lends more than {from_one} of them, because the others \
                 have too little"
            ),
            AdviceReason::FreerOfTwo { lendable, other } => write!(
                f,
                "of two lenders that were drawn this one can lend more, {lendable} blocks against {other}"
            ),
            AdviceReason::Other => write!(f, "for a reason that this version does not know"),
        }
    }
}

impl fmt::Display for ShortageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShortageReason::EqualLevel {
                wanted,
                wanted_by_all,
                lendable,
            } => write!(
                f,
                "it wants {wanted}, but all want {wanted_by_all} and there are {lendable}, so that each gets what it \
                 wants up to an equal level"
            ),
            ShortageReason::Other => write!(f, "it is to have less than it wants"),
        }
    }
}
