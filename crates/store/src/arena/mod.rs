//! The arena: all memory that the daemon holds, in blocks.
//!
//! One reserved range is cut into blocks of one size (2 MiB; tests take smaller ones). A block is
//! absent, ready on the free list, owned, or in limbo until the last reader that may see it has left.
//! Memory moves between the kernel and the arena by whole blocks only, so that a release costs a few
//! madvise calls whatever the blocks hold.

#![allow(unsafe_code)]

mod blank;
mod block;
mod block_list;
mod block_queue;
mod census;
mod epochs;
mod least;
mod memory;
mod prefetch;
mod wear;
mod words;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::{Bytes, Second, TenantId};

use crate::api::TENANTS_MAX;

pub use blank::Blank;
pub(crate) use blank::land;
pub(crate) use block::{Block, BlockId, Claimant, GENERATION_BITS, Lives, PageKind};
pub(crate) use block_list::BlockList;
use block_list::Link;
pub(crate) use block_queue::BlockQueue;
use census::Census;
pub(crate) use census::Living;
pub(crate) use epochs::PinSlot;
use epochs::{Epoch, Epochs};
#[cfg(any(test, feature = "fake"))]
pub use memory::fake;
pub use memory::{Exhausted, Mapped, Memory};
pub(crate) use prefetch::{Line, Wanted, claim, prefetch};
use wear::Wear;
pub(crate) use words::{ROW, Words};

/// How far ahead of use the arena is populated, bytes.
const AHEAD_MAX: u64 = 64 << 20;

/// Below so many blocks an arena keeps a smaller reserve: every block counts.
const SMALL_ARENA_BLOCKS: u32 = 64;

/// The memory that the daemon holds.
pub(crate) struct Arena {
    memory: Box<dyn Memory>,
    block_bytes: usize,
    blocks: Box<[Block]>,
    /// Each block's place in the list that it is in.
    links: Box<[Link]>,
    census: Census,
    epochs: Epochs,
    stock: Mutex<Stock>,
    wear: Mutex<Wear>,
    /// Blocks that may be held.
    limit: AtomicU32,
    /// Blocks backed by memory: owned, ready and in limbo.
    held: AtomicU32,
    ready: AtomicU32,
    limbo: AtomicU32,
    /// Blocks given back to the kernel since the start.
    left: AtomicU64,
    sequence: AtomicU64,
    /// Bytes written to it, nearly: the clock by which ages are compared.
    written: AtomicU64,
}

/// Blocks that nobody owns.
struct Stock {
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
pub(crate) struct Claim {
    pub(crate) block: BlockId,
    pub(crate) at: u32,
    len: u32,
    /// Of the block, when the claim was made: if the block is dropped meanwhile, what is written is lost.
    pub(crate) generation: u32,
}

impl Arena {
    pub(crate) fn new(memory: Box<dyn Memory>, block_bytes: usize, limit: Bytes) -> Arena {
        let count = memory.len() / block_bytes;
        let arena = Arena {
            memory,
            block_bytes,
            blocks: (0..count).map(|_| Block::nobodys()).collect(),
            links: (0..count).map(|_| Link::default()).collect(),
            census: Census::new(TENANTS_MAX),
            epochs: Epochs::new(),
            stock: Mutex::new(Stock {
                ready: Vec::new(),
                absent: (0..count as u32).rev().map(BlockId).collect(),
                limbo: VecDeque::new(),
                worn: Vec::new(),
            }),
            wear: Mutex::new(Wear::new(count)),
            limit: AtomicU32::new(0),
            held: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            limbo: AtomicU32::new(0),
            left: AtomicU64::new(0),
            sequence: AtomicU64::new(1),
            written: AtomicU64::new(0),
        };
        arena.set_limit(limit);
        arena
    }

    /// Keeps what it holds off the host's swap.
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

    /// Lets past hits of all blocks count half.
    pub(crate) fn cool_all(&self) {
        self.blocks.iter().for_each(Block::cool);
    }

