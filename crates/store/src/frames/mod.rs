//! The frame table: what is known of each frame, 32 bytes.
//!
//! A frame belongs to one shard of one tenant, or to nobody, and is read and written under that shard's
//! lock. Its fields are atomics all the same, because whoever sweeps a dropped block, or moves its
//! frames, must look at a frame before it knows which lock to take.

use std::sync::atomic::{AtomicU32, Ordering};

use sublet_types::{ObjectId, PageIndex};

mod key;
mod pool_pages;

use crate::arena::{Arena, BlockId, Line, ROW, Wanted, Words};
pub(crate) use key::{EXTENT_PAGES, Key, Seed, Seeded};
pub(crate) use pool_pages::{POOLS_MAX, PoolPages};

/// A frame's number: its block's number times the frames of a block, and its place in that.
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
    /// In none: not handed out yet, or under way from one to another.
    pub(crate) const NONE: QueueId = QueueId(0);
    /// Free, in a shard's stock.
    pub(crate) const FREE: QueueId = QueueId(1);
    /// A persistent page.
    pub(crate) const KEPT: QueueId = QueueId(2);
    /// The first of those that an eviction names itself.
    pub(crate) const OWN: u8 = 3;
}

/// Uses that a frame remembers.
pub(crate) const HITS_MAX: u8 = 3;

/// The facts of one frame: a row of words.
///
/// ```text
///  object low   object high   index   pool   prev   next   queue, hits, shard, stamp   note
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
/// Ephemeral: when it was last put or used, as its eviction counts. Persistent: its number on disk.
const NOTE: usize = 7;

const QUEUE: Field = Field { shift: 0, bits: 4 };
const HITS: Field = Field { shift: 4, bits: 5 };
const SHARD: Field = Field { shift: 9, bits: 8 };
const STAMP: Field = Field {
    shift: 17,
    bits: 15,
};

/// Some bits of the word of states.
#[derive(Clone, Copy)]
struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    const fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// Stamps come round after so many.
pub(crate) const STAMPS: u32 = 1 << STAMP.bits;

impl Frame<'_> {
    fn word(self, at: usize) -> u32 {
        self.0[at].load(Ordering::Relaxed)
    }

    fn set_word(self, at: usize, word: u32) {
        self.0[at].store(word, Ordering::Relaxed);
    }

    fn field(self, field: Field) -> u32 {
        self.word(STATE) >> field.shift & field.mask()
    }

    fn set_field(self, field: Field, value: u32) {
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

    /// Whether a page lives in it.
    pub(crate) fn is_live(self) -> bool {
        self.queue() != QueueId::NONE && self.queue() != QueueId::FREE
    }

    /// Uses that it remembers.
    pub fn hits(self) -> u8 {
        self.field(HITS) as u8
    }

    /// Has it remember so many uses.
    pub fn set_hits(self, hits: u8) {
        self.set_field(HITS, hits.into());
    }

    pub(crate) fn shard(self) -> u8 {
        self.field(SHARD) as u8
    }

    pub(crate) fn set_shard(self, shard: u8) {
        self.set_field(SHARD, shard.into());
    }

    /// When its page was put or used last, by a clock that comes round.
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

    pub(crate) fn key(self) -> Key {
        let object = u64::from(self.word(OBJECT_HIGH)) << 32 | u64::from(self.word(OBJECT_LOW));
        Key {
            pool: self.word(POOL),
            object: ObjectId(object),
            index: PageIndex(self.word(INDEX)),
        }
    }

    pub(crate) fn set_key(self, key: Key) {
        self.set_word(OBJECT_LOW, key.object.0 as u32);
        self.set_word(OBJECT_HIGH, (key.object.0 >> 32) as u32);
        self.set_word(INDEX, key.index.0);
        self.set_word(POOL, key.pool);
    }
}

/// The facts of all frames.
pub struct Frames {
    words: Words,
    /// Frames of a block: two to the power of this.
    block_bits: u32,
    /// Where the first frame's bytes are, and how many each has: only to have the processor fetch them.
    first_page: usize,
    page_bytes: usize,
    /// One more than the highest block that was ever opened for pages.
    touched: AtomicU32,
    seed: Seed,
    of_pools: PoolPages,
}

impl Frames {
    /// No page yet in the frames of an arena, of pages of so many bytes and of tenants that have so many shards each.
    pub(crate) fn new(
        arena: &Arena,
        page_bytes: usize,
        shards: usize,
        seed: Seed,
    ) -> std::io::Result<Frames> {
        let blocks = arena.blocks().count();
        let block_bits = (arena.block_bytes() / page_bytes).ilog2();
        Ok(Frames {
            words: Words::reserve(blocks << block_bits)?,
            block_bits,
            first_page: arena.address(BlockId(0)).addr(),
            page_bytes,
            touched: AtomicU32::new(0),
            seed,
            of_pools: PoolPages::new(POOLS_MAX, shards),
        })
    }

    /// Frames of a block: a power of two, so that a frame's block is told by a shift.
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

    /// A frame's place in its block.
    pub(crate) fn place(&self, frame: FrameId) -> u32 {
        frame.0 & (self.per_block() - 1)
    }

    /// How many of each pool's pages are in frames.
    pub(crate) fn of_pools(&self) -> &PoolPages {
        &self.of_pools
    }

    /// Hears that a block is opened for pages.
    pub(crate) fn note_block(&self, block: BlockId) {
        self.touched.fetch_max(block.0 + 1, Ordering::Relaxed);
    }

