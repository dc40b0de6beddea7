//! One page under its shard's lock, with the operations on it.

use std::sync::Arc;

use parking_lot::MutexGuard;
use sublet_types::{PAGE_BYTES, PageIndex, PoolId, Second};

use super::PageStore;
use super::arrivals::Arrivals;
use super::directory::{DirectoryPosition, Whereabouts, try_reserve};
use super::frame_source::{FrameSearch, FrameSource, NO_POOL, PutAttempt, Shortage};
use super::pending_removal::PIECE;
use super::pools::{Pool, SpillSpace};
use super::rows::RowPlace;
use super::shard::{Shard, SpareFrame};
use super::tenant_pages::TenantPages;
use crate::api::{AccessPattern, GetOutcome, PutOutcome, PutRefused, SampledUse};
use crate::arena::{Block, PageKind, SameWord, UnwrittenPage};
use crate::eviction::PageRef;
use crate::frames::{EXTENT_PAGES, StoredKey};
use crate::frames::{FrameId, QueueId};
use crate::pinned_thread::PinnedThread;
use crate::tenants::Tenant;

/// A page of a pool whose shard is locked.
pub(super) struct LockedShard<'a> {
    pub(super) pages: &'a PageStore,
    pub(super) owner: &'a Tenant,
    pub(super) tenant_pages: &'a TenantPages,
    /// The pool's handle. `None` while a dead pool's pages are removed.
    pub(super) id: Option<PoolId>,
    pub(super) pool: Pool,
    pub(super) object: u64,
    pub(super) key: StoredKey,
    pub(super) shard: MutexGuard<'a, Shard>,
    pub(super) now: Second,
    pub(super) random: u64,
    /// The pattern of the pages that are put.
    pub(super) pattern: AccessPattern,
    pub(super) worker: &'a dyn PinnedThread,
}

