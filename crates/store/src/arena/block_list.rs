//! Lists of blocks. Each block is in at most one list. It is added and removed in constant time, without allocation.

use std::sync::atomic::{AtomicU32, Ordering};

use arrayvec::ArrayVec;
use parking_lot::{Mutex, MutexGuard};

use super::block::Block;
use super::least_blocks::{
    CANDIDATES, LeastBlocks, MeasuredBlock, MeasuredList, NO_CANDIDATE, NONE,
};
use super::{Arena, BlockId};

/// A block's neighbours in its list. They change under that list's lock.
#[derive(Debug)]
pub(super) struct Link {
    prev: AtomicU32,
    next: AtomicU32,
    /// Its place in its queue.
    pub(super) place: AtomicU32,
}

impl Default for Link {
    fn default() -> Link {
        Link {
            prev: AtomicU32::new(NONE),
            next: AtomicU32::new(NONE),
            place: AtomicU32::new(NONE),
        }
    }
}

/// Some blocks of an arena. A holder of the list may see a block in it that was given up a moment ago, or one that is
/// not complete yet.
#[derive(Debug)]
pub(crate) struct BlockList {
    listed: Mutex<ListState>,
    len: AtomicU32,
}

#[derive(Debug)]
struct ListState {
    first: u32,
    coldest: LeastBlocks,
    sparsest: LeastBlocks,
    /// Where the next sample starts.
    sampled: u32,
    /// Where each walk continues. An entry without a walk is free for the next one.
    walks: Vec<Option<u32>>,
}

/// Blocks that a walk visits before it lets other threads use the list.
const WALK_PIECE: u32 = 1024;

/// Some blocks, those with the least first.
type FewBlocks = ArrayVec<BlockId, CANDIDATES>;

impl Default for BlockList {
    fn default() -> BlockList {
        let listed = ListState {
            first: NONE,
            coldest: LeastBlocks::default(),
            sparsest: LeastBlocks::default(),
            sampled: NONE,
            walks: Vec::new(),
        };
        BlockList {
            listed: Mutex::new(listed),
            len: AtomicU32::new(0),
        }
    }
}

/// A list's blocks, for the thread that holds its lock.
struct LinkedBlocks<'a> {
    arena: &'a Arena,
    first: u32,
    measure: fn(&Block) -> u64,
}

impl MeasuredList for LinkedBlocks<'_> {
    fn first(&self) -> u32 {
        self.first
    }

    fn after(&self, block: u32) -> u32 {
        self.arena.link(block).next.load(Ordering::Relaxed)
    }

    fn measure(&self, block: u32) -> u64 {
        (self.measure)(self.arena.block(BlockId(block)))
    }
}

/// How cold a block is: first by its heat, then by when it was opened. A block that is leaving or open for writes is
/// not a candidate.
fn coldness(block: &Block) -> u64 {
    if block.is_leaving() || block.is_open() {
        return NO_CANDIDATE;
    }
    u64::from(block.heat()) << 32 | u64::from(block.sequence() as u32)
}

/// The work of emptying a block: first by what lives in it, then by how hot that is.
fn emptying_work(block: &Block) -> u64 {
    if block.is_leaving() {
        return NO_CANDIDATE;
    }
    u64::from(block.live_items()) << 32 | u64::from(block.heat())
}

