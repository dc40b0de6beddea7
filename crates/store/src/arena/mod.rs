//! The arena: all memory that the daemon holds, in blocks.
//!
//! One reserved range is cut into blocks of one size (2 MiB; tests take smaller ones). A block is in one of four
//! states:
//!
//! - absent,
//! - ready on the free list,
//! - owned,
//! - in limbo, until the last reader that may see it has left.
//!
//! Only whole blocks move between the kernel and the arena. So a release costs a few `madvise` calls, whatever the
//! blocks hold.

#![allow(unsafe_code)]

mod blank_page;
mod block;
mod block_list;
mod block_queue;
mod epochs;
mod least_blocks;
mod live_counters;
mod memory;
mod prefetch;
mod same_word;
mod wear;
mod word_table;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::{Bytes, Second, TenantId};

use crate::api::TENANTS_MAX;

pub use blank_page::UnwrittenPage;
pub(crate) use blank_page::fence_streamed;
pub(crate) use block::{Block, BlockId, BlockOwner, GENERATION_BITS, LiveAmount, PageKind};
pub(crate) use block_list::BlockList;
use block_list::Link;
pub(crate) use block_queue::BlockQueue;
pub(crate) use epochs::PinSlot;
use epochs::{Epoch, Epochs};
use live_counters::LiveCounters;
pub(crate) use live_counters::LiveTotals;
#[cfg(any(test, feature = "fake"))]
pub use memory::fake;
pub use memory::{KernelOutOfMemory, MappedMemory, Memory};
pub(crate) use prefetch::{PrefetchAddress, PrefetchBatch, prefetch, prefetch_for_write};
pub(crate) use same_word::SameWord;
use wear::Wear;
pub(crate) use word_table::{ROW, WordTable};

/// How far ahead of use the arena is populated, in bytes.
const AHEAD_MAX: u64 = 64 << 20;

/// An arena with fewer blocks than this keeps a smaller reserve, because every block counts.
const SMALL_ARENA_BLOCKS: u32 = 64;

/// The memory that the daemon holds.
pub(crate) struct Arena {
    memory: Box<dyn Memory>,
    block_bytes: usize,
    blocks: Box<[Block]>,
    /// Each block's place in its list.
    links: Box<[Link]>,
    live_counters: LiveCounters,
    epochs: Epochs,
    unowned: Mutex<UnownedBlocks>,
    wear: Mutex<Wear>,
    /// Blocks that may be held, less those below.
    limit: AtomicU32,
    /// Blocks' worth of memory that tables beside the arena take, and that count against the limit.
    charged: AtomicU32,
    /// Blocks backed by memory: owned, ready or in limbo.
    held: AtomicU32,
    ready: AtomicU32,
    /// Blocks that other hosts have.
    lent: AtomicU32,
    limbo: AtomicU32,
    /// Blocks given back to the kernel since the start.
    returned: AtomicU64,
    sequence: AtomicU64,
    /// Bytes written to it, approximately. This is the clock by which ages are compared.
    written: AtomicU64,
}

/// Blocks that nobody owns.
struct UnownedBlocks {
    /// Backed by memory.
    ready: Vec<BlockId>,
    /// Not backed.
    absent: Vec<BlockId>,
    /// Backed, and perhaps still being read.
    limbo: VecDeque<(Epoch, BlockId)>,
    /// Not backed, and not to be opened before the next sweep has ended.
    worn: Vec<BlockId>,
}

/// The right to write one range of a block, once.
#[derive(Debug)]
pub(crate) struct RecordClaim {
    pub(crate) block: BlockId,
    pub(crate) at: u32,
    len: u32,
    /// The block's generation when the claim was made. If the block is dropped meanwhile, what is written is lost.
    pub(crate) generation: u32,
}

