//! Gives blocks of pages back: fast, as whole blocks, or ordered, so that the coldest pages go and the others move
//! together. Persistent pages go to their spill file first.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use sublet_types::Second;

use super::PageStore;
use super::directory::Whereabouts;
use super::evict::{SweepBudget, evict};
use super::frame_source::FrameSource;
use super::rows::WriteOutcome;
use super::shard::Shard;
use super::shards_with_spare::StockLevel;
use super::tenant_pages::TenantPages;
use crate::arena::{BlockId, BlockOwner, PageKind};
use crate::engine::ReclaimCause;
use crate::eviction::PageRef;
use crate::frames::{FrameId, QueueId};
use crate::loss::Loss;
use crate::pinned_thread::PinnedThread;
use crate::release_order::{BlockOrder, ReleaseCandidate, ReleaseMethod, least_work_first};
use crate::tenants::Tenant;

/// An evacuation is worthwhile if more than this fraction of the frames is free.
const FREE_ONE_IN: u32 = 10;

/// The outcome of emptying a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptyOutcome {
    Emptied,
    /// A page could not be moved, evicted or written.
    Blocked,
}

/// How pages are moved out of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptyMode {
    /// Colder pages elsewhere are evicted, so that these find a frame.
    Evicting,
    /// They move to frames that are already free.
    Moving,
}

/// Moves pages out of a tenant's blocks. The thread is pinned and holds no lock.
pub(super) struct PageShrinker<'a> {
    pub(super) pages: &'a PageStore,
    pub(super) tenant: &'a Tenant,
    pub(super) now: Second,
    pub(super) thread: &'a dyn PinnedThread,
    pub(super) loss: Loss,
}