impl BlockList {
    /// Adds a block that is in no list.
    pub(crate) fn add(&self, arena: &Arena, block: BlockId) {
        let mut listed = self.listed.lock();
        let ListState {
            first,
            coldest,
            sparsest,
            ..
        } = &mut *listed;
        let link = arena.link(block.0);
        link.prev.store(NONE, Ordering::Relaxed);
        link.next.store(*first, Ordering::Relaxed);
        if *first != NONE {
            arena.link(*first).prev.store(block.0, Ordering::Relaxed);
        }
        *first = block.0;
        let linked = |measure| LinkedBlocks {
            arena,
            first: *first,
            measure,
        };
        coldest.offer(block.0, &linked(coldness));
        sparsest.offer(block.0, &linked(emptying_work));
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a block that is in this list. Call it before the block is given up, because another tenant may then add
    /// it to its own list.
    pub(crate) fn remove(&self, arena: &Arena, block: BlockId) {
        let mut listed = self.listed.lock();
        let ListState {
            first,
            coldest,
            sparsest,
            sampled,
            walks,
        } = &mut *listed;
        let link = arena.link(block.0);
        let prev = link.prev.load(Ordering::Relaxed);
        let next = link.next.load(Ordering::Relaxed);
        match prev {
            NONE => *first = next,
            prev => arena.link(prev).next.store(next, Ordering::Relaxed),
        }
        if next != NONE {
            arena.link(next).prev.store(prev, Ordering::Relaxed);
        }
        coldest.remove(block.0, next);
        sparsest.remove(block.0, next);
        let walks = walks.iter_mut().flatten().chain([sampled]);
        walks.filter(|at| **at == block.0).for_each(|at| *at = next);
        self.len.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of blocks.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Runs `look` on each block that stays in the list throughout, in no order. Other threads add and remove blocks
    /// between two pieces of the walk.
    pub(crate) fn walk_all(&self, arena: &Arena, mut look: impl FnMut(BlockId)) {
        let mut listed = self.listed.lock();
        let walk = listed.begin_walk();
        loop {
            for _ in 0..WALK_PIECE {
                let at = listed.walks[walk].unwrap_or(NONE);
                if at == NONE {
                    listed.walks[walk] = None;
                    return;
                }
                look(BlockId(at));
                let next = arena.link(at).next.load(Ordering::Relaxed);
                listed.walks[walk] = Some(next);
            }
            MutexGuard::bump(&mut listed);
        }
    }

    /// Some of the blocks, different ones each time. All, if they are no more than a piece of a walk.
    pub(crate) fn sample(&self, arena: &Arena) -> Vec<BlockId> {
        let mut listed = self.listed.lock();
        let wanted = self.len().min(WALK_PIECE);
        let mut sample = Vec::with_capacity(wanted as usize);
        for _ in 0..wanted {
            if listed.sampled == NONE {
                listed.sampled = listed.first;
            }
            if listed.sampled == NONE {
                break;
            }
            sample.push(BlockId(listed.sampled));
            let link = arena.link(listed.sampled);
            listed.sampled = link.next.load(Ordering::Relaxed);
        }
        sample
    }

    /// All blocks, in the order of their numbers.
    pub(crate) fn all_blocks(&self, arena: &Arena) -> Vec<BlockId> {
        let mut blocks = Vec::with_capacity(self.len() as usize);
        self.walk_all(arena, |block| blocks.push(block));
        blocks.sort_unstable();
        blocks
    }

    /// The heat of the coldest block, if there is one. In a long list it is the coldest that has been seen, so the call
    /// takes constant time.
    pub(crate) fn least_heat(&self, arena: &Arena) -> Option<u32> {
        let coldest = self.search(arena, coldness, |listed| &mut listed.coldest);
        coldest
            .first()
            .map(|coldest| (coldest.measure >> 32) as u32)
    }

    /// The coldest blocks, as far as they have been seen, coldest first.
    pub(crate) fn coldest(&self, arena: &Arena) -> FewBlocks {
        let coldest = self.search(arena, coldness, |listed| &mut listed.coldest);
        coldest.iter().map(|known| BlockId(known.block)).collect()
    }

    /// The blocks that take the least work to empty, as far as they have been seen, least first.
    pub(crate) fn sparsest(&self, arena: &Arena) -> FewBlocks {
        let sparsest = self.search(arena, emptying_work, |listed| &mut listed.sparsest);
        sparsest.iter().map(|known| BlockId(known.block)).collect()
    }

    fn search(
        &self,
        arena: &Arena,
        measure: fn(&Block) -> u64,
        least: fn(&mut ListState) -> &mut LeastBlocks,
    ) -> ArrayVec<MeasuredBlock, CANDIDATES> {
        let mut listed = self.listed.lock();
        let linked = LinkedBlocks {
            arena,
            first: listed.first,
            measure,
        };
        least(&mut listed).search(self.len(), &linked)
    }
}

impl ListState {
    /// The index of a new walk, which starts at the first block.
    fn begin_walk(&mut self) -> usize {
        let free = self.walks.iter().position(Option::is_none);
        let walk = free.unwrap_or(self.walks.len());
        if walk == self.walks.len() {
            self.walks.push(None);
        }
        self.walks[walk] = Some(self.first);
        walk
    }
}

#[cfg(test)]
mod tests {
    use sublet_types::Bytes;

    use super::super::fake::FakeMemory;
    use super::*;

    #[test]
    fn blocks_come_and_go_in_any_order() {
        const BLOCK: usize = 64 << 10;
        let (heap, _) = FakeMemory::new(8 * BLOCK, BLOCK);
        let arena = Arena::new(Box::new(heap), BLOCK, Bytes(8 * BLOCK as u64));
        let (one, other) = (BlockList::default(), BlockList::default());
        let numbers = |list: &BlockList| -> Vec<u32> {
            let blocks = list.all_blocks(&arena).into_iter();
            blocks.map(|block| block.0).collect()
        };
        [3, 0, 5, 1]
            .iter()
            .for_each(|n| one.add(&arena, BlockId(*n)));
        other.add(&arena, BlockId(2));
        assert_eq!((numbers(&one), one.len()), (vec![0, 1, 3, 5], 4));
        [0, 1, 3]
            .iter()
            .for_each(|n| one.remove(&arena, BlockId(*n)));
        other.add(&arena, BlockId(3));
        assert_eq!((numbers(&one), numbers(&other)), (vec![5], vec![2, 3]));
        one.remove(&arena, BlockId(5));
        assert_eq!((numbers(&one), one.least_heat(&arena)), (vec![], None));
        assert_eq!(other.least_heat(&arena), Some(0));
        assert_eq!(other.coldest(&arena).len(), 2);
        assert_eq!(other.sparsest(&arena).len(), 2);
    }

    /// A walk may or may not visit blocks that go during it. It visits each block that stays once.
    #[test]
    fn a_walk_looks_at_what_stays_whatever_goes_meanwhile() {
        const BLOCK: usize = 64 << 10;
        const BLOCKS: u32 = 3 * WALK_PIECE;
        let (heap, _) = FakeMemory::new(BLOCKS as usize * BLOCK, BLOCK);
        let bytes = Bytes(u64::from(BLOCKS) * BLOCK as u64);
        let arena = Arena::new(Box::new(heap), BLOCK, bytes);
        let list = BlockList::default();
        (0..BLOCKS).for_each(|block| list.add(&arena, BlockId(block)));
        let looked = Mutex::new(vec![0; BLOCKS as usize]);
        let is_odd = |block: &u32| !block.is_multiple_of(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                list.walk_all(&arena, |block| looked.lock()[block.0 as usize] += 1);
            });
            for block in (0..BLOCKS).filter(is_odd) {
                list.remove(&arena, BlockId(block));
            }
        });
        for (block, looks) in (0..BLOCKS).zip(&*looked.lock()) {
            let may_be_left_out = is_odd(&block) && *looks == 0;
            assert!(*looks == 1 || may_be_left_out, "{block}: {looks}");
        }
        assert_eq!(list.len(), BLOCKS / 2);
    }

    /// A list of this many blocks of pages.
    fn listed(blocks: u32) -> (Arena, BlockList) {
        const BLOCK: usize = 64 << 10;
        let (heap, _) = FakeMemory::new(blocks as usize * BLOCK, BLOCK);
        let bytes = Bytes(u64::from(blocks) * BLOCK as u64);
        let arena = Arena::new(Box::new(heap), BLOCK, bytes);
        let list = BlockList::default();
        (0..blocks).for_each(|block| list.add(&arena, BlockId(block)));
        (arena, list)
    }

    #[test]
    fn samples_go_round_and_look_at_each_once_a_round() {
        let (arena, list) = listed(3 * WALK_PIECE);
        let first: Vec<BlockId> = (0..3).flat_map(|_| list.sample(&arena)).collect();
        let all = list.all_blocks(&arena);
        let mut looked = first.clone();
        looked.sort_unstable();
        assert_eq!(looked, all, "each once");
        let again: Vec<BlockId> = (0..3).flat_map(|_| list.sample(&arena)).collect();
        assert_eq!(again, first, "and so on");
        let (arena, list) = listed(10);
        assert_eq!(list.sample(&arena).len(), 10);
        let next = list.sample(&arena)[0];
        list.remove(&arena, next);
        assert_eq!(list.sample(&arena).len(), 9);
    }

    #[test]
    fn the_coldest_are_told_by_heat_and_age_and_the_sparsest_by_what_lives() {
        use super::super::block::LiveAmount;
        let (arena, list) = listed(6);
        for (n, (heat, live)) in [(9, 1), (0, 7), (0, 3), (5, 2), (7, 4), (0, 9)]
            .into_iter()
            .enumerate()
        {
            let block = arena.block(BlockId(n as u32));
            block.heat.store(heat, Ordering::Relaxed);
            block.sequence.store(10 - n as u64, Ordering::Relaxed);
            block.gain(LiveAmount {
                items: live,
                bytes: 0,
            });
        }
        let numbers = |few: FewBlocks| -> Vec<u32> { few.iter().map(|block| block.0).collect() };
        assert_eq!(numbers(list.coldest(&arena)), [5, 2, 1, 3, 4, 0]);
        assert_eq!(numbers(list.sparsest(&arena)), [0, 3, 2, 4, 1, 5]);
        assert_eq!(list.least_heat(&arena), Some(0));
        arena
            .block(BlockId(5))
            .closed
            .store(u64::MAX, Ordering::Relaxed);
        assert_eq!(numbers(list.coldest(&arena)), [2, 1, 3, 4, 0], "it is open");
    }
}