    pub(crate) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Blocks that may be held.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, limit: Bytes) {
        let blocks = (limit.0 / self.block_bytes as u64).min(self.blocks.len() as u64);
        self.limit.store(blocks as u32, Ordering::Relaxed);
    }

    /// Blocks of the free list that only eviction and the index may take, so that they always can.
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
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Whether the arena may hold more than it does.
    pub(crate) fn may_grow(&self) -> bool {
        self.held() < self.limit()
    }

    /// Bytes that were written to it so far: segments when they are opened, pages some at a time.
    pub(crate) fn clock(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Hears that so many bytes more were written.
    pub(crate) fn advance(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of the next segment to be opened.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.load(Ordering::SeqCst)
    }

    /// A block from the free list, opened for `owner`. The last `spare` blocks of the list are left for
    /// others.
    pub(crate) fn take(&self, owner: Claimant, spare: usize, now: Second) -> Option<BlockId> {
        let block = {
            let mut stock = self.stock.lock();
            if stock.ready.len() <= spare {
                self.reclaim(&mut stock);
            }
            if stock.ready.len() <= spare {
                return None;
            }
            let block = stock.ready.pop()?;
            self.ready
                .store(stock.ready.len() as u32, Ordering::Relaxed);
            block
        };
        let sequence = self.sequence.fetch_add(1, Ordering::SeqCst);
        self.block(block).open(owner, sequence, now);
        if matches!(owner, Claimant::Tenant(_)) {
            self.advance(self.block_bytes as u64);
        }
        let born = self.clock();
        self.block(block).born.store(born, Ordering::Relaxed);
        Some(block)
    }

    /// Has the kernel back one more block, if the limit allows it. Says whether it did.
    pub(crate) fn grow(&self) -> Result<bool, Exhausted> {
        let may = |held: u32| (held < self.limit()).then_some(held + 1);
        if self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, may)
            .is_err()
        {
            return Ok(false);
        }
        let Some(block) = self.stock.lock().absent.pop() else {
            self.held.fetch_sub(1, Ordering::AcqRel);
            return Ok(false);
        };
        let populated = self.memory.populate(self.offset(block), self.block_bytes);
        let mut stock = self.stock.lock();
        if let Err(exhausted) = populated {
            stock.absent.push(block);
            self.held.fetch_sub(1, Ordering::AcqRel);
            return Err(exhausted);
        }
        stock.ready.push(block);
        self.ready
            .store(stock.ready.len() as u32, Ordering::Relaxed);
        Ok(true)
    }

    /// One block more ahead of use, if there are fewer than 64 MiB of them. Says whether to go on.
    pub(crate) fn populate_ahead(&self) -> bool {
        let ahead = u64::from(self.ready()) * self.block_bytes as u64;
        ahead < AHEAD_MAX && matches!(self.grow(), Ok(true))
    }

    /// Hears that no more claims are made in a block.
    pub(crate) fn close(&self, block: BlockId) {
        let epoch = self.epochs.advance();
        self.block(block).closed.store(epoch.0, Ordering::Release);
    }

    /// Whether all that was claimed in a block is written and published, as far as others than `me` go.
    pub(crate) fn is_complete(&self, block: BlockId, me: &PinSlot) -> bool {
        Epoch(self.block(block).closed.load(Ordering::Acquire)) <= self.epochs.oldest_but(me)
    }

    /// Takes in blocks that nothing refers to any more. They are reused once their last reader left.
    pub(crate) fn retire(&self, blocks: &[BlockId]) {
        if blocks.is_empty() {
            return;
        }
        for block in blocks {
            self.block(*block).disown();
        }
        let epoch = self.epochs.advance();
        let mut stock = self.stock.lock();
        stock
            .limbo
            .extend(blocks.iter().map(|block| (epoch, *block)));
        self.reclaim(&mut stock);
    }