impl PageShrinker<'_> {
    /// Makes the tenant give up `blocks` blocks of pages, or all it has.
    pub(super) fn shrink(&mut self, blocks: u32, cause: ReclaimCause) {
        match cause {
            // A put does not wait for a disk (R-P5), or until all blocks were examined.
            ReclaimCause::Put => return self.empty_one_of_few(),
            ReclaimCause::Release(ReleaseMethod::Ordered) => {
                self.empty_all(PageKind::Ephemeral, blocks)
            }
            ReclaimCause::Release(ReleaseMethod::Whole(order)) => self.drop_whole(blocks, order),
            ReclaimCause::Floors => {}
        }
        if self.loss.blocks < blocks {
            self.empty_all(PageKind::Persistent, blocks);
        }
    }

    fn drop_whole(&mut self, blocks: u32, order: BlockOrder) {
        let (pages, tenant) = (self.pages, self.tenant);
        let mut candidates = pages.all_candidates(tenant, PageKind::Ephemeral);
        order(&mut candidates, self.thread.next_random());
        let in_order = candidates.iter().map(|candidate| candidate.block);
        let own =
            in_order.filter(|block| pages.begins_to_leave(tenant, *block, PageKind::Ephemeral));
        let leaving: Vec<BlockId> = own.take(blocks as usize).collect();
        self.count_lost(pages.drop_blocks(tenant, &leaving));
        self.loss.blocks += leaving.len() as u32;
    }

    /// Empties the blocks that cost least to empty, until `wanted` are given up.
    fn empty_all(&mut self, kind: PageKind, wanted: u32) {
        let candidates = self.pages.all_candidates(self.tenant, kind);
        self.empty_each(kind, wanted, by_work(candidates));
    }

    /// Empties one block of ephemeral pages. It chooses among the few that are known to take the least work, or from a
    /// sample if none of those can go.
    fn empty_one_of_few(&mut self) {
        let (pages, kind) = (self.pages, PageKind::Ephemeral);
        let Some(tenant_pages) = pages.existing_tenant_pages(self.tenant) else {
            return;
        };
        let list = tenant_pages.list(kind);
        self.empty_each(kind, 1, list.sparsest(&pages.arena));
        if self.loss.blocks == 0 {
            let sample = pages.as_candidates(list.sample(&pages.arena));
            self.empty_each(kind, 1, by_work(sample));
        }
    }

    /// Empties blocks one after another, until `wanted` are given up in all. Colder pages elsewhere are evicted first.
    /// Each block may leave before the next one is begun.
    fn empty_each(
        &mut self,
        kind: PageKind,
        wanted: u32,
        blocks: impl IntoIterator<Item = BlockId>,
    ) {
        let pages = self.pages;
        for block in blocks {
            if self.loss.blocks >= wanted {
                break;
            }
            let emptied = self.empty(block, kind, EmptyMode::Evicting);
            self.loss.blocks += u32::from(emptied == EmptyOutcome::Emptied);
            self.thread.run_unpinned(&mut || pages.arena.drain_limbo());
        }
    }

    /// Moves the pages of nearly empty blocks together, if the tenant has more free frames than a tenth and a block. It
    /// takes one block of each kind per call. Returns whether there may be more to do.
    pub(super) fn evacuate(&mut self) -> bool {
        let mut more = false;
        for kind in PageKind::ALL {
            if let Some(block) = self.pages.sparsest_of_all(self.tenant, kind) {
                let emptied = self.empty(block, kind, EmptyMode::Moving) == EmptyOutcome::Emptied;
                let evacuated = &self.pages.evacuated;
                evacuated.fetch_add(u32::from(emptied), Ordering::Relaxed);
                more |= emptied;
            }
        }
        more
    }

    /// Moves every page out of a block, then gives the block up.
    fn empty(&mut self, block: BlockId, kind: PageKind, how: EmptyMode) -> EmptyOutcome {
        let (pages, tenant) = (self.pages, self.tenant);
        if !pages.begins_to_leave(tenant, block, kind) {
            return EmptyOutcome::Blocked;
        }
        pages.tenant_pages(tenant).close_block(kind, block);
        for frame in pages.frames.of_block(block) {
            let emptied = match kind {
                PageKind::Ephemeral => self.empty_frame(frame, how),
                PageKind::Persistent => self.spill_frame(frame, how),
            };
            if emptied == EmptyOutcome::Blocked {
                break;
            }
        }
        pages.give_up(tenant, block, kind)
    }

    fn count_lost(&mut self, pages: u64) {
        self.loss.pages += pages;
        self.loss.bytes += pages * self.pages.page_bytes() as u64;
    }

    fn count_kept(&mut self) {
        self.loss.bytes_kept += self.pages.page_bytes() as u64;
    }

    /// Moves the page out of a frame, to another frame or out of the store.
    fn empty_frame(&mut self, frame: FrameId, how: EmptyMode) -> EmptyOutcome {
        let pages = self.pages;
        let Some(mut shard) = pages.lock_live(pages.tenant_pages(self.tenant), frame) else {
            return EmptyOutcome::Emptied;
        };
        while pages.frames.get(frame).is_live() {
            let before = shard.tally.evictions.get();
            let free = self.free_frame(&mut shard, PageKind::Ephemeral);
            let to = match (free, how) {
                (Some(free), _) => Some(free),
                (None, EmptyMode::Moving) => return EmptyOutcome::Blocked,
                (None, EmptyMode::Evicting) => {
                    let patience = &mut SweepBudget::unlimited();
                    let evicted = evict(pages, self.tenant, &mut shard, self.now, patience);
                    evicted.inspect(|frame| pages.lose(*frame))
                }
            };
            self.count_lost(shard.tally.evictions.get() - before);
            match to {
                // The page that was evicted for it may have been this very page.
                Some(to) if pages.frames.get(frame).is_live() => {
                    pages.move_page(&mut shard, frame, to, self.now);
                    self.count_kept();
                }
                Some(to) => shard.push_free(&pages.frames, to, PageKind::Ephemeral),
                None if pages.frames.get(frame).is_live() => return EmptyOutcome::Blocked,
                None => {}
            }
        }
        EmptyOutcome::Emptied
    }

    /// A free frame in a block that stays, of this shard or of one that has some to spare.
    fn free_frame(&self, shard: &mut Shard, kind: PageKind) -> Option<FrameId> {
        let (pages, patience) = (self.pages, &mut SweepBudget::unlimited());
        let own = pages.free_frame(self.tenant, shard, kind, patience);
        own.or_else(|| {
            let spare = (StockLevel::Spare, kind);
            match pages.borrow_frames(self.tenant, shard, spare, patience) {
                Some(FrameSource::Tenant(spare)) => Some(spare.frame()),
                _ => None,
            }
        })
    }

    /// Moves a persistent page out of a frame: to another frame, or else to disk. A client that keeps rewriting the
    /// page keeps it here.
    fn spill_frame(&mut self, frame: FrameId, how: EmptyMode) -> EmptyOutcome {
        let pages = self.pages;
        for _ in 0..SPILLS_MAX {
            let Some(mut shard) = pages.lock_live(pages.tenant_pages(self.tenant), frame) else {
                return EmptyOutcome::Emptied;
            };
            if let Some(to) = self.free_frame(&mut shard, PageKind::Persistent) {
                pages.move_kept(&mut shard, frame, to);
                self.count_kept();
            } else if how == EmptyMode::Moving {
                return EmptyOutcome::Blocked;
            } else {
                match self.spill(shard, frame) {
                    SpillOutcome::Spilled => self.count_kept(),
                    SpillOutcome::Again => {}
                    SpillOutcome::Refused => return EmptyOutcome::Blocked,
                }
            }
        }
        EmptyOutcome::Blocked
    }

    /// Writes a persistent page to its slot, and frees its frame if nobody changed the page meanwhile. While the disk
    /// writes, the shard is not locked and no block is held back.
    fn spill(&self, mut shard: MutexGuard<'_, Shard>, frame: FrameId) -> SpillOutcome {
        let pages = self.pages;
        let facts = pages.frames.get(frame);
        let (key, number) = (facts.key(), facts.note());
        let Some(space) = pages.pools.space(key.pool) else {
            return SpillOutcome::Refused;
        };
        let Some(write) = shard.rows.begin_write(number) else {
            // Another thread is writing it. Look again when that has ended.
            drop(shard);
            self.thread.run_unpinned(&mut std::thread::yield_now);
            return SpillOutcome::Again;
        };
        let page = pages.bytes(frame).to_vec();
        let mut wrote = Ok(());
        MutexGuard::unlocked(&mut shard, || {
            self.thread
                .run_unpinned(&mut || wrote = space.spill.write(write.slot, &page));
        });
        match shard.rows.finish_write(number, write) {
            WriteOutcome::Doomed(slot) => space.give_back(slot),
            WriteOutcome::Current if wrote.is_ok() => {
                pages.leave_on_disk(self.tenant, &mut shard, number);
                return SpillOutcome::Spilled;
            }
            WriteOutcome::Current | WriteOutcome::Outdated => {}
        }
        match wrote {
            Ok(()) => SpillOutcome::Again,
            Err(_) => SpillOutcome::Refused,
        }
    }
}

