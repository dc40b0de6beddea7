//! Giving blocks of pages back: fast, where whole blocks go, and ordered, where the coldest pages go and the
//! others move together. Persistent pages go to their spill file first.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use sublet_types::{ReleaseMode, Second};

use super::Pages;
use super::desk::evict;
use super::directory::Whereabouts;
use super::disk::Written;
use super::frame::{FrameId, QueueId};
use super::holdings::Holdings;
use super::shard::Shard;
use crate::arena::{BlockId, Claimant, PageKind};
use crate::eviction::Page;
use crate::tenants::Tenant;

/// Free frames beyond one in so many are worth an evacuation.
const FREE_ONE_IN: u32 = 10;

/// What shrinking a tenant's pages cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageLoss {
    pub(crate) blocks: u32,
    pub(crate) pages: u64,
    /// Pages that were copied together, or to disk, to survive.
    pub(crate) kept: u64,
}

impl PageLoss {
    pub(crate) fn add(&mut self, other: PageLoss) {
        self.blocks += other.blocks;
        self.pages += other.pages;
        self.kept += other.kept;
    }
}

/// Whether persistent pages go to disk for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spilling {
    /// They do: the host, or a lowered target, asks for it.
    Allowed,
    /// They stay: a put does not wait for a disk (R-P5).
    Never,
}

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

impl Pages {
    /// Makes a tenant give up `blocks` blocks of pages, or all it has. The caller is pinned and holds no lock.
    pub(crate) fn shrink(
        &self,
        tenant: &Tenant,
        blocks: u32,
        mode: ReleaseMode,
        spilling: Spilling,
        now: Second,
        luck: u64,
    ) -> PageLoss {
        let mut loss = PageLoss::default();
        let ephemeral = self.blocks_of(tenant, PageKind::Ephemeral);
        match mode {
            ReleaseMode::Ordered => self.empty_coldest(tenant, ephemeral, blocks, now, &mut loss),
            _ => {
                let order = self.whole_order(ephemeral, mode, luck).into_iter();
                let own =
                    order.filter(|block| self.begins_to_leave(tenant, *block, PageKind::Ephemeral));
                let leaving: Vec<BlockId> = own.take(blocks as usize).collect();
                loss.pages += self.drop_blocks(tenant, &leaving);
                loss.blocks += leaving.len() as u32;
            }
        }
        if loss.blocks < blocks && spilling == Spilling::Allowed {
            let persistent = self.blocks_of(tenant, PageKind::Persistent);
            let left = blocks - loss.blocks;
            self.spill_coldest(tenant, persistent, left, now, &mut loss);
        }
        loss
    }

    /// Claims a block of a tenant's pages, to empty or to drop it. False if somebody else did, or it is the tenant's no
    /// longer.
    fn begins_to_leave(&self, tenant: &Tenant, block: BlockId, kind: PageKind) -> bool {
        let facts = self.arena.block(block);
        let owner = Claimant::Pages(tenant.id, kind);
        if !facts.begin_leaving() {
            return false;
        }
        let own = facts.owner() == owner;
        if !own {
            facts.stay();
        }
        own
    }

    /// A tenant's blocks of a kind.
    fn blocks_of(&self, tenant: &Tenant, kind: PageKind) -> Vec<BlockId> {
        let owner = Claimant::Pages(tenant.id, kind);
        let blocks = self.arena.blocks();
        let own = blocks.filter(|(_, facts)| facts.owner() == owner);
        own.map(|(block, _)| block).collect()
    }

    fn heat(&self, block: BlockId) -> u32 {
        self.arena.block(block).heat.load(Ordering::Relaxed)
    }

    fn live(&self, block: BlockId) -> u32 {
        self.arena.block(block).live_items.load(Ordering::Relaxed)
    }

    /// The heat of the tenant's coldest block of ephemeral pages, if it has one.
    pub(crate) fn coldest(&self, tenant: &Tenant) -> Option<u32> {
        tenant.pages.get()?;
        let blocks = self.blocks_of(tenant, PageKind::Ephemeral);
        blocks.into_iter().map(|block| self.heat(block)).min()
    }