impl Arena {
    pub(crate) fn new(memory: Box<dyn Memory>, block_bytes: usize, limit: Bytes) -> Arena {
        let count = memory.len() / block_bytes;
        let arena = Arena {
            memory,
            block_bytes,
            blocks: (0..count).map(|_| Block::unowned()).collect(),
            links: (0..count).map(|_| Link::default()).collect(),
            live_counters: LiveCounters::new(TENANTS_MAX),
            epochs: Epochs::new(),
            unowned: Mutex::new(UnownedBlocks {
                ready: Vec::new(),
                absent: (0..count as u32).rev().map(BlockId).collect(),
                limbo: VecDeque::new(),
                worn: Vec::new(),
            }),
            wear: Mutex::new(Wear::new(count)),
            limit: AtomicU32::new(0),
            charged: AtomicU32::new(0),
            held: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            lent: AtomicU32::new(0),
            limbo: AtomicU32::new(0),
            returned: AtomicU64::new(0),
            sequence: AtomicU64::new(1),
            written: AtomicU64::new(0),
        };
        arena.set_limit(limit);
        arena
    }

    /// Keeps the arena's memory off the host's swap.
    pub(crate) fn lock(&self) -> std::io::Result<()> {
        self.memory.lock()
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    pub(crate) fn block(&self, block: BlockId) -> &Block {
        &self.blocks[block.0 as usize]
    }

    fn link(&self, block: u32) -> &Link {
        &self.links[block as usize]
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.blocks
            .iter()
            .enumerate()
            .map(|(n, block)| (BlockId(n as u32), block))
    }

    /// Halves the past hits of all blocks.
    pub(crate) fn cool_all(&self) {
        self.blocks.iter().for_each(Block::cool);
    }

    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Blocks that may be held.
    pub(crate) fn limit(&self) -> u32 {
        let limit = self.limit.load(Ordering::Relaxed);
        limit.saturating_sub(self.charged())
    }

    /// Blocks of the limit that go to tables beside the arena.
    pub(crate) fn charged(&self) -> u32 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Sets how many bytes tables beside the arena take. Less than a block does not count.
    pub(crate) fn charge(&self, bytes: u64) {
        let blocks = u32::try_from(bytes / self.block_bytes as u64).unwrap_or(u32::MAX);
        self.charged.store(blocks, Ordering::Relaxed);
    }

    pub(crate) fn set_limit(&self, limit: Bytes) {
        let blocks = (limit.0 / self.block_bytes as u64).min(self.blocks.len() as u64);
        self.limit.store(blocks as u32, Ordering::Relaxed);
    }

    /// Free blocks that only eviction and the index may take, so that these never fail.
    pub(crate) fn reserve(&self) -> usize {
        if self.limit() < SMALL_ARENA_BLOCKS {
            1
        } else {
            2
        }
    }

    /// Blocks backed by memory.
    pub(crate) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// Blocks on the free list.
    pub(crate) fn ready(&self) -> u32 {
        self.ready.load(Ordering::Relaxed)
    }

    /// Blocks given back to the kernel since the start.
    pub(crate) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Acquire)
    }

    /// Returns whether the arena may hold more than it does.
    pub(crate) fn may_grow(&self) -> bool {
        self.held() < self.limit()
    }

    /// Returns whether blocks may be had before anything is evicted: the arena may grow, or other hosts have some.
    pub(crate) fn may_spare(&self) -> bool {
        self.may_grow() || self.lent() > 0
    }

    /// Blocks that other hosts have. One that is being lent or taken back counts.
    pub(crate) fn lent(&self) -> u32 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Records that another host has a block.
    pub(crate) fn record_lent(&self) {
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that other hosts have this many blocks no longer.
    pub(crate) fn record_back(&self, blocks: u32) {
        self.lent.fetch_sub(blocks, Ordering::Relaxed);
    }

    /// Bytes written so far. Segments count when they are opened; pages count some at a time.
    pub(crate) fn clock(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts this many more bytes as written.
    pub(crate) fn advance(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of the next segment that is opened.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.load(Ordering::SeqCst)
    }

    /// Takes a block from the free list and opens it for `owner`. It leaves the last `spare` blocks of the list to
    /// others.
    pub(crate) fn allocate(&self, owner: BlockOwner, spare: usize, now: Second) -> Option<BlockId> {
        let block = {
            let mut unowned = self.unowned.lock();
            if unowned.ready.len() <= spare {
                self.drain_limbo_into(&mut unowned);
            }
            if unowned.ready.len() <= spare {
                return None;
            }
            let block = unowned.ready.pop()?;
            self.ready
                .store(unowned.ready.len() as u32, Ordering::Relaxed);
            block
        };
        let sequence = self.sequence.fetch_add(1, Ordering::SeqCst);
        self.block(block).open(owner, sequence, now);
        if matches!(owner, BlockOwner::Items(_)) {
            self.advance(self.block_bytes as u64);
        }
        let born = self.clock();
        self.block(block).born.store(born, Ordering::Relaxed);
        Some(block)
    }

    /// Makes the kernel back one more block, if the limit allows it. Returns whether it did.
    pub(crate) fn grow(&self) -> Result<bool, KernelOutOfMemory> {
        let may = |held: u32| (held < self.limit()).then_some(held + 1);
        if self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, may)
            .is_err()
        {
            return Ok(false);
        }
        let Some(block) = self.unowned.lock().absent.pop() else {
            self.held.fetch_sub(1, Ordering::AcqRel);
            return Ok(false);
        };
        let populated = self.memory.populate(self.offset(block), self.block_bytes);
        let mut unowned = self.unowned.lock();
        if let Err(exhausted) = populated {
            unowned.absent.push(block);
            self.held.fetch_sub(1, Ordering::AcqRel);
            return Err(exhausted);
        }
        unowned.ready.push(block);
        self.ready
            .store(unowned.ready.len() as u32, Ordering::Relaxed);
        Ok(true)
    }

    /// Populates one more block ahead of use, if fewer than 64 MiB are. Returns whether to go on.
    pub(crate) fn populate_ahead(&self) -> bool {
        let ahead = u64::from(self.ready()) * self.block_bytes as u64;
        ahead < AHEAD_MAX && matches!(self.grow(), Ok(true))
    }

    /// Records that no more claims are made in a block.
    pub(crate) fn close(&self, block: BlockId) {
        let epoch = self.epochs.advance();
        self.block(block).closed.store(epoch.0, Ordering::Release);
    }

    /// Returns whether everything that was claimed in a block is written and published, apart from what the thread of
    /// `pin` still writes.
    pub(crate) fn is_complete(&self, block: BlockId, pin: &PinSlot) -> bool {
        Epoch(self.block(block).closed.load(Ordering::Acquire)) <= self.epochs.oldest_but(pin)
    }

    /// Takes back blocks that nothing refers to any more. They are reused once their last reader has left.
    pub(crate) fn retire(&self, blocks: &[BlockId]) {
        if blocks.is_empty() {
            return;
        }
        for block in blocks {
            self.block(*block).disown();
        }
        let epoch = self.epochs.advance();
        let mut unowned = self.unowned.lock();
        unowned
            .limbo
            .extend(blocks.iter().map(|block| (epoch, *block)));
        self.drain_limbo_into(&mut unowned);
    }

    /// Drops blocks with all that they hold, in constant time each, and takes them back. Returns the items and bytes
    /// that were lost.
    pub(crate) fn drop_blocks(&self, blocks: &[BlockId]) -> (u64, u64) {
        let mut lost = (0, 0);
        {
            let mut wear = self.wear.lock();
            for block in blocks {
                self.block(*block).begin_generation();
                self.block(*block).disown();
                let lives = self.lose_all(*block);
                lost.0 += u64::from(lives.items);
                lost.1 += u64::from(lives.bytes);
                wear.note_drop(*block);
            }
        }
        self.retire(blocks);
        lost
    }

    /// What is alive in a tenant's blocks now.
    pub(crate) fn live_totals(&self, tenant: TenantId) -> LiveTotals {
        self.live_counters.live_totals(tenant)
    }

    /// Counts a live record in a block. The caller is pinned.
    pub(crate) fn gain(&self, block: BlockId, lives: LiveAmount) {
        let facts = self.block(block);
        facts.gain(lives);
        if let Some(tenant) = facts.account() {
            self.live_counters.gain(tenant, lives, block.0 as usize);
        }
    }

    /// Counts a record in a block as no longer live. The caller is pinned and saw the slot's generation hold.
    pub(crate) fn lose(&self, block: BlockId, lives: LiveAmount) {
        let facts = self.block(block);
        if facts.lose(lives)
            && let Some(tenant) = facts.account()
        {
            self.live_counters.lose(tenant, lives, block.0 as usize);
        }
    }

    /// Counts pages that came into a block. `spread` should differ from thread to thread. The caller is pinned.
    pub(crate) fn gain_pages(&self, block: BlockId, pages: u32, spread: usize) {
        let facts = self.block(block);
        facts.gain(LiveAmount::pages(pages));
        if let Some(tenant) = facts.account() {
            self.live_counters.gain_pages(tenant, pages, spread);
        }
    }

    /// Counts a page that left a block. The caller is pinned and holds the lock of the page's shard.
    pub(crate) fn lose_page(&self, block: BlockId, spread: usize) {
        let facts = self.block(block);
        if facts.lose(LiveAmount::pages(1))
            && let Some(tenant) = facts.account()
        {
            self.live_counters.lose_pages(tenant, 1, spread);
        }
    }

    /// Counts everything in a block as no longer live. Returns what was live.
    pub(crate) fn lose_all(&self, block: BlockId) -> LiveAmount {
        let facts = self.block(block);
        let lives = facts.lose_all();
        if let Some(tenant) = facts.account() {
            match facts.has_pages() {
                true => self.live_counters.lose_pages(tenant, lives.items, 0),
                false => self.live_counters.lose(tenant, lives, 0),
            }
        }
        lives
    }

    /// Blocks that are retired and not ready yet.
    pub(crate) fn in_limbo(&self) -> usize {
        self.limbo.load(Ordering::Relaxed) as usize
    }

    /// Holds the lock that a thread holds which takes or gives a block.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        self.unowned.lock()
    }

    /// Moves limbo blocks past their epoch to the free list.
    pub(crate) fn drain_limbo(&self) {
        self.drain_limbo_into(&mut self.unowned.lock());
    }

    fn drain_limbo_into(&self, unowned: &mut UnownedBlocks) {
        let oldest = self.epochs.oldest();
        while let Some(&(epoch, block)) = unowned.limbo.front() {
            if epoch > oldest {
                break;
            }
            unowned.limbo.pop_front();
            // A thread that still saw the block as its former tenant's has left by now. What it counted since belongs
            // to nobody.
            self.lose_all(block);
            if self.wear.lock().is_worn(block) {
                self.release_run(block, 1);
                unowned.worn.push(block);
            } else {
                unowned.ready.push(block);
            }
        }
        self.ready
            .store(unowned.ready.len() as u32, Ordering::Relaxed);
        self.limbo
            .store(unowned.limbo.len() as u32, Ordering::Relaxed);
    }

    fn release_run(&self, first: BlockId, count: usize) {
        self.memory
            .release(self.offset(first), count * self.block_bytes);
        self.held.fetch_sub(count as u32, Ordering::AcqRel);
        self.returned.fetch_add(count as u64, Ordering::AcqRel);
    }

    /// Gives up to `most` free blocks back to the kernel but keeps `spare`. Neighbours go in one call.
    pub(crate) fn give_back(&self, most: usize, spare: usize) {
        let mut leaving = {
            let mut unowned = self.unowned.lock();
            self.drain_limbo_into(&mut unowned);
            let keep = unowned.ready.len() - most.min(unowned.ready.len().saturating_sub(spare));
            let leaving = unowned.ready.split_off(keep);
            self.ready.store(keep as u32, Ordering::Relaxed);
            leaving
        };
        leaving.sort_unstable();
        for run in leaving.chunk_by(|a, b| a.0 + 1 == b.0) {
            self.release_run(run[0], run.len());
        }
        // The lowest addresses are reused first, so that what is held stays together.
        let mut unowned = self.unowned.lock();
        unowned.absent.extend(leaving.iter().rev());
    }

    pub(crate) fn sweep_begins(&self) {
        self.wear.lock().sweep_begins();
    }

    pub(crate) fn sweep_ends(&self) {
        let mut unowned = self.unowned.lock();
        let mut wear = self.wear.lock();
        wear.sweep_ends();
        let worn = std::mem::take(&mut unowned.worn);
        let (still, fresh): (Vec<_>, Vec<_>) = worn.into_iter().partition(|b| wear.is_worn(*b));
        unowned.worn = still;
        unowned.absent.extend(fresh);
    }

    fn offset(&self, block: BlockId) -> usize {
        block.0 as usize * self.block_bytes
    }

    /// The address of a block, for the hash index, which keeps atomics in its blocks.
    pub(crate) fn address(&self, block: BlockId) -> *mut u8 {
        assert!((block.0 as usize) < self.blocks.len());
        // SAFETY: inside the range by the assertion.
        unsafe { self.memory.base().as_ptr().add(self.offset(block)) }
    }

    /// Claims the next `len` bytes of an open block. `None` if they do not fit. The caller holds the lock of the
    /// block's class, so that claims never overlap.
    pub(crate) fn claim(&self, block: BlockId, len: u32) -> Option<RecordClaim> {
        let at = self
            .block(block)
            .filled
            .load(Ordering::Relaxed)
            .max(RECORDS_BEGIN);
        let end = at.checked_add(len)?;
        if end as usize > self.block_bytes {
            return None;
        }
        self.block(block).filled.store(end, Ordering::Release);
        Some(RecordClaim {
            block,
            at,
            len,
            generation: self.block(block).generation(),
        })
    }

    /// Writes the claimed range and uses the claim up. So each range is written once.
    pub(crate) fn fill(&self, claim: RecordClaim, write: impl FnOnce(&mut [u8])) {
        assert!(claim.at as usize + claim.len as usize <= self.block_bytes);
        // SAFETY: in bounds by the assertion. Nobody else writes the range, because a claim is made once and claims do
        // not overlap. Nobody reads it, because it is not published yet.
        let range = unsafe {
            std::slice::from_raw_parts_mut(
                self.address(claim.block).add(claim.at as usize),
                claim.len as usize,
            )
        };
        write(range);
    }

    /// The bytes of a frame: `len` bytes from `at` on in a block of pages. The caller is pinned and saw under that pin
    /// that the block is its tenant's. It holds the lock of the frame's shard, so that nobody writes the frame
    /// meanwhile.
    pub(crate) fn page(&self, block: BlockId, at: usize, len: usize) -> &[u8] {
        assert!(at + len <= self.block_bytes);
        // SAFETY: in bounds by the assertion. A frame is read and written only under its shard's lock. Its block is not
        // reused or released while the pin lasts.
        unsafe { std::slice::from_raw_parts(self.address(block).add(at), len) }
    }

    /// Writes a frame, under the same conditions as [`page`](Arena::page).
    pub(crate) fn write_page(
        &self,
        block: BlockId,
        at: usize,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) {
        assert!(at + len <= self.block_bytes);
        // SAFETY: as in `page`: the shard's lock makes this the only reference to the frame.
        write(unsafe { std::slice::from_raw_parts_mut(self.address(block).add(at), len) });
    }

    /// Starts to fetch a record at `at` of a block, as many bytes as most records have.
    pub(crate) fn prefetch(&self, block: BlockId, at: u32) {
        const LINES: usize = 3;
        if (block.0 as usize) < self.blocks.len() {
            prefetch(self.address(block).wrapping_add(at as usize), LINES);
        }
    }

    /// `len` bytes of a block from `at` on. `None` if they exceed the block. The caller is pinned as long as it uses
    /// them, saw under that pin that the block's generation holds, and reads only what was published.
    pub(crate) fn bytes(&self, block: BlockId, at: u32, len: usize) -> Option<&[u8]> {
        if at as usize + len > self.block_bytes {
            return None;
        }
        // SAFETY: in bounds. Published bytes are never written again while a pin may see them. Blocks are append-only,
        // and are reused or released only after the epochs of all pins have passed.
        Some(unsafe { std::slice::from_raw_parts(self.address(block).add(at as usize), len) })
    }
}