/// Sorts blocks by the work that emptying them takes, least first.
fn by_work(mut candidates: Vec<ReleaseCandidate>) -> impl Iterator<Item = BlockId> {
    least_work_first(&mut candidates);
    candidates.into_iter().map(|candidate| candidate.block)
}

/// Attempts to write one page that a client keeps rewriting.
const SPILLS_MAX: u32 = 8;

/// The outcome of writing a page to its slot.
enum SpillOutcome {
    /// It is on disk, and its frame is free.
    Spilled,
    /// It was changed meanwhile.
    Again,
    /// The disk refused it.
    Refused,
}

impl PageStore {
    /// Claims a block of a tenant's pages, to empty or drop it. False if another thread did, or if it is no longer the
    /// tenant's.
    fn begins_to_leave(&self, tenant: &Tenant, block: BlockId, kind: PageKind) -> bool {
        self.arena.block(block).begin_leaving(tenant.id, kind)
    }

    fn live(&self, block: BlockId) -> u32 {
        self.arena.block(block).live_items()
    }

    /// A tenant's blocks of a kind, as a release sees them.
    fn all_candidates(&self, tenant: &Tenant, kind: PageKind) -> Vec<ReleaseCandidate> {
        self.as_candidates(self.all_blocks_of_kind(tenant, kind))
    }

    fn as_candidates(&self, blocks: Vec<BlockId>) -> Vec<ReleaseCandidate> {
        let candidate = |block| ReleaseCandidate::new(&self.arena, block, self.live(block));
        blocks.into_iter().map(candidate).collect()
    }

    /// The least filled block of a kind, if a tenant has more free frames than a tenth and a block. It is for the
    /// chores, because it may walk through all blocks.
    fn sparsest_of_all(&self, tenant: &Tenant, kind: PageKind) -> Option<BlockId> {
        let (tenant_pages, per_block) =
            (self.existing_tenant_pages(tenant)?, self.frames.per_block());
        let held = tenant_pages.blocks(kind) * per_block;
        let frames = PageKind::ALL.map(|kind| u64::from(tenant_pages.blocks(kind) * per_block));
        let free = frames.iter().sum::<u64>();
        let free = free.saturating_sub(self.arena.live_totals(tenant.id).pages);
        if held <= per_block || free <= u64::from(held / FREE_ONE_IN + per_block) {
            return None;
        }
        let live = |block: &BlockId| self.live(*block);
        let blocks = self.all_blocks_of_kind(tenant, kind);
        let sum: u32 = blocks.iter().map(live).sum();
        let too_many = held.saturating_sub(sum) > held / FREE_ONE_IN + per_block;
        let sparsest = blocks.into_iter().min_by_key(live);
        sparsest.filter(|_| too_many)
    }

