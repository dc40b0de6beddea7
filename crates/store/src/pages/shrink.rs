//! Giving blocks of pages back: fast, where whole blocks go, and ordered, where the coldest pages go and the
//! others move together. Persistent pages go to their spill file first.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use sublet_types::Second;

use super::Pages;
use super::directory::Whereabouts;
use super::evict::{Patience, evict};
use super::frame_source::FrameSource;
use super::holdings::Holdings;
use super::rows::Written;
use super::shard::Shard;
use super::shards_with_spare::Stock;
use crate::arena::{BlockId, Claimant, PageKind};
use crate::engine::Cause;
use crate::eviction::Page;
use crate::frames::{FrameId, QueueId};
use crate::loss::Loss;
use crate::release_order::{BlockOrder, Candidate, Way, least_work_first};
use crate::tenants::Tenant;
use crate::thread::Thread;

/// Free frames beyond one in so many are worth an evacuation.
const FREE_ONE_IN: u32 = 10;

/// What emptying a block came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Emptied {
    Yes,
    /// A page could not be moved, evicted or written.
    No,
}

/// How the pages of a block are got out of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Emptying {
    /// Colder pages elsewhere go, so that these find a place.
    Evicting,
    /// They move to frames that are free already.
    Moving,
}

/// Getting pages out of a tenant's blocks. The thread is pinned and holds no lock.
pub(super) struct Clearing<'a> {
    pub(super) pages: &'a Pages,
    pub(super) tenant: &'a Tenant,
    pub(super) now: Second,
    pub(super) thread: &'a dyn Thread,
    pub(super) loss: Loss,
}

