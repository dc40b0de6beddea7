//! Owner: a block is in one lease at most, and serves only who has that.

use std::collections::BTreeSet;
use std::ops::Range;

use sublet_lend::ids::{Incarnation, LeaseId, LentBlock, PeerId, SessionId};
use sublet_lend::lender::LoanTable;

use crate::cluster::content::PageContent;
use crate::cluster::ids::{NodeNumber, NodeRun};
use crate::cluster::verdict::{ClusterJudge, Finding};
use crate::stable_hash::StableHashMap;

/// In which session, and of which run, a page request is served.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct ServedSession {
    /// The lender's run.
    pub(in crate::cluster) lender: Incarnation,
    /// The run that the borrower means.
    pub(in crate::cluster) meant: Incarnation,
    /// The session that the borrower means.
    pub(in crate::cluster) session: SessionId,
    /// The session that the lender has with the borrower.
    pub(in crate::cluster) current: Option<SessionId>,
}

/// Remembers which block each index was granted for.
#[derive(Debug, Default)]
pub(in crate::cluster) struct OwnerJudge {
    granted: StableHashMap<(NodeRun, LeaseId, u32), LentBlock>,
}

fn finding(what: String) -> Option<Finding> {
    Some(Finding::of(ClusterJudge::Owner, what))
}

impl OwnerJudge {
    /// A lender grants an index. It was never granted before.
    pub(in crate::cluster) fn granted(
        &mut self,
        lender: NodeRun,
        lease: LeaseId,
        index: u32,
        block: LentBlock,
    ) -> Option<Finding> {
        let before = self.granted.insert((lender, lease, index), block)?;
        finding(format!(
            "index {index} of lease {lease} is granted again: for block {} after {}",
            block.block, before.block
        ))
    }

    /// A borrower makes blocks of a lender ready. Their lender granted each, and nobody else can.
    pub(in crate::cluster) fn borrowed(
        &self,
        lender: NodeRun,
        lease: LeaseId,
        mut indices: Range<u32>,
    ) -> Option<Finding> {
        let is_invented = |index: &u32| !self.granted.contains_key(&(lender, lease, *index));
        let index = indices.find(is_invented)?;
        finding(format!(
            "index {index} of lease {lease} is borrowed, and {lender} never granted it"
        ))
    }

    /// A lender serves requests of a session.
    pub(in crate::cluster) fn session_served(&self, served: ServedSession) -> Option<Finding> {
        if served.meant != served.lender {
            return finding(format!(
                "a request to run {} is served by run {}",
                served.meant, served.lender
            ));
        }
        if served.current != Some(served.session) {
            return finding(format!(
                "a request of session {} is served, which is over",
                served.session.0
            ));
        }
        None
    }

    /// A lender reads or writes a block for an index. It is the block that the index was granted for.
    pub(in crate::cluster) fn block_served(
        &self,
        lender: NodeRun,
        lease: LeaseId,
        index: u32,
        block: LentBlock,
    ) -> Option<Finding> {
        let granted = self.granted.get(&(lender, lease, index));
        if granted == Some(&block) {
            return None;
        }
        finding(format!(
            "index {index} of lease {lease} serves block {} of opening {}; it was granted for {granted:?}",
            block.block, block.opening
        ))
    }

    /// The table of a lender has each block once, and counts them right.
    pub(in crate::cluster) fn table(
        &self,
        loans: &LoanTable,
        borrowers: impl Iterator<Item = PeerId>,
    ) -> Option<Finding> {
        let mut lent = BTreeSet::new();
        for block in borrowers.flat_map(|peer| loans.blocks_of(peer)) {
            if !lent.insert(block.block) {
                return finding(format!("block {} is in two leases", block.block));
            }
        }
        let counted = loans.lent();
        match lent.len() as u32 == counted {
            true => None,
            false => finding(format!(
                "{} blocks are lent; {counted} are counted",
                lent.len()
            )),
        }
    }

    /// A hit shows a page. Its own node wrote it.
    pub(in crate::cluster) fn hit(
        &self,
        node: NodeNumber,
        content: PageContent,
    ) -> Option<Finding> {
        match content.node == node {
            true => None,
            false => finding(format!("a hit shows a page of {}", content.node)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENDER: NodeRun = NodeRun {
        node: NodeNumber(1),
        run: 0,
    };

    fn block(block: u32, opening: u64) -> LentBlock {
        LentBlock { block, opening }
    }

    #[test]
    fn an_index_stands_for_one_block_of_one_opening() {
        let mut judge = OwnerJudge::default();
        let lease = LeaseId(1);
        assert_eq!(judge.granted(LENDER, lease, 0, block(7, 1)), None);
        assert_eq!(judge.block_served(LENDER, lease, 0, block(7, 1)), None);
        for wrong in [block(8, 1), block(7, 2)] {
            assert!(judge.block_served(LENDER, lease, 0, wrong).is_some());
        }
        assert!(judge.block_served(LENDER, lease, 1, block(7, 1)).is_some());
        let again = NodeRun { run: 1, ..LENDER };
        assert!(judge.block_served(again, lease, 0, block(7, 1)).is_some());
        assert_eq!(judge.granted(again, lease, 0, block(7, 1)), None);
        assert!(judge.granted(LENDER, lease, 0, block(9, 3)).is_some());
    }

    #[test]
    fn nobody_borrows_what_its_lender_did_not_grant() {
        let mut judge = OwnerJudge::default();
        let lease = LeaseId(1);
        judge.granted(LENDER, lease, 0, block(7, 1));
        assert_eq!(judge.borrowed(LENDER, lease, 0..1), None);
        assert!(judge.borrowed(LENDER, lease, 0..2).is_some());
        assert!(judge.borrowed(LENDER, LeaseId(2), 0..1).is_some());
    }

    #[test]
    fn a_request_is_served_in_the_session_and_by_the_run_that_it_means() {
        let judge = OwnerJudge::default();
        let served = ServedSession {
            lender: Incarnation(5),
            meant: Incarnation(5),
            session: SessionId(2),
            current: Some(SessionId(2)),
        };
        assert_eq!(judge.session_served(served), None);
        let wrongs = [
            ServedSession {
                meant: Incarnation(4),
                ..served
            },
            ServedSession {
                current: Some(SessionId(3)),
                ..served
            },
            ServedSession {
                current: None,
                ..served
            },
        ];
        for wrong in wrongs {
            assert!(judge.session_served(wrong).is_some());
        }
    }
}
