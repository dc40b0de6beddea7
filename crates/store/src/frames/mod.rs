//! The frame table: a record of 32 bytes for each frame.
//!
//! A frame belongs to one shard of one tenant, or to nobody. It is read and written under that shard's lock. Its fields
//! are atomics all the same: a thread that sweeps a dropped block, or moves its frames, must look at a frame before it
//! knows which lock to take.

use std::sync::atomic::{AtomicU32, Ordering};

use sublet_types::{ObjectId, PageIndex};

mod far;
mod key;
mod pool_pages;

use crate::api::AccessPattern;
use crate::arena::{Arena, BlockId, PrefetchAddress, PrefetchBatch, ROW, WordTable};
pub(crate) use far::{FAR_FRAME_BYTES, FarFrames, FarState};
pub(crate) use key::{EXTENT_PAGES, HashSeed, SeededHasher, StoredKey};
pub(crate) use pool_pages::{POOLS_MAX, PoolPages};

/// A frame's number: its block's number times the frames per block, plus its index in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub(crate) u32);

impl FrameId {
    /// The end of a queue.
    pub(crate) const NONE: FrameId = FrameId(u32::MAX);
}

/// The queue that a frame is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId(pub(crate) u8);

impl QueueId {
    /// No queue: not handed out yet, or moving from one queue to another.
    pub(crate) const NONE: QueueId = QueueId(0);
    /// Free, in a shard's free list.
    pub(crate) const FREE: QueueId = QueueId(1);
    /// A persistent page.
    pub(crate) const KEPT: QueueId = QueueId(2);
    /// The first of the queues that an eviction numbers itself.
    pub(crate) const OWN: u8 = 3;
}

/// The most uses that a frame remembers.
pub(crate) const HITS_MAX: u8 = 3;

/// The record of one frame: a row of words.
///
/// ```text
///  object low   object high   index   pool, pattern   prev   next   queue, hits, shard, stamp   note
/// ```
#[derive(Clone, Copy)]
pub struct Frame<'a>(&'a [AtomicU32; ROW]);

const OBJECT_LOW: usize = 0;
const OBJECT_HIGH: usize = 1;
const INDEX: usize = 2;
const POOL: usize = 3;
const PREV: usize = 4;
const NEXT: usize = 5;
const STATE: usize = 6;
/// For an ephemeral page, when it was last put or used, as its eviction counts. For a persistent page, its number on
/// disk.
const NOTE: usize = 7;

/// The bit of the pool's word that says that the page is part of a sequential run.
const SEQUENTIAL: u32 = 1 << 31;

const _: () = assert!(POOLS_MAX <= SEQUENTIAL as usize);

const QUEUE: BitField = BitField { shift: 0, bits: 4 };
const HITS: BitField = BitField { shift: 4, bits: 5 };
const SHARD: BitField = BitField { shift: 9, bits: 8 };
const STAMP: BitField = BitField {
    shift: 17,
    bits: 15,
};

/// Some bits of the state word.
#[derive(Clone, Copy)]
struct BitField {
    shift: u32,
    bits: u32,
}

impl BitField {
    const fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// Stamps wrap at this number.
pub(crate) const STAMPS: u32 = 1 << STAMP.bits;

impl Frame<'_> {
    fn word(self, at: usize) -> u32 {
        self.0[at].load(Ordering::Relaxed)
    }

    fn set_word(self, at: usize, word: u32) {
        self.0[at].store(word, Ordering::Relaxed);
    }

    fn field(self, field: BitField) -> u32 {
        self.word(STATE) >> field.shift & field.mask()
    }

    fn set_field(self, field: BitField, value: u32) {
        let state = self.word(STATE) & !(field.mask() << field.shift);
        self.set_word(STATE, state | (value & field.mask()) << field.shift);
    }

    fn link(self, at: usize) -> FrameId {
        FrameId(self.word(at))
    }

    fn set_link(self, at: usize, to: FrameId) {
        self.set_word(at, to.0);
    }

    pub(crate) fn queue(self) -> QueueId {
        QueueId(self.field(QUEUE) as u8)
    }

    pub(crate) fn set_queue(self, queue: QueueId) {
        self.set_field(QUEUE, queue.0.into());
    }

    /// Returns whether a page lives in it.
    pub(crate) fn is_live(self) -> bool {
        self.queue() != QueueId::NONE && self.queue() != QueueId::FREE
    }

