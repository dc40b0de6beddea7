//! The fields of the messages between a leader and the nodes that follow it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sublet_policy::placement::{AdviceReason, ShortageReason};

use super::bodies::{BlockCount, CountError, within};
use super::{MEMBER_NAMES_MAX, PAIRS_MAX};
use crate::ids::{NodeName, RackName, Term};

/// Blocks by node. They are [`PAIRS_MAX`] nodes at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "BTreeMap<NodeName, BlockCount>",
    into = "BTreeMap<NodeName, BlockCount>"
)]
pub struct PairCounts(BTreeMap<NodeName, BlockCount>);

impl PairCounts {
    /// The largest of these counts, with the number of those that are left off. Counts of 0 are.
    pub fn largest(counts: impl IntoIterator<Item = (NodeName, u32)>) -> (PairCounts, u32) {
        let mut counts: Vec<(NodeName, u32)> = counts
            .into_iter()
            .filter(|(_, blocks)| *blocks > 0)
            .collect();
        let left_off = counts.len().saturating_sub(PAIRS_MAX);
        if left_off > 0 {
            counts.sort_by_key(|(_, blocks)| u32::MAX - blocks);
            counts.truncate(PAIRS_MAX);
        }
        let named = counts
            .into_iter()
            .map(|(node, blocks)| (node, BlockCount::saturating(blocks)));
        (PairCounts(named.collect()), left_off as u32)
    }

    /// Each node with its blocks, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, u32)> {
        self.0.iter().map(|(node, blocks)| (node, blocks.get()))
    }
}

impl TryFrom<BTreeMap<NodeName, BlockCount>> for PairCounts {
    type Error = CountError;

    fn try_from(counts: BTreeMap<NodeName, BlockCount>) -> Result<PairCounts, CountError> {
        within("nodes", counts.len() as u64, PAIRS_MAX as u64).map(|()| PairCounts(counts))
    }
}

impl From<PairCounts> for BTreeMap<NodeName, BlockCount> {
    fn from(counts: PairCounts) -> BTreeMap<NodeName, BlockCount> {
        counts.0
    }
}

/// What a node tells its leader once a second, in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterReport {
    /// What its arena may have.
    pub total: BlockCount,
    /// What of that nobody uses.
    pub free: BlockCount,
    /// What it would lend now beyond what it has lent.
    pub lendable: BlockCount,
    /// What it wants beyond what it has.
    pub wanted: BlockCount,
    /// Where it stands, if its settings say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<RackName>,
    /// What it has lent, by borrower.
    #[serde(default)]
    pub lent: PairCounts,
    /// What it has borrowed, by lender.
    #[serde(default)]
    pub borrowed: PairCounts,
    /// How many nodes are left off in both.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pairs_left_off: u32,
    /// Whether it is about to leave. A leader may have missed its `leave`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub leaving: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Names of nodes. They are [`MEMBER_NAMES_MAX`] at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeSet<NodeName>", into = "BTreeSet<NodeName>")]
pub struct MemberNames(BTreeSet<NodeName>);

impl MemberNames {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each name.
    pub fn iter(&self) -> impl Iterator<Item = &NodeName> {
        self.0.iter()
    }
}

impl TryFrom<BTreeSet<NodeName>> for MemberNames {
    type Error = CountError;

    fn try_from(names: BTreeSet<NodeName>) -> Result<MemberNames, CountError> {
        within("names", names.len() as u64, MEMBER_NAMES_MAX as u64).map(|()| MemberNames(names))
    }
}

impl From<MemberNames> for BTreeSet<NodeName> {
    fn from(names: MemberNames) -> BTreeSet<NodeName> {
        names.0
    }
}

/// A leader tells which members take no part: as a difference between two revisions of its list, in one or several parts.
/// All others do. So the list is short, however many they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersUpdate {
    /// The leader's term.
    pub term: Term,
    /// The revision that this is a difference to. 0 is the empty list: what follows is the whole one.
    pub from: u64,
    /// The revision that the list has when all parts are in.
    pub to: u64,
    /// Members that take no part any more.
    #[serde(default, skip_serializing_if = "MemberNames::is_empty")]
    pub absent: MemberNames,
    /// Members that take part again.
    #[serde(default, skip_serializing_if = "MemberNames::is_empty")]
    pub back: MemberNames,
    /// How many parts follow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parts_left: u32,
}

/// A leader advises a borrower. Whom it asks is the borrower's choice, and what it gets is the lender's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BorrowAdvice {
    /// The leader's term.
    pub term: Term,
    /// Who should borrow.
    pub borrower: NodeName,
    /// Of whom.
    pub lender: NodeName,
    /// How much.
    pub blocks: BlockCount,
    /// Why of this lender.
    pub why: AdviceReason,
    /// Why the borrower is to have less than it wants, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageReason>,
}