    /// Drops blocks with all that they hold, in constant time for each, and takes them in. Returns the items and
    /// bytes that were lost.
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

    /// What lives in a tenant's blocks, now.
    pub(crate) fn living(&self, tenant: TenantId) -> Living {
        self.census.living(tenant)
    }

    /// Counts a live record of a block. The caller is pinned.
    pub(crate) fn gain(&self, block: BlockId, lives: Lives) {
        let facts = self.block(block);
        facts.gain(lives);
        if let Some(tenant) = facts.account() {
            self.census.gain(tenant, lives, block.0 as usize);
        }
    }

    /// Counts a record of a block that lives no longer. The caller is pinned and saw the slot's generation hold.
    pub(crate) fn lose(&self, block: BlockId, lives: Lives) {
        let facts = self.block(block);
        if facts.lose(lives)
            && let Some(tenant) = facts.account()
        {
            self.census.lose(tenant, lives, block.0 as usize);
        }
    }

    /// Counts pages that came into a block. `spread` differs from thread to thread, as far as that can be. The caller is pinned.
    pub(crate) fn gain_pages(&self, block: BlockId, pages: u32, spread: usize) {
        let facts = self.block(block);
        facts.gain(Lives::pages(pages));
        if let Some(tenant) = facts.account() {
            self.census.gain_pages(tenant, pages, spread);
        }
    }

    /// Counts a page that left a block. The caller is pinned and holds the lock of the page's shard.
    pub(crate) fn lose_page(&self, block: BlockId, spread: usize) {
        let facts = self.block(block);
        if facts.lose(Lives::pages(1))
            && let Some(tenant) = facts.account()
        {
            self.census.lose_pages(tenant, 1, spread);
        }
    }

    /// Counts nothing of a block as live any more. Says what was.
    pub(crate) fn lose_all(&self, block: BlockId) -> Lives {
        let facts = self.block(block);
        let lives = facts.lose_all();
        if let Some(tenant) = facts.account() {
            match facts.has_pages() {
                true => self.census.lose_pages(tenant, lives.items, 0),
                false => self.census.lose(tenant, lives, 0),
            }
        }
        lives
    }

    /// Blocks that are retired and not yet ready.
    pub(crate) fn in_limbo(&self) -> usize {
        self.limbo.load(Ordering::Relaxed) as usize
    }