impl Clearing<'_> {
    /// Makes the tenant give up `blocks` blocks of pages, or all it has.
    pub(super) fn shrink(&mut self, blocks: u32, cause: Cause) {
        match cause {
            // A put waits for no disk (R-P5), nor until all blocks were looked at.
            Cause::Put => return self.empty_one_of_few(),
            Cause::Release(Way::Ordered) => self.empty_all(PageKind::Ephemeral, blocks),
            Cause::Release(Way::Whole(order)) => self.drop_whole(blocks, order),
            Cause::Floors => {}
        }
        if self.loss.blocks < blocks {
            self.empty_all(PageKind::Persistent, blocks);
        }
    }

    fn drop_whole(&mut self, blocks: u32, order: BlockOrder) {
        let (pages, tenant) = (self.pages, self.tenant);
        let mut candidates = pages.all_candidates(tenant, PageKind::Ephemeral);
        order(&mut candidates, self.thread.luck());
        let in_order = candidates.iter().map(|candidate| candidate.block);
        let own =
            in_order.filter(|block| pages.begins_to_leave(tenant, *block, PageKind::Ephemeral));
        let leaving: Vec<BlockId> = own.take(blocks as usize).collect();
        self.note_lost(pages.drop_blocks(tenant, &leaving));
        self.loss.blocks += leaving.len() as u32;
    }

    /// Empties blocks, of all those that cost least to empty, until `wanted` are given up.
    fn empty_all(&mut self, kind: PageKind, wanted: u32) {
        let candidates = self.pages.all_candidates(self.tenant, kind);
        self.empty_each(kind, wanted, by_work(candidates));
    }

    /// Empties one block of ephemeral pages: of the few that are known to need least work, or, where none of those can go, of a sample.
    fn empty_one_of_few(&mut self) {
        let (pages, kind) = (self.pages, PageKind::Ephemeral);
        let Some(holdings) = pages.known(self.tenant) else {
            return;
        };
        let list = holdings.list(kind);
        self.empty_each(kind, 1, list.sparsest(&pages.arena));
        if self.loss.blocks == 0 {
            let sample = pages.as_candidates(list.sample(&pages.arena));
            self.empty_each(kind, 1, by_work(sample));
        }
    }

    /// Empties blocks one after another, until `wanted` are given up in all; what is colder elsewhere goes first. Each block may leave
    /// before the next one is begun.
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
            let emptied = self.empty(block, kind, Emptying::Evicting);
            self.loss.blocks += u32::from(emptied == Emptied::Yes);
            self.thread.aside(&mut || pages.arena.settle());
        }
    }

    /// Moves the pages of nearly empty blocks together where the tenant has more free frames than a tenth and a block.
    /// One block of each kind a call; says whether there may be more to do.
    pub(super) fn evacuate(&mut self) -> bool {
        let mut more = false;
        for kind in PageKind::ALL {
            if let Some(block) = self.pages.sparsest_of_all(self.tenant, kind) {
                let emptied = self.empty(block, kind, Emptying::Moving) == Emptied::Yes;
                let evacuated = &self.pages.evacuated;
                evacuated.fetch_add(u32::from(emptied), Ordering::Relaxed);
                more |= emptied;
            }
        }
        more
    }

    /// Gets every page out of a block, then gives the block up.
    fn empty(&mut self, block: BlockId, kind: PageKind, how: Emptying) -> Emptied {
        let (pages, tenant) = (self.pages, self.tenant);
        if !pages.begins_to_leave(tenant, block, kind) {
            return Emptied::No;
        }
        pages.holdings(tenant).close(kind, block);
        for frame in pages.frames.of_block(block) {
            let emptied = match kind {
                PageKind::Ephemeral => self.empty_frame(frame, how),
                PageKind::Persistent => self.spill_frame(frame, how),
            };
            if emptied == Emptied::No {
                break;
            }
        }
        pages.give_up(tenant, block, kind)
    }

    fn note_lost(&mut self, pages: u64) {
        self.loss.pages += pages;
        self.loss.bytes += pages * self.pages.page_bytes() as u64;
    }

    fn note_kept(&mut self) {
        self.loss.bytes_kept += self.pages.page_bytes() as u64;
    }

    /// Gets the page out of a frame, to another frame or out of the store.
    fn empty_frame(&mut self, frame: FrameId, how: Emptying) -> Emptied {
        let pages = self.pages;
        let Some(mut shard) = pages.lock_live(pages.holdings(self.tenant), frame) else {
            return Emptied::Yes;
        };
        while pages.frames.get(frame).is_live() {
            let before = shard.tally.evictions.get();
            let free = self.free_frame(&mut shard, PageKind::Ephemeral);
            let to = match (free, how) {
                (Some(free), _) => Some(free),
                (None, Emptying::Moving) => return Emptied::No,
                (None, Emptying::Evicting) => {
                    let patience = &mut Patience::endless();
                    let evicted = evict(pages, self.tenant, &mut shard, self.now, patience);
                    evicted.inspect(|frame| pages.lose(*frame))
                }
            };
            self.note_lost(shard.tally.evictions.get() - before);
            match to {
                // What was evicted for it may have been the very page.
                Some(to) if pages.frames.get(frame).is_live() => {
                    pages.move_page(&mut shard, frame, to, self.now);
                    self.note_kept();
                }
                Some(to) => shard.push_free(&pages.frames, to, PageKind::Ephemeral),
                None if pages.frames.get(frame).is_live() => return Emptied::No,
                None => {}
            }
        }
        Emptied::Yes
    }

    /// A free frame of the shard, or of one that has some to spare, of a block that stays.
    fn free_frame(&self, shard: &mut Shard, kind: PageKind) -> Option<FrameId> {
        let (pages, patience) = (self.pages, &mut Patience::endless());
        let own = pages.free_frame(self.tenant, shard, kind, patience);
        own.or_else(|| {
            let spare = (Stock::Spare, kind);
            match pages.borrow_frames(self.tenant, shard, spare, patience) {
                Some(FrameSource::Tenant(spare)) => Some(spare.frame()),
                _ => None,
            }
        })
    }

    /// Gets a persistent page out of a frame: to another frame, else to disk. A client that goes on rewriting the page
    /// keeps it here.
    fn spill_frame(&mut self, frame: FrameId, how: Emptying) -> Emptied {
        let pages = self.pages;
        for _ in 0..SPILLS_MAX {
            let Some(mut shard) = pages.lock_live(pages.holdings(self.tenant), frame) else {
                return Emptied::Yes;
            };
            if let Some(to) = self.free_frame(&mut shard, PageKind::Persistent) {
                pages.move_kept(&mut shard, frame, to);
                self.note_kept();
            } else if how == Emptying::Moving {
                return Emptied::No;
            } else {
                match self.write(shard, frame) {
                    Spilled::Yes => self.note_kept(),
                    Spilled::Again => {}
                    Spilled::Refused => return Emptied::No,
                }
            }
        }
        Emptied::No
    }

    /// Writes a persistent page to its slot, and lets go of its frame if nobody changed the page meanwhile. While the
    /// disk writes, the shard is not locked and no block is held back.
    fn write(&self, mut shard: MutexGuard<'_, Shard>, frame: FrameId) -> Spilled {
        let pages = self.pages;
        let facts = pages.frames.get(frame);
        let (key, number) = (facts.key(), facts.note());
        let before = shard.rows.get(number);
        let Some(space) = pages.pools.space(key.pool) else {
            return Spilled::Refused;
        };
        if before.writing {
            // Somebody else is writing it; look again when that has ended.
            drop(shard);
            self.thread.aside(&mut std::thread::yield_now);
            return Spilled::Again;
        }
        shard.rows.get_mut(number).writing = true;
        let page = pages.bytes(frame).to_vec();
        let mut wrote = Ok(());
        MutexGuard::unlocked(&mut shard, || {
            self.thread
                .aside(&mut || wrote = space.spill.write(before.slot, &page));
        });
        match shard.rows.written(number, before.sequence) {
            Written::Doomed(slot) => space.give_back(slot),
            Written::Current if wrote.is_ok() => {
                pages.leave_on_disk(self.tenant, &mut shard, number);
                return Spilled::Yes;
            }
            Written::Current | Written::Outdated => {}
        }
        match wrote {
            Ok(()) => Spilled::Again,
            Err(_) => Spilled::Refused,
        }
    }
}

