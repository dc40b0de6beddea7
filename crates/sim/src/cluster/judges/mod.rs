//! The judges of a simulated cluster. Each says what must not happen, and why it did.
//!
//! They keep their own account beside the nodes: what was written, what was granted, what was sealed. Nothing of the
//! nodes depends on them.

mod books;
mod calm;
mod content;
mod leading;
mod owner;
mod page_versions;
mod pool_promise;
mod recall;
mod seal;

pub(super) use books::{NodeBooks, PairBooks};
pub(super) use calm::WaitingRequest;
pub(super) use content::{ContentLedger, DiskSource};
pub(super) use leading::{
    ElectionJudge, ElectionState, KnownLeader, ObeyedLeader, SeekingBorrower, SilentLeader,
};
pub(super) use owner::{OwnerJudge, ServedSession};
pub(super) use page_versions::{PageState, PageVersions};
pub(super) use pool_promise::{FoundPage, PoolPromise};
pub(super) use recall::RecallJudge;
pub(super) use seal::SealJudge;

use super::ids::NodeNumber;
use super::verdict::{ClusterVerdict, Finding};
use crate::virtual_time::VirtualInstant;

/// The judges that remember something, and what the first of all found.
pub(super) struct ClusterJudges {
    pub(super) owner: OwnerJudge,
    pub(super) content: ContentLedger,
    pub(super) election: ElectionJudge,
    pub(super) recall: RecallJudge,
    pub(super) seal: SealJudge,
    verdict: Option<ClusterVerdict>,
}

impl ClusterJudges {
    /// Judges of this many nodes, whose guests have this many pages in each pool.
    pub(super) fn new(nodes: u16, pages: u32) -> ClusterJudges {
        ClusterJudges {
            owner: OwnerJudge::default(),
            content: ContentLedger::new(nodes, pages),
            election: ElectionJudge::default(),
            recall: RecallJudge::default(),
            seal: SealJudge::default(),
            verdict: None,
        }
    }

    /// Takes what a judge found. The first finding counts: the others follow from it.
    pub(super) fn take(&mut self, at: VirtualInstant, node: NodeNumber, finding: Option<Finding>) {
        if let (None, Some(Finding { judge, what })) = (&self.verdict, finding) {
            self.verdict = Some(ClusterVerdict {
                at,
                node,
                judge,
                what,
            });
        }
    }

    /// What was found.
    pub(super) fn verdict(&self) -> Option<&ClusterVerdict> {
        self.verdict.as_ref()
    }
}