    /// The heat of each of a tenant's blocks of ephemeral pages.
    pub(crate) fn heats(&self, tenant: &Tenant) -> Vec<u32> {
        match tenant.pages.get() {
            None => Vec::new(),
            Some(_) => {
                let blocks = self.blocks_of(tenant, PageKind::Ephemeral);
                blocks.into_iter().map(|block| self.heat(block)).collect()
            }
        }
    }

    /// The order in which whole blocks go.
    fn whole_order(&self, mut blocks: Vec<BlockId>, mode: ReleaseMode, luck: u64) -> Vec<BlockId> {
        let cheapest = |block: &BlockId| (self.heat(*block), self.live(*block));
        match mode {
            ReleaseMode::Random => shuffle(&mut blocks, luck | 1),
            ReleaseMode::Scra => {
                let mut least_hit = blocks.clone();
                least_hit.sort_by_cached_key(cheapest);
                blocks.sort_by_cached_key(|block| self.arena.block(*block).sequence());
                blocks = alternating(&blocks, &least_hit);
            }
            ReleaseMode::Fast | ReleaseMode::Ordered => blocks.sort_by_cached_key(cheapest),
        }
        blocks
    }

    /// Empties the blocks that cost least to empty; what is colder elsewhere goes first.
    fn empty_coldest(
        &self,
        tenant: &Tenant,
        mut blocks: Vec<BlockId>,
        wanted: u32,
        now: Second,
        loss: &mut PageLoss,
    ) {
        blocks.sort_by_cached_key(|block| (self.live(*block), self.heat(*block)));
        for block in blocks {
            if loss.blocks >= wanted {
                break;
            }
            let kind = PageKind::Ephemeral;
            let emptied = self.empty(tenant, block, kind, Emptying::Evicting, now, loss);
            loss.blocks += u32::from(emptied == Emptied::Yes);
        }
    }

    /// Moves the pages of nearly empty blocks together where a tenant has more free frames than a tenth and a block.
    /// One block a call; says whether there may be more to do.
    pub(crate) fn evacuate(&self, tenant: &Tenant, now: Second) -> bool {
        let Some(holdings) = tenant.pages.get() else {
            return false;
        };
        let mut more = false;
        for kind in PageKind::ALL {
            let per_block = self.frames.per_block();
            let held = holdings.blocks(kind) * per_block;
            if held <= per_block {
                continue;
            }
            let blocks = self.blocks_of(tenant, kind);
            let live: u32 = blocks.iter().map(|block| self.live(*block)).sum();
            if held.saturating_sub(live) <= held / FREE_ONE_IN + per_block {
                continue;
            }
            if let Some(block) = blocks.into_iter().min_by_key(|block| self.live(*block)) {
                let mut loss = PageLoss::default();
                let emptied = self.empty(tenant, block, kind, Emptying::Moving, now, &mut loss);
                self.evacuated
                    .fetch_add(u32::from(emptied == Emptied::Yes), Ordering::Relaxed);
                more |= emptied == Emptied::Yes;
            }
        }
        more
    }

    /// Gets every page out of a block, then gives the block up.
    fn empty(
        &self,
        tenant: &Tenant,
        block: BlockId,
        kind: PageKind,
        how: Emptying,
        now: Second,
        loss: &mut PageLoss,
    ) -> Emptied {
        let holdings = self.holdings(tenant);
        if !self.begins_to_leave(tenant, block, kind) {
            return Emptied::No;
        }
        holdings.close(kind, block);
        for frame in self.frames.of_block(block) {
            let emptied = match kind {
                PageKind::Ephemeral => self.empty_frame(tenant, holdings, frame, how, now, loss),
                PageKind::Persistent => self.spill_frame(tenant, holdings, frame, how, loss),
            };
            if emptied == Emptied::No {
                break;
            }
        }
        self.give_up(tenant, block, kind)
    }