    /// A frame's facts.
    pub fn get(&self, frame: FrameId) -> Frame<'_> {
        Frame(self.words.row(frame.0))
    }

    /// The hash of the page in a frame, for ghosts.
    pub(crate) fn hash(&self, frame: FrameId) -> u64 {
        self.seed.page(self.get(frame).key())
    }

    /// Where a frame's facts are.
    #[inline]
    pub(crate) fn line(&self, frame: FrameId) -> Line {
        Line::of(self.words.row(frame.0))
    }

    /// Where a frame's page begins.
    #[inline]
    fn page_line(&self, frame: FrameId) -> Line {
        Line::at(self.first_page + frame.0 as usize * self.page_bytes)
    }

    /// Has the processor fetch a frame's facts.
    pub(crate) fn expect(&self, frame: FrameId) {
        self.line(frame).fetch();
    }

    /// Wants as much of a frame's page as has the processor fetch the rest by itself.
    pub(crate) fn want_page(&self, frame: FrameId, wanted: &mut Wanted) {
        const LINES: usize = 8;
        (0..LINES).for_each(|n| wanted.add(self.page_line(frame).beyond(n)));
    }

    /// Wants no more of a frame's page than tells the processor where it lies.
    pub(crate) fn want_place(&self, frame: FrameId, wanted: &mut Wanted) {
        wanted.add(self.page_line(frame));
    }

    /// Wants the facts of those that a frame is linked to.
    pub(crate) fn want_neighbours(&self, frame: FrameId, wanted: &mut Wanted) {
        self.neighbours(frame)
            .for_each(|neighbour| wanted.add(self.line(neighbour)));
    }

    fn neighbours(&self, frame: FrameId) -> impl Iterator<Item = FrameId> {
        let facts = self.get(frame);
        let linked = [facts.link(PREV), facts.link(NEXT)];
        linked.into_iter().filter(|frame| *frame != FrameId::NONE)
    }

    /// Has the processor fetch a frame's facts and the beginning of its page.
    #[inline]
    pub(crate) fn expect_page(&self, frame: FrameId) {
        const LINES: usize = 4;
        self.expect_lines(frame, LINES);
    }

    /// The same a page's copy ahead of its use, so that more of it can come.
    #[inline]
    pub(crate) fn expect_next_page(&self, frame: FrameId) {
        const LINES: usize = 32;
        self.expect_lines(frame, LINES);
    }

    #[inline]
    fn expect_lines(&self, frame: FrameId, lines: usize) {
        self.expect(frame);
        self.page_line(frame).fetch_run(lines);
    }

    /// Has the processor fetch the facts of those that a frame is linked to.
    pub(crate) fn expect_neighbours(&self, frame: FrameId) {
        self.neighbours(frame)
            .for_each(|neighbour| self.expect(neighbour));
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

/// A queue of frames, linked through their facts. What is pushed comes in at the head.
#[derive(Debug)]
pub struct Queue {
    id: QueueId,
    head: FrameId,
    tail: FrameId,
    len: u32,
}

impl Queue {
    pub(crate) const fn new(id: QueueId) -> Queue {
        Queue {
            id,
            head: FrameId::NONE,
            tail: FrameId::NONE,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The oldest.
    pub fn tail(&self) -> Option<FrameId> {
        (self.tail != FrameId::NONE).then_some(self.tail)
    }

    pub(crate) fn head(&self) -> Option<FrameId> {
        (self.head != FrameId::NONE).then_some(self.head)
    }

    /// The frame that is one nearer to the head.
    pub fn newer(frames: &Frames, frame: FrameId) -> Option<FrameId> {
        let prev = frames.get(frame).link(PREV);
        (prev != FrameId::NONE).then_some(prev)
    }

    /// The frame that new pages get after this one: of free ones the newest go first, of others the oldest.
    pub(crate) fn after(frames: &Frames, frame: FrameId) -> Option<FrameId> {
        let facts = frames.get(frame);
        let after = facts.link(if facts.is_live() { PREV } else { NEXT });
        (after != FrameId::NONE).then_some(after)
    }

    /// Puts a frame that is in no queue where the newest are.
    pub fn push(&mut self, frames: &Frames, frame: FrameId) {
        let facts = frames.get(frame);
        facts.set_queue(self.id);
        facts.set_link(PREV, FrameId::NONE);
        facts.set_link(NEXT, self.head);
        match self.head {
            FrameId::NONE => self.tail = frame,
            head => frames.get(head).set_link(PREV, frame),
        }
        self.head = frame;
        self.len += 1;
    }

    /// Takes a frame out, wherever it stands.
    pub fn remove(&mut self, frames: &Frames, frame: FrameId) {
        let facts = frames.get(frame);
        debug_assert_eq!(facts.queue(), self.id);
        let prev = facts.link(PREV);
        let next = facts.link(NEXT);
        match prev {
            FrameId::NONE => self.head = next,
            prev => frames.get(prev).set_link(NEXT, next),
        }
        match next {
            FrameId::NONE => self.tail = prev,
            next => frames.get(next).set_link(PREV, prev),
        }
        facts.set_queue(QueueId::NONE);
        self.len -= 1;
    }

    /// Takes the oldest.
    pub fn pop(&mut self, frames: &Frames) -> Option<FrameId> {
        let tail = self.tail()?;
        self.remove(frames, tail);
        Some(tail)
    }

    /// Takes the newest.
    pub(crate) fn pop_newest(&mut self, frames: &Frames) -> Option<FrameId> {
        let head = self.head()?;
        self.remove(frames, head);
        Some(head)
    }

    /// Has `new` take the place of `old`.
    pub fn replace(&mut self, frames: &Frames, old: FrameId, new: FrameId) {
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

    /// Carries a frame to where the newest are.
    pub fn requeue(&mut self, frames: &Frames, frame: FrameId) {
        self.remove(frames, frame);
        self.push(frames, frame);
    }
}