    /// The uses that it remembers.
    pub fn hits(self) -> u8 {
        self.field(HITS) as u8
    }

    /// Makes it remember this many uses.
    pub fn set_hits(self, hits: u8) {
        self.set_field(HITS, hits.into());
    }

    pub(crate) fn shard(self) -> u8 {
        self.field(SHARD) as u8
    }

    pub(crate) fn set_shard(self, shard: u8) {
        self.set_field(SHARD, shard.into());
    }

    /// When its page was last put or used, by a clock that wraps.
    pub(crate) fn stamp(self) -> u32 {
        self.field(STAMP)
    }

    pub(crate) fn set_stamp(self, stamp: u32) {
        self.set_field(STAMP, stamp);
    }

    pub(crate) fn note(self) -> u32 {
        self.word(NOTE)
    }

    pub(crate) fn set_note(self, note: u32) {
        self.set_word(NOTE, note);
    }

    pub(crate) fn key(self) -> StoredKey {
        let object = u64::from(self.word(OBJECT_HIGH)) << 32 | u64::from(self.word(OBJECT_LOW));
        StoredKey {
            pool: self.word(POOL) & !SEQUENTIAL,
            object: ObjectId(object),
            index: PageIndex(self.word(INDEX)),
        }
    }

    /// Sets the page that lives in it. Its pattern is [`AccessPattern::Random`] until another is set.
    pub(crate) fn set_key(self, key: StoredKey) {
        self.set_word(OBJECT_LOW, key.object.0 as u32);
        self.set_word(OBJECT_HIGH, (key.object.0 >> 32) as u32);
        self.set_word(INDEX, key.index.0);
        self.set_word(POOL, key.pool);
    }

    /// The pattern with which its page was put.
    pub(crate) fn pattern(self) -> AccessPattern {
        match self.word(POOL) & SEQUENTIAL {
            0 => AccessPattern::Random,
            _ => AccessPattern::Sequential,
        }
    }

    /// Sets the pattern with which its page was put.
    pub(crate) fn set_pattern(self, pattern: AccessPattern) {
        let pool = self.word(POOL) & !SEQUENTIAL;
        self.set_word(
            POOL,
            match pattern {
                AccessPattern::Random => pool,
                AccessPattern::Sequential => pool | SEQUENTIAL,
            },
        );
    }
}

/// Records of frames, by the frames' numbers.
pub(crate) trait FrameRows {
    /// The record of a frame.
    fn row(&self, frame: FrameId) -> Frame<'_>;
}

/// The records of all frames.
pub struct FrameTable {
    words: WordTable,
    /// The binary logarithm of the frames per block.
    block_bits: u32,
    /// Where the first frame's bytes are, and how many each frame has. Used only for prefetching.
    first_page: usize,
    page_bytes: usize,
    /// One more than the highest block that was ever opened for pages.
    touched: AtomicU32,
    seed: HashSeed,
    of_pools: PoolPages,
    far: FarFrames,
}

impl FrameRows for FrameTable {
    #[inline]
    fn row(&self, frame: FrameId) -> Frame<'_> {
        self.get(frame)
    }
}

impl FrameTable {
    /// A table without pages for the frames of an arena, and for `far_blocks` blocks of lenders. Pages have `page_bytes`
    /// bytes, and tenants have this many shards each.
    pub(crate) fn new(
        arena: &Arena,
        page_bytes: usize,
        shards: usize,
        far_blocks: u32,
        seed: HashSeed,
    ) -> std::io::Result<FrameTable> {
        let blocks = arena.blocks().count();
        let block_bits = (arena.block_bytes() / page_bytes).ilog2();
        Ok(FrameTable {
            words: WordTable::reserve(blocks << block_bits)?,
            block_bits,
            first_page: arena.address(BlockId(0)).addr(),
            page_bytes,
            touched: AtomicU32::new(0),
            seed,
            of_pools: PoolPages::new(POOLS_MAX, shards),
            far: FarFrames::reserve((far_blocks as usize) << block_bits)?,
        })
    }

    /// The binary logarithm of the frames per block.
    pub(crate) fn block_bits(&self) -> u32 {
        self.block_bits
    }

    /// Frames per block. It is a power of two, so that a shift gives a frame's block.
    pub(crate) fn per_block(&self) -> u32 {
        1 << self.block_bits
    }