    /// Holds what whoever takes or gives a block holds.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        self.stock.lock()
    }

    /// Moves what is past its epoch from limbo to the free list.
    pub(crate) fn settle(&self) {
        self.reclaim(&mut self.stock.lock());
    }

    fn reclaim(&self, stock: &mut Stock) {
        let oldest = self.epochs.oldest();
        while let Some(&(epoch, block)) = stock.limbo.front() {
            if epoch > oldest {
                break;
            }
            stock.limbo.pop_front();
            // Who saw it as another's, and came too late, has left: what that one counted since is nobody's now.
            self.lose_all(block);
            if self.wear.lock().is_worn(block) {
                self.part_with(block, 1);
                stock.worn.push(block);
            } else {
                stock.ready.push(block);
            }
        }
        self.ready
            .store(stock.ready.len() as u32, Ordering::Relaxed);
        self.limbo
            .store(stock.limbo.len() as u32, Ordering::Relaxed);
    }

    fn part_with(&self, first: BlockId, count: usize) {
        self.memory
            .release(self.offset(first), count * self.block_bytes);
        self.held.fetch_sub(count as u32, Ordering::AcqRel);
        self.left.fetch_add(count as u64, Ordering::AcqRel);
    }

    /// Gives up to `most` blocks of the free list but for `spare` back to the kernel, neighbours in one
    /// call.
    pub(crate) fn give_back(&self, most: usize, spare: usize) {
        let mut leaving = {
            let mut stock = self.stock.lock();
            self.reclaim(&mut stock);
            let keep = stock.ready.len() - most.min(stock.ready.len().saturating_sub(spare));
            let leaving = stock.ready.split_off(keep);
            self.ready.store(keep as u32, Ordering::Relaxed);
            leaving
        };
        leaving.sort_unstable();
        for run in leaving.chunk_by(|a, b| a.0 + 1 == b.0) {
            self.part_with(run[0], run.len());
        }
        // The lowest addresses are used first again, so that what is held stays together.
        let mut stock = self.stock.lock();
        stock.absent.extend(leaving.iter().rev());
    }

    pub(crate) fn sweep_begins(&self) {
        self.wear.lock().sweep_begins();
    }

    pub(crate) fn sweep_ends(&self) {
        let mut stock = self.stock.lock();
        let mut wear = self.wear.lock();
        wear.sweep_ends();
        let worn = std::mem::take(&mut stock.worn);
        let (still, fresh): (Vec<_>, Vec<_>) = worn.into_iter().partition(|b| wear.is_worn(*b));
        stock.worn = still;
        stock.absent.extend(fresh);
    }

    fn offset(&self, block: BlockId) -> usize {
        block.0 as usize * self.block_bytes
    }

    /// Where a block begins. For the hash index, which keeps atomics in its blocks.
    pub(crate) fn address(&self, block: BlockId) -> *mut u8 {
        assert!((block.0 as usize) < self.blocks.len());
        // SAFETY: inside the range by the assertion.
        unsafe { self.memory.base().as_ptr().add(self.offset(block)) }
    }

    /// The next `len` bytes of an open block; `None` if they do not fit. The caller holds the lock of
    /// the block's class, so that claims never overlap.
    pub(crate) fn claim(&self, block: BlockId, len: u32) -> Option<Claim> {
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
        Some(Claim {
            block,
            at,
            len,
            generation: self.block(block).generation(),
        })
    }

    /// Writes the claimed range. The claim is used up: each range is written once.
    pub(crate) fn fill(&self, claim: Claim, write: impl FnOnce(&mut [u8])) {
        assert!(claim.at as usize + claim.len as usize <= self.block_bytes);
        // SAFETY: in bounds by the assertion. Nobody else writes it, since a claim is made once and
        // claims do not overlap; nobody reads it, since it is not published yet.
        let range = unsafe {
            std::slice::from_raw_parts_mut(
                self.address(claim.block).add(claim.at as usize),
                claim.len as usize,
            )
        };
        write(range);
    }

    /// A frame's bytes: `len` from `at` on in a block of pages. The caller is pinned, saw under that pin that the
    /// block is its tenant's, and holds the lock of the shard that the frame belongs to, so that nobody writes it
    /// meanwhile.
    pub(crate) fn page(&self, block: BlockId, at: usize, len: usize) -> &[u8] {
        assert!(at + len <= self.block_bytes);
        // SAFETY: in bounds by the assertion. A frame is read and written under its shard's lock only, and
        // its block is not reused or released while the pin lasts.
        unsafe { std::slice::from_raw_parts(self.address(block).add(at), len) }
    }

    /// Writes a frame; as for [`page`](Arena::page).
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

    /// Starts fetching what lies at `at` of a block, as far as most records go.
    pub(crate) fn expect(&self, block: BlockId, at: u32) {
        const LINES: usize = 3;
        if (block.0 as usize) < self.blocks.len() {
            prefetch(self.address(block).wrapping_add(at as usize), LINES);
        }
    }

    /// `len` bytes of a block from `at`; `None` where they would not lie in it. The caller is pinned for
    /// as long as it uses them, saw under that pin that the block's generation holds, and reads only
    /// what was published.
    pub(crate) fn bytes(&self, block: BlockId, at: u32, len: usize) -> Option<&[u8]> {
        if at as usize + len > self.block_bytes {
            return None;
        }
        // SAFETY: in bounds. Published bytes are never written again while a pin may see them: blocks
        // are append-only, and are reused or released only after the epochs of all pins have passed.
        Some(unsafe { std::slice::from_raw_parts(self.address(block).add(at as usize), len) })
    }
}

