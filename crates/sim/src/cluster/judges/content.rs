//! Content and Lost: a page that comes back is the page that was written last, and a disk's pages always come back.

use super::page_versions::{PageState, PageVersions};
use super::pool_promise::{FoundPage, PoolPromise};
use crate::cluster::content::{GuestPage, GuestPool, PageContent, STAMP_BYTES};
use crate::cluster::ids::NodeNumber;
use crate::cluster::verdict::{ClusterJudge, Finding};

/// Where a page of a disk was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum DiskSource {
    /// Memory, here or at a lender.
    Memory,
    /// The backing.
    Backing,
}

/// What the guest of one node wrote.
#[derive(Clone, Debug)]
struct GuestWrites {
    /// What each page of the disk is. The guest was told that it is written.
    disk: Vec<PageVersions>,
    /// What a get of each page of the ring may find.
    ring: Vec<PageVersions>,
}

/// What all guests wrote.
#[derive(Debug)]
pub(in crate::cluster) struct ContentLedger {
    guests: Vec<GuestWrites>,
}

fn content(what: String) -> Option<Finding> {
    Some(Finding::of(ClusterJudge::Content, what))
}

/// What a stamp is, in words.
fn words(stamp: &[u8; STAMP_BYTES]) -> String {
    match PageContent::read(stamp) {
        None => "bytes that nobody wrote".to_owned(),
        Some(content) => format!(
            "{:?} {} of {}, version {}",
            content.page.pool, content.page.number, content.node, content.version
        ),
    }
}

/// What a read of a page of a node found.
fn found(node: NodeNumber, page: GuestPage, stamp: &[u8; STAMP_BYTES]) -> FoundPage {
    match PageContent::read(stamp) {
        Some(content) if content.node == node && content.page == page => {
            FoundPage::Version(content.version)
        }
        _ => FoundPage::Other,
    }
}

/// The version that a page of a simulated guest is, whose calls do not overlap.
fn only(versions: &PageVersions) -> PageState {
    versions.states().into_iter().flatten().next()
}

impl ContentLedger {
    /// Guests of this many nodes, with so many pages in each pool. Nothing is written.
    pub(in crate::cluster) fn new(nodes: u16, pages: u32) -> ContentLedger {
        let pool =
            |promise: PoolPromise| vec![PageVersions::of(promise.at_first()); pages as usize];
        let guest = GuestWrites {
            disk: pool(PoolPromise::Disk),
            ring: pool(PoolPromise::Taking),
        };
        ContentLedger {
            guests: vec![guest; usize::from(nodes)],
        }
    }

    /// The guest's memory is gone with the node's. Its disk is not.
    pub(in crate::cluster) fn restarted(&mut self, node: NodeNumber) {
        let ring = &mut self.guests[node.slot()].ring;
        ring.iter_mut().for_each(|page| page.settle(None));
    }

    /// The guest was told that a page of its disk is written.
    pub(in crate::cluster) fn disk_written(&mut self, node: NodeNumber, number: u32, version: u32) {
        self.guests[node.slot()].disk[number as usize].settle(Some(version));
    }

    /// The guest reads a page of its disk.
    pub(in crate::cluster) fn disk_read(
        &self,
        node: NodeNumber,
        number: u32,
        stamp: &[u8; STAMP_BYTES],
        from: DiskSource,
    ) -> Option<Finding> {
        let written = &self.guests[node.slot()].disk[number as usize];
        let page = GuestPage {
            pool: GuestPool::Disk,
            number,
        };
        let found = found(node, page, stamp);
        let judge = PoolPromise::Disk.objects(found, |state| written.may_be(state))?;
        let what = format!(
            "page {number} of the disk comes from {from:?} as {}; version {} was written",
            words(stamp),
            only(written).unwrap_or_default()
        );
        let judge = match from {
            DiskSource::Memory => judge,
            DiskSource::Backing => ClusterJudge::Lost,
        };
        Some(Finding::of(judge, what))
    }

