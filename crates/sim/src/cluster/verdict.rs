//! What judges find.

use std::fmt;

use super::ids::NodeNumber;
use crate::virtual_time::VirtualInstant;

/// The judges, by what each watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterJudge {
    /// A block is in one lease at most, and serves only who has that.
    Owner,
    /// A page that comes back is the page that was written last.
    Content,
    /// What must not be lost is always readable.
    Lost,
    /// Lender and borrower count the same, and each node's blocks add up.
    Books,
    /// A host that needs memory has it back at once.
    Recall,
    /// No request outlives its time limit.
    Calm,
    /// A nonce seals one page, and no honest lender is taken for a forger.
    Seal,
}

impl ClusterJudge {
    /// Every judge.
    pub const ALL: [ClusterJudge; 7] = [
        ClusterJudge::Owner,
        ClusterJudge::Content,
        ClusterJudge::Lost,
        ClusterJudge::Books,
        ClusterJudge::Recall,
        ClusterJudge::Calm,
        ClusterJudge::Seal,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ClusterJudge::Owner => "owner",
            ClusterJudge::Content => "content",
            ClusterJudge::Lost => "lost",
            ClusterJudge::Books => "books",
            ClusterJudge::Recall => "recall",
            ClusterJudge::Calm => "calm",
            ClusterJudge::Seal => "seal",
        }
    }
}

impl fmt::Display for ClusterJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a judge found in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterVerdict {
    /// When.
    pub at: VirtualInstant,
    /// At which node.
    pub node: NodeNumber,
    /// The judge.
    pub judge: ClusterJudge,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for ClusterVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClusterVerdict {
            at,
            node,
            judge,
            what,
        } = self;
        write!(f, "{judge} at {:.6} s, {node}: {what}", at.secs())
    }
}

/// What a judge found, before it is known when and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) judge: ClusterJudge,
    pub(super) what: String,
}

impl Finding {
    /// A finding of a judge.
    pub(super) fn of(judge: ClusterJudge, what: String) -> Finding {
        Finding { judge, what }
    }
}