/// The offset of a block's first record, so that no record's offset is zero.
pub(crate) const RECORDS_BEGIN: u32 = 8;

#[cfg(test)]
mod tests {
    use super::fake::{FakeMemory, POISON};
    use super::*;

    const BLOCK: usize = 64 << 10;
    const NOW: Second = Second(2);
    const ANN: BlockOwner = BlockOwner::Items(TenantId(1));

    fn arena(blocks: usize) -> (Arena, std::sync::Arc<fake::FaultControls>) {
        let (heap, levers) = FakeMemory::new(blocks * BLOCK, BLOCK);
        let limit = Bytes((blocks * BLOCK) as u64);
        (Arena::new(Box::new(heap), BLOCK, limit), levers)
    }

    #[test]
    fn a_block_goes_round_and_what_is_given_back_leaves() {
        let (arena, levers) = arena(4);
        assert!(
            arena.allocate(ANN, 0, NOW).is_none(),
            "nothing is ready before it is populated"
        );
        assert_eq!(arena.grow(), Ok(true));
        let block = arena.allocate(ANN, 0, NOW).expect("ready");
        assert_eq!(arena.held(), 1);
        let claim = arena.claim(block, 5).expect("room");
        let at = claim.at;
        arena.fill(claim, |range| range.copy_from_slice(b"hello"));
        assert_eq!(arena.bytes(block, at, 5), Some(&b"hello"[..]));
        arena.retire(&[block]);
        arena.give_back(usize::MAX, 0);
        assert_eq!((arena.held(), arena.returned()), (0, 1));
        assert_eq!(levers.populated.load(Ordering::Relaxed), 0);
        assert_eq!(arena.bytes(block, at, 1), Some(&[POISON][..]));
    }