    /// The guest put a page into the ring's pool: a version, or nothing if it was refused.
    pub(in crate::cluster) fn ring_put(
        &mut self,
        node: NodeNumber,
        number: u32,
        version: Option<u32>,
    ) {
        self.guests[node.slot()].ring[number as usize].settle(version);
    }

    /// The ring says that a lender has a page.
    pub(in crate::cluster) fn ring_away(&self, node: NodeNumber, number: u32) -> Option<Finding> {
        let written = &self.guests[node.slot()].ring[number as usize];
        match written.may_be(None) {
            false => None,
            true => content(format!(
                "page {number} of the ring is at a lender, after a miss, a hit or a flush"
            )),
        }
    }

    /// A get of the ring was a hit, which takes the page.
    pub(in crate::cluster) fn ring_hit(
        &mut self,
        node: NodeNumber,
        number: u32,
        stamp: &[u8; STAMP_BYTES],
    ) -> Option<Finding> {
        let written = &mut self.guests[node.slot()].ring[number as usize];
        let page = GuestPage {
            pool: GuestPool::Ring,
            number,
        };
        let judge =
            PoolPromise::Taking.objects(found(node, page, stamp), |state| written.may_be(state));
        let put = only(written);
        written.settle(None);
        let what = |_| {
            content(format!(
                "page {number} of the ring comes back as {}; a get may find {put:?}",
                words(stamp)
            ))
        };
        judge.and_then(what)
    }

    /// A get of the ring was a miss, or a flush removed the page. No later get finds it.
    pub(in crate::cluster) fn ring_gone(&mut self, node: NodeNumber, number: u32) {
        self.guests[node.slot()].ring[number as usize].settle(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeNumber = NodeNumber(1);

    fn stamp(node: u16, pool: GuestPool, number: u32, version: u32) -> [u8; STAMP_BYTES] {
        let content = PageContent {
            node: NodeNumber(node),
            page: GuestPage { pool, number },
            version,
        };
        content.stamp()
    }

    fn judge_of(finding: Option<Finding>) -> Option<ClusterJudge> {
        finding.map(|finding| finding.judge)
    }

    #[test]
    fn a_disk_gives_what_was_written_last() {
        let mut ledger = ContentLedger::new(2, 8);
        let disk = |version| stamp(1, GuestPool::Disk, 3, version);
        let read =
            |ledger: &ContentLedger, stamp, from| judge_of(ledger.disk_read(NODE, 3, &stamp, from));
        assert_eq!(read(&ledger, disk(0), DiskSource::Backing), None);
        ledger.disk_written(NODE, 3, 5);
        assert_eq!(read(&ledger, disk(5), DiskSource::Memory), None);
        let stale = read(&ledger, disk(4), DiskSource::Memory);
        assert_eq!(stale, Some(ClusterJudge::Content));
        let lost = read(&ledger, disk(0), DiskSource::Backing);
        assert_eq!(lost, Some(ClusterJudge::Lost));
        let foreign = stamp(0, GuestPool::Disk, 3, 5);
        let foreign = read(&ledger, foreign, DiskSource::Memory);
        assert_eq!(foreign, Some(ClusterJudge::Content));
    }

    #[test]
    fn nothing_comes_back_to_a_ring_after_a_hit_a_miss_a_flush_or_a_restart() {
        let mut ledger = ContentLedger::new(2, 8);
        let ring = |version| stamp(1, GuestPool::Ring, 2, version);
        ledger.ring_put(NODE, 2, Some(1));
        assert_eq!(ledger.ring_away(NODE, 2), None);
        assert_eq!(ledger.ring_hit(NODE, 2, &ring(1)), None);
        assert!(ledger.ring_hit(NODE, 2, &ring(1)).is_some());
        ledger.ring_put(NODE, 2, Some(2));
        assert!(ledger.ring_hit(NODE, 2, &ring(1)).is_some());
        ledger.ring_put(NODE, 2, Some(3));
        ledger.ring_gone(NODE, 2);
        assert!(ledger.ring_away(NODE, 2).is_some());
        ledger.ring_put(NODE, 2, Some(4));
        ledger.restarted(NODE);
        assert!(ledger.ring_hit(NODE, 2, &ring(4)).is_some());
    }
}
