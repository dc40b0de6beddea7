//! Blocks of this host's arena that are lent to other hosts.
//!
//! A lender keeps bytes that it cannot read. Whoever asks names a block by the handle that it was lent under. A block
//! that was taken back answers nobody, and a page that was not written under the handle has no bytes: so nothing is
//! zeroed, and nobody sees what others wrote before (R-T7).

use std::sync::Arc;

use parking_lot::Mutex;
use sublet_types::{LentBlock, Second};

use crate::arena::{Arena, BlockId, BlockList, BlockOwner};

/// Bits of a word of the map of written pages.
const WORD: u32 = u64::BITS;

/// Blocks that are taken back at once when a tenant needs one, so that not each block pays for the search.
const TAKEN_AT_ONCE: u32 = 32;

/// The blocks that are lent.
pub(crate) struct LentBlocks {
    arena: Arc<Arena>,
    page_bytes: usize,
    list: BlockList,
    /// Which pages of each block were written under its handle. The lock is held while bytes are copied.
    written: Box<[Mutex<Box<[u64]>>]>,
    /// Blocks that were taken back and that nobody was told of yet.
    taken_back: Mutex<Vec<LentBlock>>,
}

impl LentBlocks {
    /// No block is lent.
    pub(crate) fn new(arena: Arc<Arena>, page_bytes: usize) -> LentBlocks {
        LentBlocks {
            page_bytes,
            list: BlockList::default(),
            written: arena.blocks().map(|_| Mutex::default()).collect(),
            taken_back: Mutex::default(),
            arena,
        }
    }

    /// The number of blocks that are lent.
    pub(crate) fn len(&self) -> u32 {
        self.arena.lent()
    }

    fn pages_per_block(&self) -> u32 {
        (self.arena.block_bytes() / self.page_bytes) as u32
    }

    /// Lends a free block. `None` if none is free, and the arena may not grow or the kernel gives no memory.
    pub(crate) fn lend(&self, now: Second) -> Option<LentBlock> {
        let arena = &self.arena;
        let allocate = || arena.allocate(BlockOwner::Lent, arena.reserve(), now);
        let block = loop {
            match allocate() {
                Some(block) => break block,
                None if matches!(arena.grow(), Ok(true)) => {}
                None => return None,
            }
        };
        let words = self.pages_per_block().div_ceil(WORD) as usize;
        *self.written(block).lock() = vec![0; words].into();
        arena.record_lent();
        self.list.add(arena, block);
        Some(self.handle(block))
    }

    fn written(&self, block: BlockId) -> &Mutex<Box<[u64]>> {
        &self.written[block.0 as usize]
    }

    fn handle(&self, block: BlockId) -> LentBlock {
        LentBlock {
            block: block.0,
            opening: self.arena.block(block).sequence(),
        }
    }

    /// The block of a handle, if it is still lent under it. It stays readable while the caller is pinned.
    fn find(&self, lent: LentBlock) -> Option<BlockId> {
        let block = BlockId(lent.block);
        if lent.block as usize >= self.written.len() {
            return None;
        }
        let facts = self.arena.block(block);
        let is_lent = facts.owner() == BlockOwner::Lent && facts.sequence() == lent.opening;
        is_lent.then_some(block)
    }

    /// Reads a page. Returns whether it was there. The caller is pinned.
    pub(crate) fn read(&self, lent: LentBlock, place: u16, read: impl FnOnce(&[u8])) -> bool {
        let Some((block, at)) = self.find(lent).zip(self.offset(place)) else {
            return false;
        };
        let written = self.written(block).lock();
        let is_written = has(&written, place);
        if is_written {
            read(self.arena.page(block, at, self.page_bytes));
        }
        is_written
    }

    /// Writes a page. Returns whether the block is still lent. The caller is pinned.
    pub(crate) fn write(&self, lent: LentBlock, place: u16, write: impl FnOnce(&mut [u8])) -> bool {
        let Some((block, at)) = self.find(lent).zip(self.offset(place)) else {
            return false;
        };
        let mut written = self.written(block).lock();
        self.arena.write_page(block, at, self.page_bytes, write);
        add(&mut written, place);
        true
    }

    /// Records that a block is used, for the order in which blocks are taken back. The caller is pinned.
    pub(crate) fn hit(&self, lent: LentBlock, now: Second, random: u64) {
        if let Some(block) = self.find(lent) {
            self.arena.block(block).hit(now, random);
        }
    }

    /// How much a block is used. `None` if it is not lent any more. The caller is pinned.
    pub(crate) fn heat(&self, lent: LentBlock) -> Option<u32> {
        let block = self.find(lent)?;
        Some(self.arena.block(block).heat())
    }

    /// Where a page begins in its block.
    fn offset(&self, place: u16) -> Option<usize> {
        (u32::from(place) < self.pages_per_block()).then(|| usize::from(place) * self.page_bytes)
    }

    /// Takes back this many blocks, the coldest first. Nobody is asked. Returns how many went.
    pub(crate) fn take_back(&self, blocks: u32) -> u32 {
        if blocks == 0 || self.len() == 0 {
            return 0;
        }
        let mut order = self.list.all_blocks(&self.arena);
        if (blocks as usize) < order.len() {
            let coldness = |block: &BlockId| self.arena.block(*block).heat();
            order.select_nth_unstable_by_key(blocks as usize, coldness);
            order.truncate(blocks as usize);
        }
        let taken = self.end(order.into_iter().map(|block| self.handle(block)));
        let count = taken.len() as u32;
        self.taken_back.lock().extend(taken);
        count
    }

    /// Takes back some blocks for a tenant that needs one. Returns whether any went.
    pub(crate) fn take_back_some(&self) -> bool {
        self.take_back(TAKEN_AT_ONCE) > 0
    }

    /// Ends the lending of blocks. Those that are not lent any more are left out. Returns the others.
    pub(crate) fn end(&self, lent: impl Iterator<Item = LentBlock>) -> Vec<LentBlock> {
        let mut ended = Vec::new();
        let mut blocks = Vec::new();
        for lent in lent {
            if let Some(block) = self.find(lent)
                && self.arena.block(block).begin_recall()
            {
                self.list.remove(&self.arena, block);
                ended.push(lent);
                blocks.push(block);
            }
        }
        self.arena.record_back(blocks.len() as u32);
        self.arena.retire(&blocks);
        ended
    }

    /// The blocks that were taken back since the last call.
    pub(crate) fn drain_taken_back(&self) -> Vec<LentBlock> {
        std::mem::take(&mut self.taken_back.lock())
    }
}

fn has(written: &[u64], place: u16) -> bool {
    let (word, bit) = (u32::from(place) / WORD, u32::from(place) % WORD);
    written
        .get(word as usize)
        .is_some_and(|word| word >> bit & 1 == 1)
}

fn add(written: &mut [u64], place: u16) {
    let (word, bit) = (u32::from(place) / WORD, u32::from(place) % WORD);
    if let Some(word) = written.get_mut(word as usize) {
        *word |= 1 << bit;
    }
}