    #[test]
    fn a_pinned_reader_keeps_a_dropped_block_from_being_reused() {
        let (arena, _) = arena(1);
        assert_eq!(arena.grow(), Ok(true));
        let block = arena.allocate(ANN, 0, NOW).expect("ready");
        let reader = arena.epochs().enroll().expect("a slot");
        arena.epochs().pin(&reader);
        let generation = arena.block(block).generation();
        arena.drop_blocks(&[block]);
        assert_ne!(arena.block(block).generation(), generation);
        assert!(arena.allocate(ANN, 0, NOW).is_none());
        arena.give_back(1, 0);
        assert_eq!(arena.returned(), 0);
        arena.epochs().unpin(&reader);
        assert_eq!(arena.allocate(ANN, 0, NOW), Some(block));
    }

    #[test]
    fn a_worn_block_waits_for_a_sweep() {
        let (arena, _) = arena(1);
        for _ in 0..wear::UNSWEPT_MAX {
            if arena.ready() == 0 {
                assert_eq!(arena.grow(), Ok(true));
            }
            let block = arena.allocate(ANN, 0, NOW).expect("ready");
            arena.drop_blocks(&[block]);
        }
        assert!(arena.allocate(ANN, 0, NOW).is_none());
        assert_eq!(
            arena.grow(),
            Ok(false),
            "nothing is absent but the worn block"
        );
        arena.sweep_begins();
        arena.sweep_ends();
        assert_eq!(arena.grow(), Ok(true));
        assert!(arena.allocate(ANN, 0, NOW).is_some());
    }

    #[test]
    fn neighbours_leave_in_one_call() {
        let (arena, levers) = arena(8);
        while arena.grow() == Ok(true) {}
        arena.give_back(8, 0);
        assert_eq!(arena.returned(), 8);
        assert_eq!(levers.releases.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_failing_kernel_leaves_the_account_as_it_was() {
        let (arena, levers) = arena(2);
        levers.exhausted.store(true, Ordering::Relaxed);
        assert_eq!(arena.grow(), Err(KernelOutOfMemory));
        assert_eq!((arena.held(), arena.ready()), (0, 0));
        levers.exhausted.store(false, Ordering::Relaxed);
        assert_eq!(arena.grow(), Ok(true));
    }

    #[test]
    fn the_limit_binds_growth() {
        let (arena, _) = arena(4);
        arena.set_limit(Bytes(BLOCK as u64));
        assert_eq!(arena.grow(), Ok(true));
        assert_eq!(arena.grow(), Ok(false));
    }
}