/// Blocks in the order in which they are emptied with the least work.
fn by_work(mut candidates: Vec<Candidate>) -> impl Iterator<Item = BlockId> {
    least_work_first(&mut candidates);
    candidates.into_iter().map(|candidate| candidate.block)
}

/// Attempts at writing one page that a client goes on rewriting.
const SPILLS_MAX: u32 = 8;

/// What writing a page to its slot came to.
enum Spilled {
    /// It is on disk, and its frame is free.
    Yes,
    /// It was changed meanwhile.
    Again,
    /// The disk did not take it.
    Refused,
}

impl Pages {
    /// Claims a block of a tenant's pages, to empty or to drop it. False if somebody else did, or it is the tenant's no
    /// longer.
    fn begins_to_leave(&self, tenant: &Tenant, block: BlockId, kind: PageKind) -> bool {
        self.arena.block(block).begin_leaving(tenant.id, kind)
    }

    fn live(&self, block: BlockId) -> u32 {
        self.arena.block(block).live_items()
    }

    /// A tenant's blocks of a kind, as a release sees them.
    fn all_candidates(&self, tenant: &Tenant, kind: PageKind) -> Vec<Candidate> {
        self.as_candidates(self.all_blocks_of_kind(tenant, kind))
    }

    fn as_candidates(&self, blocks: Vec<BlockId>) -> Vec<Candidate> {
        let candidate = |block| Candidate::new(&self.arena, block, self.live(block));
        blocks.into_iter().map(candidate).collect()
    }

    /// The least filled block of a kind, where a tenant has more free frames than a tenth and a block. For the chores: it walks through all
    /// blocks where the tenant may have so many.
    fn sparsest_of_all(&self, tenant: &Tenant, kind: PageKind) -> Option<BlockId> {
        let (holdings, per_block) = (self.known(tenant)?, self.frames.per_block());
        let held = holdings.blocks(kind) * per_block;
        let frames = PageKind::ALL.map(|kind| u64::from(holdings.blocks(kind) * per_block));
        let free = frames.iter().sum::<u64>();
        let free = free.saturating_sub(self.arena.living(tenant.id).pages);
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

    /// Gives up a block if every page was got out of it; else its frames are used again.
    fn give_up(&self, tenant: &Tenant, block: BlockId, kind: PageKind) -> Emptied {
        let holdings = self.holdings(tenant);
        // With all shards locked, in their order, nobody comes in or is on its way.
        let mut shards: Vec<MutexGuard<'_, Shard>> =
            holdings.shards().iter().map(|shard| shard.lock()).collect();
        let facts = self.arena.block(block);
        if facts.owner() != Claimant::Pages(tenant.id, kind) {
            return Emptied::No; // dropped meanwhile
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
            facts.stay();
            return Emptied::No;
        }
        self.lost_block(tenant, kind, block);
        self.arena.retire(&[block]);
        Emptied::Yes
    }

    /// The shard of a frame, locked, if a page lives in the frame.
    fn lock_live<'a>(
        &self,
        holdings: &'a Holdings,
        frame: FrameId,
    ) -> Option<MutexGuard<'a, Shard>> {
        let shard = self.lock_shard_of(holdings, frame);
        self.frames.get(frame).is_live().then_some(shard)
    }

    /// The shard that a frame belongs to, locked: meanwhile nobody else carries the frame from one queue to another.
    pub(super) fn lock_shard_of<'a>(
        &self,
        holdings: &'a Holdings,
        frame: FrameId,
    ) -> MutexGuard<'a, Shard> {
        let facts = self.frames.get(frame);
        loop {
            let number = facts.shard();
            let shard = holdings.shards()[usize::from(number)].lock();
            if facts.shard() == number {
                return shard;
            }
        }
    }

    /// Moves an ephemeral page to a free frame. Its own frame is then in no queue.
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
        let page = Page {
            frames: &self.frames,
            frame: from,
            hash: self.seed.page_of(object, key.index),
            now,
        };
        shard.eviction.moved(page, to);
        self.moved(from, to);
    }

    fn copy(&self, from: FrameId, to: FrameId) {
        let page = self.bytes(from);
        self.write(to, |bytes| bytes.copy_from_slice(page));
    }

    fn moved(&self, from: FrameId, to: FrameId) {
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
        self.moved(from, to);
    }

    /// Lets go of the frame of a persistent page that is on disk now.
    fn leave_on_disk(&self, tenant: &Tenant, shard: &mut Shard, number: u32) {
        let key = shard.rows.get(number).key;
        let object = self.seed.object(key.pool, key.object);
        // It may have been moved to another frame meanwhile.
        let Some(Whereabouts::Here(frame)) = shard.find(&self.frames, object, key) else {
            return;
        };
        let (here, on_disk) = (Whereabouts::Here(frame), Whereabouts::OnDisk(number));
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