impl LockedShard<'_> {
    fn block(&self, frame: FrameId) -> &Block {
        self.pages.arena.block(self.pages.frames.block(frame))
    }

    /// Returns whether a frame's block is still what it was when the page came into it.
    pub(super) fn is_valid(&self, frame: FrameId) -> bool {
        let block = self.block(frame);
        block.is_of_pages(self.owner.id, self.pool.kind())
    }

    pub(super) fn is_there(&self) -> bool {
        match self.shard.find(&self.pages.frames, self.object, self.key) {
            Some(Whereabouts::Here(frame)) => self.is_valid(frame),
            Some(Whereabouts::There(frame)) => self.is_far_valid(frame),
            Some(Whereabouts::Row(_)) => true,
            None => false,
        }
    }

    /// Returns whether the page is there, and no lender is to be asked for it.
    pub(super) fn is_here(&self) -> bool {
        let at = self.shard.find(&self.pages.frames, self.object, self.key);
        match at {
            Some(Whereabouts::There(frame)) => {
                self.is_far_valid(frame) && !self.is_at_lender(frame)
            }
            _ => self.is_there(),
        }
    }

    /// Returns whether the page is on disk only.
    pub(super) fn is_on_disk(&self) -> bool {
        let may_be = self.pool.kind() == PageKind::Persistent;
        let DirectoryPosition::Row(number) = self.locate() else {
            return false;
        };
        may_be && self.shard.rows.slot(number).is_some()
    }

    /// Finds where the page is, or where it would go.
    pub(super) fn locate(&self) -> DirectoryPosition {
        self.shard.locate(&self.pages.frames, self.object, self.key)
    }

    pub(super) fn hash(&self) -> u64 {
        self.pages.seed.page_of(self.object, self.key.index)
    }

    /// Prefetches what a put will touch.
    pub(super) fn prefetch_put(&self) {
        self.shard
            .prefetch(&self.pages.frames, self.pool.kind(), self.hash());
    }

    pub(super) fn count_put(&mut self, put: PutOutcome) {
        self.shard.tally.count_put(put);
        let hash = self.hash();
        self.shard.sample(hash, SampledUse::Put);
    }

    /// Puts the page. The caller publishes the arrivals before it unlocks the shard.
    pub(super) fn put<'b, F: FnOnce(&mut UnwrittenPage<'_>)>(
        &mut self,
        search: FrameSearch,
        arrivals: &mut Arrivals<'_>,
        fill: F,
    ) -> PutAttempt<'b, F>
    where
        Self: 'b,
    {
        let mut position = self.locate();
        if let DirectoryPosition::Here(frame) = position {
            if self.is_valid(frame) {
                return PutAttempt::Done(self.replace(frame, arrivals, fill));
            }
            self.flush_quietly();
            position = self.locate();
        }
        if let DirectoryPosition::There(frame) = position
            && !self.is_far_valid(frame)
        {
            self.flush_quietly();
            position = self.locate();
        }
        let is_known = matches!(
            position,
            DirectoryPosition::Row(_) | DirectoryPosition::There(_)
        );
        if !is_known && self.tenant_pages.is_frozen() {
            return PutAttempt::Done(PutOutcome::Refused(PutRefused::Frozen));
        }
        let age = self.shard.directory.age();
        let spare = match self.frame(search, arrivals) {
            FrameSource::Tenant(spare) => spare,
            FrameSource::NewBlock => {
                let owner = self.pages.tenants.get(self.owner.id);
                let block = owner.map(|owner| Shortage::Block(owner, self.pool.kind()));
                return block.map_or(PutAttempt::Done(NO_POOL), |block| {
                    PutAttempt::Lacks(block, fill)
                });
            }
            FrameSource::NotSearched => return PutAttempt::Lacks(Shortage::Frame, fill),
            FrameSource::Nowhere => {
                // R-P3: the old page must not outlive a put that failed.
                self.flush();
                return PutAttempt::Done(PutOutcome::Refused(self.why_nowhere()));
            }
        };
        if self.shard.directory.age() != age {
            position = self.locate();
        }
        if let Err(refused) = self.store(&spare, position, arrivals, fill) {
            return PutAttempt::Done(PutOutcome::Refused(refused));
        }
        let put = match spare {
            _ if is_known => PutOutcome::Replaced,
            SpareFrame::Free(_) => PutOutcome::Stored,
            SpareFrame::FreedAhead(_) | SpareFrame::Displaced(_) => PutOutcome::Displaced,
        };
        PutAttempt::Done(put)
    }

    fn why_nowhere(&self) -> PutRefused {
        match self.owner.is_at_limit(1) {
            true => PutRefused::AtTarget,
            false => PutRefused::NoMemory,
        }
    }

    /// Overwrites a page that is there.
    fn replace(
        &mut self,
        frame: FrameId,
        arrivals: &mut Arrivals<'_>,
        fill: impl FnOnce(&mut UnwrittenPage<'_>),
    ) -> PutOutcome {
        if let Some(word) = arrivals.write(frame, self.pool.kind(), fill)
            && self.pages.takes_filled(&mut self.shard, self.pool.kind())
        {
            arrivals.count_all();
            self.flush_quietly();
            let position = self.locate();
            self.link_filled(word, position);
            return PutOutcome::Replaced;
        }
        match self.pool.kind() {
            PageKind::Ephemeral => {
                self.pages.frames.get(frame).set_pattern(self.pattern);
                self.pages.stamp(frame);
                let page = page(self.pages, frame, self.hash(), self.now);
                self.shard.eviction.rewrite(page);
            }
            PageKind::Persistent => {
                let number = self.pages.frames.get(frame).note();
                self.shard.rows.change(number);
                self.shard.kept.requeue(&self.pages.frames, frame);
            }
        }
        PutOutcome::Replaced
    }

    /// Puts a page that has no frame here into one, and counts it. A page whose words are all equal gives the frame back.
    pub(super) fn store(
        &mut self,
        spare: &SpareFrame,
        position: DirectoryPosition,
        arrivals: &mut Arrivals<'_>,
        fill: impl FnOnce(&mut UnwrittenPage<'_>),
    ) -> Result<(), PutRefused> {
        let (frame, kind) = (spare.frame(), self.pool.kind());
        // A persistent page is linked first, because there may be no place on disk for it.
        if kind == PageKind::Persistent {
            self.link_persistent(frame, position)?;
        }
        let same = arrivals.write(frame, kind, fill);
        let same = same.filter(|_| self.pages.takes_filled(&mut self.shard, kind));
        // What came into the frame of a page that left counts already.
        if !matches!(spare, SpareFrame::Displaced(_)) {
            arrivals.record(frame);
        }
        match (same, kind) {
            (Some(word), PageKind::Persistent) => {
                arrivals.count_all();
                self.flush_quietly();
                self.link_filled(word, self.locate());
            }
            (Some(word), PageKind::Ephemeral) => {
                arrivals.count_all();
                self.pages.lose(frame);
                self.pages.free(&mut self.shard, frame, kind);
                self.link_filled(word, position);
            }
            // An ephemeral page is linked last. Its bytes are on their way to memory meanwhile, and an unlock has to wait
            // for that.
            (None, PageKind::Ephemeral) => self.link_ephemeral(frame, position),
            (None, PageKind::Persistent) => {}
        }
        Ok(())
    }

    /// Links a page whose words are all equal. It is in no frame. If there are too many of them, an ephemeral one goes.
    fn link_filled(&mut self, word: SameWord, position: DirectoryPosition) {
        let frames = &self.pages.frames;
        let (key, object, kind) = (self.key, self.object, self.pool.kind());
        let number = self.shard.rows.add_filled(key, word, kind);
        let row = Whereabouts::Row(number);
        match position {
            DirectoryPosition::Row(before) => {
                self.shard
                    .set(frames, object, key, Whereabouts::Row(before), row);
                self.forget_row(before);
            }
            DirectoryPosition::There(far) => {
                self.shard
                    .set(frames, object, key, Whereabouts::There(far), row);
                self.pages.free_far(self.owner, &mut self.shard, far);
            }
            _ => self.shard.add(frames, object, key, position, row),
        }
        self.pages.limit_filled(&mut self.shard);
    }

    /// Links an ephemeral page's frame.
    fn link_ephemeral(&mut self, frame: FrameId, position: DirectoryPosition) {
        let facts = self.pages.frames.get(frame);
        facts.set_key(self.key);
        facts.set_pattern(self.pattern);
        self.set_whereabouts(frame, position);
        self.pages.stamp(frame);
        let page = page(self.pages, frame, self.hash(), self.now);
        self.shard.eviction.admit(page);
        if let Some(pages) = self.shard.count_arrival() {
            self.pages.advance_clock(pages);
        }
    }

    /// Links a persistent page's frame and finds a place on disk for it.
    fn link_persistent(
        &mut self,
        frame: FrameId,
        position: DirectoryPosition,
    ) -> Result<(), PutRefused> {
        let frames = &self.pages.frames;
        let number = match position {
            DirectoryPosition::Row(number) if self.shard.rows.slot(number).is_some() => {
                self.shard.rows.change(number);
                number
            }
            _ => {
                let slot = self.space().and_then(|space| space.allocate());
                let Some(slot) = slot else {
                    self.shard.push_free(frames, frame, PageKind::Persistent);
                    return Err(PutRefused::SpillFull);
                };
                self.shard.rows.add_on_disk(self.key, slot)
            }
        };
        frames.get(frame).set_key(self.key);
        frames.get(frame).set_note(number);
        self.set_whereabouts(frame, position);
        self.shard.kept.push(frames, frame);
        Ok(())
    }

    /// Makes the directory say that the page is in a frame.
    fn set_whereabouts(&mut self, frame: FrameId, position: DirectoryPosition) {
        let frames = &self.pages.frames;
        let (key, object, here) = (self.key, self.object, Whereabouts::Here(frame));
        match position {
            DirectoryPosition::Row(number) => {
                self.shard
                    .set(frames, object, key, Whereabouts::Row(number), here);
                // The row of a persistent page that was on disk stays.
                if self.shard.rows.slot(number).is_none() {
                    self.forget_row(number);
                }
            }
            DirectoryPosition::There(far) => {
                let there = Whereabouts::There(far);
                self.shard.set(frames, object, key, there, here);
                self.pages.free_far(self.owner, &mut self.shard, far);
            }
            _ => self.shard.add(frames, object, key, position, here),
        }
    }

    pub(super) fn space(&self) -> Option<Arc<SpillSpace>> {
        self.pages.pools.space(self.pool.base)
    }

    /// Moves on to another page of the object.
    pub(super) fn move_to(&mut self, index: u32) {
        self.key.index = PageIndex(index);
    }

    /// Prefetches the page while another is copied. The processor's own prefetching ends at each page.
    pub(super) fn prefetch(&self) {
        if let Some(Whereabouts::Here(frame)) = self.shard.directory.guess(self.object, self.key) {
            self.pages.frames.prefetch_next_page(frame);
        }
    }

    pub(super) fn get(&mut self, visit: impl FnOnce(&[u8])) -> GetOutcome {
        let hash = self.hash();
        self.shard.tally.gets.bump();
        let what = match self.pool.is_exclusive() {
            true => SampledUse::Get,
            false => SampledUse::GetKeeping,
        };
        self.shard.sample(hash, what);
        if self.pool.is_exclusive() {
            self.shard.prefetch_ghost(hash);
            return self.get_exclusive(hash, visit);
        }
        let at = self.shard.find(&self.pages.frames, self.object, self.key);
        match at {
            None => GetOutcome::Miss,
            Some(Whereabouts::Here(frame)) if self.is_valid(frame) => {
                self.pages.frames.prefetch_page(frame);
                self.hit_keeping(frame, visit);
                GetOutcome::Hit
            }
            Some(Whereabouts::Here(_)) => {
                self.flush_quietly();
                GetOutcome::Miss
            }
            Some(Whereabouts::There(frame)) => self.get_far(frame, visit),
            Some(Whereabouts::Row(number)) => self.get_row(number, visit),
        }
    }

    /// Serves a get that leaves the page, which is in no frame.
    fn get_row(&mut self, number: u32, visit: impl FnOnce(&[u8])) -> GetOutcome {
        match self.shard.rows.get(number).place {
            RowPlace::Filled(word, _) => {
                self.shard.tally.hits.bump();
                visit_filled(word, self.pages.page_bytes(), visit);
                GetOutcome::Hit
            }
            RowPlace::Disk(_) => self.read_spilled(number, visit),
            RowPlace::Vacant => GetOutcome::Miss,
        }
    }

    /// Gets the page again, after a look elsewhere that took time. It was counted and sampled before.
    pub(super) fn get_again(&mut self, visit: impl FnOnce(&[u8])) -> GetOutcome {
        if self.pool.is_exclusive() {
            return self.get_exclusive(self.hash(), visit);
        }
        match self.shard.find(&self.pages.frames, self.object, self.key) {
            Some(Whereabouts::Here(frame)) if self.is_valid(frame) => {
                self.hit_keeping(frame, visit);
                GetOutcome::Hit
            }
            Some(Whereabouts::There(frame)) => self.get_far(frame, visit),
            Some(Whereabouts::Row(number)) => self.get_row(number, visit),
            _ => GetOutcome::Miss,
        }
    }

    /// Gets a page of an exclusive pool. A page that a lender has leaves when its bytes have come.
    fn get_exclusive(&mut self, hash: u64, visit: impl FnOnce(&[u8])) -> GetOutcome {
        if self.owner.has_far_blocks()
            && let DirectoryPosition::There(frame) = self.locate()
        {
            return self.get_far(frame, visit);
        }
        self.hit_exclusive(hash, visit)
    }

    /// Serves a get of an exclusive pool: the page leaves.
    fn hit_exclusive(&mut self, hash: u64, visit: impl FnOnce(&[u8])) -> GetOutcome {
        let pages = self.pages;
        let (object, key) = (self.object, self.key);
        let frame = match self.shard.remove_to_read(&pages.frames, object, key) {
            Some(Whereabouts::Here(frame)) => frame,
            Some(Whereabouts::Row(number)) => {
                self.shard.tally.hits.bump();
                if let RowPlace::Filled(word, _) = self.shard.rows.get(number).place {
                    visit_filled(word, pages.page_bytes(), visit);
                }
                self.forget_row(number);
                return GetOutcome::Hit;
            }
            at => {
                // All far blocks of the tenant were dropped, this one among them.
                if let Some(Whereabouts::There(far)) = at {
                    pages.free_far(self.owner, &mut self.shard, far);
                }
                self.shard.eviction.miss(hash);
                return GetOutcome::Miss;
            }
        };
        let page = page(pages, frame, hash, self.now);
        if !self.is_valid(frame) {
            self.shard.eviction.drop_with_block(page);
            return GetOutcome::Miss;
        }
        self.shard.tally.hits.bump();
        let block = pages.arena.block(pages.frames.block(frame));
        block.hit(self.now, self.random);
        pages.frames.prefetch_neighbours(frame);
        visit(pages.bytes(frame));
        pages.lose(frame);
        self.shard.eviction.hit_exclusive(page);
        pages.free(&mut self.shard, frame, PageKind::Ephemeral);
        GetOutcome::Hit
    }

    /// Serves a get that leaves the page.
    fn hit_keeping(&mut self, frame: FrameId, visit: impl FnOnce(&[u8])) {
        self.shard.tally.hits.bump();
        let pages = self.pages;
        let page = page(pages, frame, self.hash(), self.now);
        let block = pages.arena.block(pages.frames.block(frame));
        block.hit(self.now, self.random);
        match self.pool.kind() {
            PageKind::Ephemeral => {
                pages.stamp(frame);
                self.shard.eviction.hit(page);
            }
            PageKind::Persistent => self.shard.kept.requeue(&pages.frames, frame),
        }
        visit(pages.bytes(frame));
    }

    /// Serves a get of a persistent page that is on disk only. While the disk is read, the shard is not locked and no
    /// block is held back.
    fn read_spilled(&mut self, number: u32, visit: impl FnOnce(&[u8])) -> GetOutcome {
        let Some(space) = self.space() else {
            return GetOutcome::Failed;
        };
        let mut page = vec![0; self.pages.page_bytes()];
        loop {
            let row = self.shard.rows.get(number);
            let RowPlace::Disk(slot) = row.place else {
                return self.get_row(number, visit);
            };
            let (worker, mut read) = (self.worker, Ok(()));
            MutexGuard::unlocked(&mut self.shard, || {
                worker.run_unpinned(&mut || read = space.spill.read(slot.number, &mut page));
            });
            if !self.id.is_some_and(|id| self.pages.pools.is_alive(id)) {
                return GetOutcome::NoPool; // ended while the disk was read
            }
            match self.shard.find(&self.pages.frames, self.object, self.key) {
                // Nobody changed the page meanwhile, so these are its bytes.
                Some(Whereabouts::Row(again))
                    if again == number && self.shard.rows.get(again).sequence == row.sequence =>
                {
                    if read.is_err() {
                        return GetOutcome::Failed;
                    }
                    self.shard.tally.hits.bump();
                    visit(&page);
                    return GetOutcome::Hit;
                }
                Some(Whereabouts::Row(again)) if again == number => {}
                Some(Whereabouts::Row(_) | Whereabouts::There(_)) | None => {
                    return GetOutcome::Miss;
                }
                Some(Whereabouts::Here(frame)) => {
                    self.hit_keeping(frame, visit);
                    return GetOutcome::Hit;
                }
            }
        }
    }

    /// Removes the page, wherever it is. It needs no memory and waits for nothing (R-F3).
    pub(super) fn flush(&mut self) {
        let hash = self.hash();
        self.shard.sample(hash, SampledUse::Flush);
        match self.flush_quietly() {
            true => self.shard.tally.flushes.bump(),
            false => self.shard.eviction.forget_absent(hash),
        }
    }

    /// Removes the page without counting it. Returns whether it was there.
    pub(super) fn flush_quietly(&mut self) -> bool {
        let frames = &self.pages.frames;
        let (object, key) = (self.object, self.key);
        match self.shard.remove(frames, object, key) {
            None => return false,
            Some(Whereabouts::Here(frame)) => {
                let valid = self.is_valid(frame);
                match frames.get(frame).queue() {
                    QueueId::KEPT => {
                        let number = frames.get(frame).note();
                        self.shard.kept.remove(frames, frame);
                        self.forget_row(number);
                    }
                    _ => {
                        let page = page(self.pages, frame, self.hash(), self.now);
                        match valid {
                            true => self.shard.eviction.forget(page),
                            false => self.shard.eviction.drop_with_block(page),
                        }
                    }
                }
                if valid {
                    self.pages.lose(frame);
                    let kind = self.pool.kind();
                    self.pages.free(&mut self.shard, frame, kind);
                }
            }
            Some(Whereabouts::There(frame)) => {
                self.pages.free_far(self.owner, &mut self.shard, frame);
            }
            Some(Whereabouts::Row(number)) => self.forget_row(number),
        }
        true
    }

    /// Forgets a row, and gives its slot back.
    fn forget_row(&mut self, number: u32) {
        if let Some(slot) = self.shard.rows.forget(number)
            && let Some(space) = self.space()
        {
            space.give_back(slot);
        }
    }

    /// Flushes a part of the object. Returns where the next part begins.
    pub(super) fn flush_part(
        &mut self,
        from: u32,
        found: &mut Vec<(StoredKey, Whereabouts)>,
    ) -> Option<u32> {
        found.clear();
        let mut next = Some(from);
        while let Some(from) = next
            && found.len() < PIECE
            && try_reserve(found, EXTENT_PAGES as usize)
        {
            let keys = self.shard.keys(&self.pages.frames);
            let directory = &self.shard.directory;
            next = directory.object(&keys, self.object, self.key, from, found);
        }
        for (key, _) in found.iter() {
            self.key = *key;
            self.flush();
        }
        next
    }
}

/// Shows a page whose words are all equal.
fn visit_filled(word: SameWord, len: usize, visit: impl FnOnce(&[u8])) {
    let mut page = [0; PAGE_BYTES as usize];
    match page.get_mut(..len) {
        Some(page) => {
            word.fill(page);
            visit(page);
        }
        None => {
            let mut page = vec![0; len];
            word.fill(&mut page);
            visit(&page);
        }
    }
}

fn page(pages: &PageStore, frame: FrameId, hash: u64, now: Second) -> PageRef<'_> {
    PageRef {
        frames: &pages.frames,
        frame,
        hash,
        now,
    }
}