    /// The frames of a block.
    pub(crate) fn of_block(&self, block: BlockId) -> impl Iterator<Item = FrameId> + use<> {
        let first = block.0 << self.block_bits;
        (first..first + self.per_block()).map(FrameId)
    }

    /// The block of a frame.
    pub(crate) fn block(&self, frame: FrameId) -> BlockId {
        BlockId(frame.0 >> self.block_bits)
    }

    /// A frame's index in its block.
    pub(crate) fn place(&self, frame: FrameId) -> u32 {
        frame.0 & (self.per_block() - 1)
    }

    /// The records of far frames.
    pub(crate) fn far(&self) -> &FarFrames {
        &self.far
    }

    /// How many of each pool's pages are in frames.
    pub(crate) fn of_pools(&self) -> &PoolPages {
        &self.of_pools
    }

    /// Records that a block is opened for pages.
    pub(crate) fn mark_touched(&self, block: BlockId) {
        self.touched.fetch_max(block.0 + 1, Ordering::Relaxed);
    }

    /// The record of a frame.
    pub fn get(&self, frame: FrameId) -> Frame<'_> {
        Frame(self.words.row(frame.0))
    }

    /// The hash of the page in a frame, for ghosts.
    pub(crate) fn hash(&self, frame: FrameId) -> u64 {
        self.seed.page(self.get(frame).key())
    }

    /// The cache line of a frame's record.
    #[inline]
    pub(crate) fn line(&self, frame: FrameId) -> PrefetchAddress {
        PrefetchAddress::of(self.words.row(frame.0))
    }

    /// The first cache line of a frame's page.
    #[inline]
    fn page_line(&self, frame: FrameId) -> PrefetchAddress {
        PrefetchAddress::at(self.first_page + frame.0 as usize * self.page_bytes)
    }

    /// Prefetches a frame's record.
    pub(crate) fn prefetch(&self, frame: FrameId) {
        self.line(frame).fetch();
    }

    /// Adds enough of a frame's page to the batch that the processor fetches the rest by itself.
    pub(crate) fn batch_page(&self, frame: FrameId, batch: &mut PrefetchBatch) {
        const LINES: usize = 8;
        (0..LINES).for_each(|n| batch.add(self.page_line(frame).offset(n)));
    }

    /// Adds only enough of a frame's page to the batch that the processor learns its address.
    pub(crate) fn batch_page_start(&self, frame: FrameId, batch: &mut PrefetchBatch) {
        batch.add(self.page_line(frame));
    }

    /// Adds the records of a frame's neighbours to the batch.
    pub(crate) fn batch_neighbours(&self, frame: FrameId, batch: &mut PrefetchBatch) {
        self.neighbours(frame)
            .for_each(|neighbour| batch.add(self.line(neighbour)));
    }

    fn neighbours(&self, frame: FrameId) -> impl Iterator<Item = FrameId> {
        let facts = self.get(frame);
        let linked = [facts.link(PREV), facts.link(NEXT)];
        linked.into_iter().filter(|frame| *frame != FrameId::NONE)
    }

    /// Prefetches a frame's record and the beginning of its page.
    #[inline]
    pub(crate) fn prefetch_page(&self, frame: FrameId) {
        const LINES: usize = 4;
        self.prefetch_lines(frame, LINES);
    }

    /// Does the same one page copy ahead of its use, so that more of it can arrive.
    #[inline]
    pub(crate) fn prefetch_next_page(&self, frame: FrameId) {
        const LINES: usize = 32;
        self.prefetch_lines(frame, LINES);
    }

    #[inline]
    fn prefetch_lines(&self, frame: FrameId, lines: usize) {
        self.prefetch(frame);
        self.page_line(frame).fetch_run(lines);
    }

    /// Prefetches the records of a frame's neighbours.
    pub(crate) fn prefetch_neighbours(&self, frame: FrameId) {
        self.neighbours(frame)
            .for_each(|neighbour| self.prefetch(neighbour));
    }

    /// Keeps the table off the host's swap.
    pub(crate) fn lock(&self) -> std::io::Result<()> {
        self.words.lock()
    }

    /// Bytes that the table takes.
    pub(crate) fn bytes(&self) -> u64 {
        let frames = u64::from(self.touched.load(Ordering::Relaxed)) << self.block_bits;
        frames * (ROW * size_of::<AtomicU32>()) as u64
    }
}

