//! Content and Lost: a page that comes back is the page that was written last, and a disk's pages always come back.

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
    /// The last version of each page of the disk. The guest was told that it is written.
    disk: Vec<u32>,
    /// The version of each page of the ring that a get may still find.
    ring: Vec<Option<u32>>,
}

/// What all guests wrote.
#[derive(Debug)]
pub(in crate::cluster) struct ContentLedger {
    guests: Vec<GuestWrites>,
}

fn content(what: String) -> Option<Finding> {
    Some(Finding::of(ClusterJudge::Content, what))
}

fn lost(what: String) -> Option<Finding> {
    Some(Finding::of(ClusterJudge::Lost, what))
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

impl ContentLedger {
    /// Guests of this many nodes, with so many pages in each pool. Nothing is written.
    pub(in crate::cluster) fn new(nodes: u16, pages: u32) -> ContentLedger {
        let guest = GuestWrites {
            disk: vec![0; pages as usize],
            ring: vec![None; pages as usize],
        };
        ContentLedger {
            guests: vec![guest; usize::from(nodes)],
        }
    }

    /// The guest's memory is gone with the node's. Its disk is not.
    pub(in crate::cluster) fn restarted(&mut self, node: NodeNumber) {
        self.guests[node.slot()].ring.fill(None);
    }

    /// The guest was told that a page of its disk is written.
    pub(in crate::cluster) fn disk_written(&mut self, node: NodeNumber, number: u32, version: u32) {
        self.guests[node.slot()].disk[number as usize] = version;
    }

    /// The guest reads a page of its disk.
    pub(in crate::cluster) fn disk_read(
        &self,
        node: NodeNumber,
        number: u32,
        stamp: &[u8; STAMP_BYTES],
        from: DiskSource,
    ) -> Option<Finding> {
        let version = self.guests[node.slot()].disk[number as usize];
        let page = GuestPage {
            pool: GuestPool::Disk,
            number,
        };
        let written = PageContent {
            node,
            page,
            version,
        };
        if *stamp == written.stamp() {
            return None;
        }
        let what = format!(
            "page {number} of the disk comes from {from:?} as {}; version {version} was written",
            words(stamp)
        );
        match from {
            DiskSource::Memory => content(what),
            DiskSource::Backing => lost(what),
        }
    }

    /// The guest put a page into the ring's pool: a version, or nothing if it was refused.
    pub(in crate::cluster) fn ring_put(
        &mut self,
        node: NodeNumber,
        number: u32,
        version: Option<u32>,
    ) {
        self.guests[node.slot()].ring[number as usize] = version;
    }

    /// The ring says that a lender has a page.
    pub(in crate::cluster) fn ring_away(&self, node: NodeNumber, number: u32) -> Option<Finding> {
        let may_be = self.guests[node.slot()].ring[number as usize];
        match may_be {
            Some(_) => None,
            None => content(format!(
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
        let put = self.guests[node.slot()].ring[number as usize].take();
        let page = GuestPage {
            pool: GuestPool::Ring,
            number,
        };
        let expected = put.map(|version| {
            let content = PageContent {
                node,
                page,
                version,
            };
            content.stamp()
        });
        if expected.as_ref() == Some(stamp) {
            return None;
        }
        content(format!(
            "page {number} of the ring comes back as {}; a get may find {put:?}",
            words(stamp)
        ))
    }

    /// A get of the ring was a miss, or a flush removed the page. No later get finds it.
    pub(in crate::cluster) fn ring_gone(&mut self, node: NodeNumber, number: u32) {
        self.guests[node.slot()].ring[number as usize] = None;
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