    /// Gives up a block if every page was got out of it; else its frames are used again.
    fn give_up(&self, tenant: &Tenant, block: BlockId, kind: PageKind) -> Emptied {
        let holdings = self.holdings(tenant);
        // With all shards locked nobody comes in or is on its way.
        let mut shards: Vec<MutexGuard<'_, Shard>> =
            holdings.shards().iter().map(|shard| shard.lock()).collect();
        let facts = self.arena.block(block);
        if facts.owner() != Claimant::Pages(tenant.id, kind) {
            return Emptied::No; // dropped meanwhile
        }
        let stays = self.live(block) > 0;
        for frame in self.frames.of_block(block) {
            let facts = self.frames.get(frame);
            let free = &mut shards[usize::from(facts.shard())].free[kind as usize];
            match facts.queue() {
                QueueId::FREE if !stays => free.remove(&self.frames, frame),
                QueueId::NONE if stays => free.push(&self.frames, frame),
                _ => {}
            }
        }
        if stays {
            facts.stay();
            return Emptied::No;
        }
        holdings.lost_block(kind, block);
        tenant.lost_block();
        self.arena.retire(&[block]);
        Emptied::Yes
    }

    /// Gets the page out of a frame, to another frame or out of the store.
    fn empty_frame(
        &self,
        tenant: &Tenant,
        holdings: &Holdings,
        frame: FrameId,
        how: Emptying,
        now: Second,
        loss: &mut PageLoss,
    ) -> Emptied {
        let Some(mut shard) = self.lock_live(holdings, frame) else {
            return Emptied::Yes;
        };
        while self.frames.get(frame).is_live() {
            let before = shard.tally.evictions;
            let to = match (self.free_frame(&mut shard, PageKind::Ephemeral), how) {
                (Some(free), _) => Some(free),
                (None, Emptying::Moving) => return Emptied::No,
                (None, Emptying::Evicting) => evict(self, tenant, &mut shard, now),
            };
            loss.pages += shard.tally.evictions - before;
            match to {
                // What was evicted for it may have been the very page.
                Some(to) if self.frames.get(frame).is_live() => {
                    self.move_page(&mut shard, frame, to, now);
                    loss.kept += 1;
                }
                Some(to) => shard.free[PageKind::Ephemeral as usize].push(&self.frames, to),
                None if self.frames.get(frame).is_live() => return Emptied::No,
                None => {}
            }
        }
        Emptied::Yes
    }