/// A queue of frames, linked through their records. Pushed frames enter at the head.
#[derive(Debug)]
pub struct FrameQueue {
    id: QueueId,
    head: FrameId,
    tail: FrameId,
    len: u32,
}

impl FrameQueue {
    pub(crate) const fn new(id: QueueId) -> FrameQueue {
        FrameQueue {
            id,
            head: FrameId::NONE,
            tail: FrameId::NONE,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The oldest frame.
    pub fn tail(&self) -> Option<FrameId> {
        (self.tail != FrameId::NONE).then_some(self.tail)
    }

    pub(crate) fn head(&self) -> Option<FrameId> {
        (self.head != FrameId::NONE).then_some(self.head)
    }

    /// The next frame towards the head.
    pub fn newer(frames: &FrameTable, frame: FrameId) -> Option<FrameId> {
        let prev = frames.get(frame).link(PREV);
        (prev != FrameId::NONE).then_some(prev)
    }

    /// The frame that is taken after this one. Free frames go newest first, others oldest first.
    pub(crate) fn after(frames: &FrameTable, frame: FrameId) -> Option<FrameId> {
        let facts = frames.get(frame);
        let after = facts.link(if facts.is_live() { PREV } else { NEXT });
        (after != FrameId::NONE).then_some(after)
    }

    /// Adds a frame that is in no queue at the head.
    pub fn push(&mut self, frames: &FrameTable, frame: FrameId) {
        self.push_row(frames, frame);
    }

    /// Adds a frame of any table.
    #[inline]
    pub(crate) fn push_row(&mut self, frames: &impl FrameRows, frame: FrameId) {
        let facts = frames.row(frame);
        facts.set_queue(self.id);
        facts.set_link(PREV, FrameId::NONE);
        facts.set_link(NEXT, self.head);
        match self.head {
            FrameId::NONE => self.tail = frame,
            head => frames.row(head).set_link(PREV, frame),
        }
        self.head = frame;
        self.len += 1;
    }

    /// Removes a frame, wherever it stands.
    pub fn remove(&mut self, frames: &FrameTable, frame: FrameId) {
        self.remove_row(frames, frame);
    }

    /// Removes a frame of any table.
    #[inline]
    pub(crate) fn remove_row(&mut self, frames: &impl FrameRows, frame: FrameId) {
        let facts = frames.row(frame);
        debug_assert_eq!(facts.queue(), self.id);
        let prev = facts.link(PREV);
        let next = facts.link(NEXT);
        match prev {
            FrameId::NONE => self.head = next,
            prev => frames.row(prev).set_link(NEXT, next),
        }
        match next {
            FrameId::NONE => self.tail = prev,
            next => frames.row(next).set_link(PREV, prev),
        }
        facts.set_queue(QueueId::NONE);
        self.len -= 1;
    }

    /// Removes the oldest frame.
    pub fn pop(&mut self, frames: &FrameTable) -> Option<FrameId> {
        let tail = self.tail()?;
        self.remove(frames, tail);
        Some(tail)
    }

    /// Removes the newest frame.
    pub(crate) fn pop_newest(&mut self, frames: &FrameTable) -> Option<FrameId> {
        let head = self.head()?;
        self.remove(frames, head);
        Some(head)
    }

    /// Removes the newest frame, of any table.
    pub(crate) fn pop_newest_row(&mut self, frames: &impl FrameRows) -> Option<FrameId> {
        let head = self.head()?;
        self.remove_row(frames, head);
        Some(head)
    }

    /// Puts `new` in the place of `old`.
    pub fn replace(&mut self, frames: &FrameTable, old: FrameId, new: FrameId) {
        let (facts, fresh) = (frames.get(old), frames.get(new));
        let prev = facts.link(PREV);
        let next = facts.link(NEXT);
        fresh.set_link(PREV, prev);
        fresh.set_link(NEXT, next);
        fresh.set_queue(self.id);
        facts.set_queue(QueueId::NONE);
        match prev {
            FrameId::NONE => self.head = new,
            prev => frames.get(prev).set_link(NEXT, new),
        }
        match next {
            FrameId::NONE => self.tail = new,
            next => frames.get(next).set_link(PREV, new),
        }
    }

    /// Moves a frame to the head.
    pub fn requeue(&mut self, frames: &FrameTable, frame: FrameId) {
        self.remove(frames, frame);
        self.push(frames, frame);
    }
}
