//! A store in a few numbers: blocks that are free, set aside, or lent, and borrowed leases.

use std::collections::{BTreeMap, BTreeSet};

use sublet_lend::ids::{LeaseId, LentBlock, PeerId};
use sublet_lend::index_set::{IndexRange, IndexRanges, IndexSet};

use crate::luck::Luck;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockPlace {
    Free,
    /// It left the store by `LendBlocks`. Whether a lease has it, the lender's table says.
    Away,
}

#[derive(Debug)]
pub(crate) struct FakeStore {
    pub(crate) blocks: Vec<(BlockPlace, u64)>,
    pub(crate) borrowed: BTreeMap<(PeerId, LeaseId), IndexSet>,
    pub(crate) suspended: BTreeSet<PeerId>,
}

impl FakeStore {
    pub(crate) fn new(blocks: usize) -> FakeStore {
        FakeStore {
            blocks: vec![(BlockPlace::Free, 0); blocks],
            borrowed: BTreeMap::new(),
            suspended: BTreeSet::new(),
        }
    }

    pub(crate) fn free(&self) -> u32 {
        self.blocks
            .iter()
            .filter(|(place, _)| *place == BlockPlace::Free)
            .count() as u32
    }

    pub(crate) fn away(&self) -> u32 {
        self.blocks.len() as u32 - self.free()
    }

    pub(crate) fn lend(&mut self, count: u32) -> Vec<LentBlock> {
        let free = (0..)
            .zip(&mut self.blocks)
            .filter(|(_, (place, _))| *place == BlockPlace::Free);
        let lent = free.take(count as usize).map(|(block, (place, opening))| {
            *place = BlockPlace::Away;
            LentBlock {
                block,
                opening: *opening,
            }
        });
        lent.collect()
    }

    /// Takes a block home. It must be away, and of this opening.
    pub(crate) fn take_home(&mut self, block: LentBlock) {
        let (place, opening) = &mut self.blocks[block.block as usize];
        assert_eq!(
            (*place, *opening),
            (BlockPlace::Away, block.opening),
            "{block:?} came home twice"
        );
        *place = BlockPlace::Free;
        *opening += 1;
    }

    pub(crate) fn open(&mut self, peer: PeerId, lease: LeaseId, range: IndexRange) {
        let mut indices = IndexSet::default();
        indices.insert(range);
        let before = self.borrowed.insert((peer, lease), indices);
        assert!(before.is_none(), "lease {lease:?} was opened twice");
    }

    pub(crate) fn extend(&mut self, peer: PeerId, lease: LeaseId, range: IndexRange) {
        let indices = self
            .borrowed
            .get_mut(&(peer, lease))
            .expect("an extended lease is open");
        assert!(indices.within(range).is_empty(), "an index came twice");
        indices.insert(range);
    }

    pub(crate) fn forget(&mut self, peer: PeerId, lease: LeaseId, ranges: &IndexRanges) {
        let indices = self
            .borrowed
            .get_mut(&(peer, lease))
            .expect("a lease with recalled blocks is open");
        for range in ranges.as_slice() {
            indices.remove(*range);
        }
    }

    pub(crate) fn end(&mut self, peer: PeerId, lease: LeaseId) {
        assert!(
            self.borrowed.remove(&(peer, lease)).is_some(),
            "lease {lease:?} ended twice"
        );
        // Nothing is suspended any more if nothing is left.
        if !self.borrowed.keys().any(|(of, _)| *of == peer) {
            self.suspended.remove(&peer);
        }
    }

    /// Empties some borrowed blocks of a lender, of one lease.
    pub(crate) fn empty_some(
        &mut self,
        luck: &mut Luck,
        peer: PeerId,
        most: u32,
    ) -> Option<(LeaseId, IndexRanges)> {
        let leases: Vec<LeaseId> = self
            .borrowed
            .keys()
            .filter(|(of, _)| *of == peer)
            .map(|(_, lease)| *lease)
            .collect();
        let lease = *leases.get(luck.below(leases.len() as u64) as usize)?;
        let indices = self.borrowed.get_mut(&(peer, lease))?;
        let mut chosen = IndexSet::default();
        for index in indices.runs().flat_map(|run| run.first()..run.end()) {
            if chosen.count() < most && !luck.one_in(3) {
                chosen.insert(IndexRange::new(index, 1).expect("an index"));
            }
        }
        for run in chosen.runs() {
            indices.remove(run);
        }
        chosen
            .messages()
            .into_iter()
            .next()
            .map(|ranges| (lease, ranges))
    }
}