/// Where the first record of a block begins, so that no record's place is zero.
pub(crate) const RECORDS_BEGIN: u32 = 8;

#[cfg(test)]
mod tests {
    use super::fake::{Heap, POISON};
    use super::*;

    const BLOCK: usize = 64 << 10;
    const NOW: Second = Second(2);
    const ANN: Claimant = Claimant::Tenant(TenantId(1));

    fn arena(blocks: usize) -> (Arena, std::sync::Arc<fake::Levers>) {
        let (heap, levers) = Heap::new(blocks * BLOCK, BLOCK);
        let limit = Bytes((blocks * BLOCK) as u64);
        (Arena::new(Box::new(heap), BLOCK, limit), levers)
    }

    #[test]
    fn a_block_goes_round_and_what_is_given_back_leaves() {
        let (arena, levers) = arena(4);
        assert!(
            arena.take(ANN, 0, NOW).is_none(),
            "nothing is ready before it is populated"
        );
        assert_eq!(arena.grow(), Ok(true));
        let block = arena.take(ANN, 0, NOW).expect("ready");
        assert_eq!(arena.held(), 1);
        let claim = arena.claim(block, 5).expect("room");
        let at = claim.at;
        arena.fill(claim, |range| range.copy_from_slice(b"hello"));
        assert_eq!(arena.bytes(block, at, 5), Some(&b"hello"[..]));
        arena.retire(&[block]);
        arena.give_back(usize::MAX, 0);
        assert_eq!((arena.held(), arena.left()), (0, 1));
        assert_eq!(levers.populated.load(Ordering::Relaxed), 0);
        assert_eq!(arena.bytes(block, at, 1), Some(&[POISON][..]));
    }

    #[test]
    fn a_pinned_reader_keeps_a_dropped_block_from_being_reused() {
        let (arena, _) = arena(1);
        assert_eq!(arena.grow(), Ok(true));
        let block = arena.take(ANN, 0, NOW).expect("ready");
        let reader = arena.epochs().enroll().expect("a slot");
        arena.epochs().pin(&reader);
        let generation = arena.block(block).generation();
        arena.drop_blocks(&[block]);
        assert_ne!(arena.block(block).generation(), generation);
        assert!(arena.take(ANN, 0, NOW).is_none());
        arena.give_back(1, 0);
        assert_eq!(arena.left(), 0);
        arena.epochs().unpin(&reader);
        assert_eq!(arena.take(ANN, 0, NOW), Some(block));
    }

    #[test]
    fn a_worn_block_waits_for_a_sweep() {
        let (arena, _) = arena(1);
        for _ in 0..wear::UNSWEPT_MAX {
            if arena.ready() == 0 {
                assert_eq!(arena.grow(), Ok(true));
            }
            let block = arena.take(ANN, 0, NOW).expect("ready");
            arena.drop_blocks(&[block]);
        }
        assert!(arena.take(ANN, 0, NOW).is_none());
        assert_eq!(
            arena.grow(),
            Ok(false),
            "nothing is absent but the worn block"
        );
        arena.sweep_begins();
        arena.sweep_ends();
        assert_eq!(arena.grow(), Ok(true));
        assert!(arena.take(ANN, 0, NOW).is_some());
    }

    #[test]
    fn neighbours_leave_in_one_call() {
        let (arena, levers) = arena(8);
        while arena.grow() == Ok(true) {}
        arena.give_back(8, 0);
        assert_eq!(arena.left(), 8);
        assert_eq!(levers.releases.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_failing_kernel_leaves_the_account_as_it_was() {
        let (arena, levers) = arena(2);
        levers.exhausted.store(true, Ordering::Relaxed);
        assert_eq!(arena.grow(), Err(Exhausted));
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