    /// Gives up a block if every page was moved out of it. Otherwise its frames are used again.
    fn give_up(&self, tenant: &Tenant, block: BlockId, kind: PageKind) -> EmptyOutcome {
        let tenant_pages = self.tenant_pages(tenant);
        // With all shards locked, in order, no page comes in or is on its way.
        let mut shards: Vec<MutexGuard<'_, Shard>> = tenant_pages
            .shards()
            .iter()
            .map(|shard| shard.lock())
            .collect();
        let facts = self.arena.block(block);
        if facts.owner() != BlockOwner::Pages(tenant.id, kind) {
            return EmptyOutcome::Blocked; // dropped meanwhile
        }
        let stays = self.live(block) > 0;
        for frame in self.frames.of_block(block) {
            let facts = self.frames.get(frame);
            let shard = &mut shards[usize::from(facts.shard())];
            match facts.queue() {
                QueueId::FREE if !stays => shard.remove_free(&self.frames, frame, kind),
                QueueId::NONE if stays => shard.push_free(&self.frames, frame, kind),
                _ => {}
            }
        }
        if stays {
            facts.cancel_leaving();
            return EmptyOutcome::Blocked;
        }
        self.remove_block(tenant, kind, block);
        self.arena.retire(&[block]);
        EmptyOutcome::Emptied
    }

    /// The locked shard of a frame, if a page lives in the frame.
    fn lock_live<'a>(
        &self,
        tenant_pages: &'a TenantPages,
        frame: FrameId,
    ) -> Option<MutexGuard<'a, Shard>> {
        let shard = self.lock_shard_of(tenant_pages, frame);
        self.frames.get(frame).is_live().then_some(shard)
    }

    /// The locked shard that a frame belongs to. While it is held, no other thread moves the frame from one queue to
    /// another.
    pub(super) fn lock_shard_of<'a>(
        &self,
        tenant_pages: &'a TenantPages,
        frame: FrameId,
    ) -> MutexGuard<'a, Shard> {
        let facts = self.frames.get(frame);
        loop {
            let number = facts.shard();
            let shard = tenant_pages.shards()[usize::from(number)].lock();
            if facts.shard() == number {
                return shard;
            }
        }
    }

    /// Moves an ephemeral page to a free frame. Its own frame is in no queue afterwards.
    fn move_page(&self, shard: &mut Shard, from: FrameId, to: FrameId, now: Second) {
        let (old, new) = (self.frames.get(from), self.frames.get(to));
        let key = old.key();
        let object = self.seed.object(key.pool, key.object);
        self.copy(from, to);
        new.set_hits(old.hits());
        new.set_stamp(old.stamp());
        new.set_note(old.note());
        let (from_here, to_there) = (Whereabouts::Here(from), Whereabouts::Here(to));
        shard.set(&self.frames, object, key, from_here, to_there);
        new.set_key(key);
        new.set_pattern(old.pattern());
        let page = PageRef {
            frames: &self.frames,
            frame: from,
            hash: self.seed.page_of(object, key.index),
            now,
        };
        shard.eviction.relocate(page, to);
        self.count_move(from, to);
    }

    fn copy(&self, from: FrameId, to: FrameId) {
        let page = self.bytes(from);
        self.write(to, |bytes| bytes.copy_from_slice(page));
    }

    fn count_move(&self, from: FrameId, to: FrameId) {
        self.lose(from);
        self.gain(to, 1);
    }

    fn move_kept(&self, shard: &mut Shard, from: FrameId, to: FrameId) {
        let (old, new) = (self.frames.get(from), self.frames.get(to));
        let key = old.key();
        let object = self.seed.object(key.pool, key.object);
        self.copy(from, to);
        new.set_note(old.note());
        let (from_here, to_there) = (Whereabouts::Here(from), Whereabouts::Here(to));
        shard.set(&self.frames, object, key, from_here, to_there);
        new.set_key(key);
        shard.kept.replace(&self.frames, from, to);
        self.count_move(from, to);
    }

    /// Frees the frame of a persistent page that is on disk now.
    fn leave_on_disk(&self, tenant: &Tenant, shard: &mut Shard, number: u32) {
        let key = shard.rows.key(number);
        let object = self.seed.object(key.pool, key.object);
        // The page may have been moved to another frame meanwhile.
        let Some(Whereabouts::Here(frame)) = shard.find(&self.frames, object, key) else {
            return;
        };
        let (here, on_disk) = (Whereabouts::Here(frame), Whereabouts::Row(number));
        shard.set(&self.frames, object, key, here, on_disk);
        shard.kept.remove(&self.frames, frame);
        shard.tally.spilled.bump();
        self.lose(frame);
        let block = self.arena.block(self.frames.block(frame));
        if block.is_of_pages(tenant.id, PageKind::Persistent) {
            self.free(shard, frame, PageKind::Persistent);
        }
    }
}