    /// The shard of a frame, locked, if a page lives in the frame.
    fn lock_live<'a>(
        &self,
        holdings: &'a Holdings,
        frame: FrameId,
    ) -> Option<MutexGuard<'a, Shard>> {
        let facts = self.frames.get(frame);
        while facts.is_live() {
            let number = facts.shard();
            let shard = holdings.shards()[usize::from(number)].lock();
            if facts.shard() == number && facts.is_live() {
                return Some(shard);
            }
        }
        None
    }

    /// A free frame of the shard, of a block that stays.
    fn free_frame(&self, shard: &mut Shard, kind: PageKind) -> Option<FrameId> {
        loop {
            let frame = shard.free[kind as usize].pop_newest(&self.frames)?;
            if !self.is_leaving(frame) {
                return Some(frame);
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
        new.set_note(old.note());
        shard.set(&self.frames, object, key, Whereabouts::Here(to));
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
        self.arena.block(self.frames.block(from)).lose_page();
        self.arena.block(self.frames.block(to)).gain_page();
    }

    /// Gets persistent pages out of the least filled blocks, to disk.
    fn spill_coldest(
        &self,
        tenant: &Tenant,
        mut blocks: Vec<BlockId>,
        wanted: u32,
        now: Second,
        loss: &mut PageLoss,
    ) {
        blocks.sort_by_cached_key(|block| (self.live(*block), self.heat(*block)));
        let mut emptied = 0;
        for block in blocks {
            if emptied >= wanted {
                break;
            }
            let kind = PageKind::Persistent;
            if self.empty(tenant, block, kind, Emptying::Evicting, now, loss) == Emptied::Yes {
                emptied += 1;
            }
        }
        loss.blocks += emptied;
    }

    /// Gets a persistent page out of a frame: to another frame, else to disk.
    fn spill_frame(
        &self,
        tenant: &Tenant,
        holdings: &Holdings,
        frame: FrameId,
        how: Emptying,
        loss: &mut PageLoss,
    ) -> Emptied {
        while let Some(mut shard) = self.lock_live(holdings, frame) {
            if let Some(to) = self.free_frame(&mut shard, PageKind::Persistent) {
                self.move_kept(&mut shard, frame, to);
            } else if how == Emptying::Moving || !self.spill(tenant, shard, frame) {
                return Emptied::No;
            }
            loss.kept += 1;
        }
        Emptied::Yes
    }

    fn move_kept(&self, shard: &mut Shard, from: FrameId, to: FrameId) {
        let (old, new) = (self.frames.get(from), self.frames.get(to));
        let key = old.key();
        let object = self.seed.object(key.pool, key.object);
        self.copy(from, to);
        new.set_note(old.note());
        shard.set(&self.frames, object, key, Whereabouts::Here(to));
        new.set_key(key);
        shard.kept.replace(&self.frames, from, to);
        self.moved(from, to);
    }

    /// Writes a persistent page to its slot, and lets go of its frame if nobody changed the page meanwhile. The shard
    /// is not locked while the disk writes. Says whether the disk took it.
    fn spill(&self, tenant: &Tenant, mut shard: MutexGuard<'_, Shard>, frame: FrameId) -> bool {
        let facts = self.frames.get(frame);
        let (key, number) = (facts.key(), facts.note());
        let before = shard.disk.get(number);
        let Some(space) = self.pools.space(key.pool) else {
            return false;
        };
        if before.writing {
            // Somebody else is writing it; look again when that has ended.
            drop(shard);
            std::thread::yield_now();
            return true;
        }
        shard.disk.get_mut(number).writing = true;
        let page = self.bytes(frame).to_vec();
        let wrote = MutexGuard::unlocked(&mut shard, || space.spill.write(before.slot, &page));
        match shard.disk.written(number, before.sequence) {
            Written::Doomed(slot) => space.give_back(slot),
            Written::Current if wrote.is_ok() => {
                self.leave_on_disk(tenant, &mut shard, number);
            }
            Written::Current | Written::Outdated => {}
        }
        wrote.is_ok()
    }

    /// Lets go of the frame of a persistent page that is on disk now.
    fn leave_on_disk(&self, tenant: &Tenant, shard: &mut Shard, number: u32) {
        let key = shard.disk.get(number).key;
        let object = self.seed.object(key.pool, key.object);
        // It may have been moved to another frame meanwhile.
        let Some(Whereabouts::Here(frame)) = shard.find(&self.frames, object, key) else {
            return;
        };
        shard.set(&self.frames, object, key, Whereabouts::OnDisk(number));
        shard.kept.remove(&self.frames, frame);
        shard.tally.spilled += 1;
        let block = self.arena.block(self.frames.block(frame));
        block.lose_page();
        if block.is_of_pages(tenant.id, PageKind::Persistent) {
            self.free(shard, frame, PageKind::Persistent);
        }
    }
}

fn shuffle(blocks: &mut [BlockId], mut luck: u64) {
    for at in (1..blocks.len()).rev() {
        // xorshift64: luck, not secrecy
        luck ^= luck << 13;
        luck ^= luck >> 7;
        luck ^= luck << 17;
        blocks.swap(at, luck as usize % (at + 1));
    }
}

/// The blocks of two orders in turn, each block once.
fn alternating(a: &[BlockId], b: &[BlockId]) -> Vec<BlockId> {
    let mut seen = std::collections::HashSet::new();
    let both = a.iter().zip(b).flat_map(|(a, b)| [*a, *b]);
    both.filter(|block| seen.insert(*block)).collect()
}
