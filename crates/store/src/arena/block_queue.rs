//! Queues of blocks in the order in which they came. Each block is in at most one queue. It is found and removed in
//! constant time, wherever it stands.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{Arena, BlockId};

/// A place from which a block was removed.
const GAP: u32 = u32::MAX;

/// Gaps are closed when they outnumber the blocks and this limit.
const GAPS_MAX: usize = 64;

/// Blocks in the order in which they came. One thread at a time has it. A removal costs the same wherever the block
/// stands, averaged over many. Once in as many removals as there are blocks, the gaps are closed.
#[derive(Debug, Default)]
pub(crate) struct BlockQueue {
    /// Blocks and gaps.
    places: VecDeque<u32>,
    /// The number of the first place. Each block in the queue knows the number of its own. The numbers wrap after 2^32.
    first: u32,
    len: usize,
}

impl BlockQueue {
    /// Appends a block that is in no queue.
    pub(crate) fn push(&mut self, arena: &Arena, block: BlockId) {
        let number = self.first.wrapping_add(self.places.len() as u32);
        self.places.push_back(block.0);
        arena.link(block.0).place.store(number, Ordering::Relaxed);
        self.len += 1;
    }

    /// Appends blocks in order.
    pub(crate) fn extend(&mut self, arena: &Arena, blocks: impl IntoIterator<Item = BlockId>) {
        blocks.into_iter().for_each(|block| self.push(arena, block));
    }

    /// Removes a block, if it is in the queue.
    pub(crate) fn remove(&mut self, arena: &Arena, block: BlockId) {
        let Some(place) = self.place(arena, block) else {
            return;
        };
        self.places[place] = GAP;
        self.len -= 1;
        while self.places.front() == Some(&GAP) {
            self.places.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        if self.places.len() - self.len > self.len + GAPS_MAX {
            let blocks: Vec<BlockId> = self.iter().collect();
            *self = BlockQueue::default();
            self.extend(arena, blocks);
        }
    }

    /// Returns whether a block is in the queue.
    pub(crate) fn contains(&self, arena: &Arena, block: BlockId) -> bool {
        self.place(arena, block).is_some()
    }

    /// The first block.
    pub(crate) fn front(&self) -> Option<BlockId> {
        self.iter().next()
    }

    /// Returns whether the queue has no block.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All blocks, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockId> {
        let blocks = self.places.iter().filter(|place| **place != GAP);
        blocks.map(|block| BlockId(*block))
    }

    /// A block's index in the queue. A stale number from another queue leads to a place that another block has, or to
    /// none.
    fn place(&self, arena: &Arena, block: BlockId) -> Option<usize> {
        let number = arena.link(block.0).place.load(Ordering::Relaxed);
        let place = number.wrapping_sub(self.first) as usize;
        (self.places.get(place) == Some(&block.0)).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sublet_types::Bytes;

    use super::super::fake::FakeMemory;
    use super::*;

    const BLOCK: usize = 64 << 10;
    const BLOCKS: u32 = 32;

    proptest! {
        /// Two queues over the same blocks, beside two plain lists.
        #[test]
        fn a_queue_is_a_list_in_order(
            steps in prop::collection::vec((0..BLOCKS, 0..2_usize, any::<bool>()), 1..400),
            first in prop_oneof![Just(0), Just(u32::MAX - 5)],
        ) {
            let (heap, _) = FakeMemory::new(BLOCKS as usize * BLOCK, BLOCK);
            let arena = Arena::new(Box::new(heap), BLOCK, Bytes(u64::from(BLOCKS) * BLOCK as u64));
            let mut queues = [BlockQueue::default(), BlockQueue::default()];
            queues.iter_mut().for_each(|queue| queue.first = first);
            let mut lists: [Vec<BlockId>; 2] = Default::default();
            for (block, which, comes) in steps {
                let block = BlockId(block);
                if comes && lists.iter().all(|list| !list.contains(&block)) {
                    queues[which].push(&arena, block);
                    lists[which].push(block);
                } else {
                    queues[which].remove(&arena, block);
                    lists[which].retain(|other| *other != block);
                }
                for (queue, list) in queues.iter().zip(&lists) {
                    prop_assert_eq!(queue.iter().collect::<Vec<_>>(), list.clone());
                    prop_assert_eq!(queue.front(), list.first().copied());
                    prop_assert_eq!(queue.is_empty(), list.is_empty());
                    prop_assert_eq!(queue.contains(&arena, block), list.contains(&block));
                }
            }
        }
    }

    #[test]
    fn gaps_are_closed() {
        let (heap, _) = FakeMemory::new(BLOCKS as usize * BLOCK, BLOCK);
        let arena = Arena::new(
            Box::new(heap),
            BLOCK,
            Bytes(u64::from(BLOCKS) * BLOCK as u64),
        );
        let mut queue = BlockQueue::default();
        queue.push(&arena, BlockId(0));
        for _ in 0..1000 {
            queue.push(&arena, BlockId(1));
            queue.remove(&arena, BlockId(1));
            assert!(queue.places.len() <= 2 + 2 * GAPS_MAX);
        }
        assert_eq!(queue.iter().collect::<Vec<_>>(), [BlockId(0)]);
    }
}
