//! One page under its shard's lock: what put, get and flush do with it.

use std::sync::Arc;

use parking_lot::MutexGuard;
use sublet_types::{PageIndex, PoolId, Second};

use super::Pages;
use super::arrivals::Arrivals;
use super::directory::{Standing, Whereabouts, has_room};
use super::frame_source::{FrameSource, NO_POOL, PutAttempt, Shortage, Terms};
use super::holdings::Holdings;
use super::pools::{Pool, Space};
use super::shard::{Shard, Spare};
use super::to_remove::PIECE;
use crate::api::{Get, Put, PutRefused, SampledUse};
use crate::arena::{Blank, Block, PageKind};
use crate::eviction::Page;
use crate::frames::{EXTENT_PAGES, Key};
use crate::frames::{FrameId, QueueId};
use crate::tenants::Tenant;
use crate::thread::Thread;

/// A page of a pool whose shard is locked.
pub(super) struct LockedShard<'a> {
    pub(super) pages: &'a Pages,
    pub(super) owner: &'a Tenant,
    pub(super) holdings: &'a Holdings,
    /// The handle; none where a dead pool's pages are removed.
    pub(super) id: Option<PoolId>,
    pub(super) pool: Pool,
    pub(super) object: u64,
    pub(super) key: Key,
    pub(super) shard: MutexGuard<'a, Shard>,
    pub(super) now: Second,
    pub(super) luck: u64,
    pub(super) worker: &'a dyn Thread,
}

impl LockedShard<'_> {
    fn block(&self, frame: FrameId) -> &Block {
        self.pages.arena.block(self.pages.frames.block(frame))
    }

    /// Whether a frame's block is still what it was when the page came into it.
    pub(super) fn is_valid(&self, frame: FrameId) -> bool {
        let block = self.block(frame);
        block.is_of_pages(self.owner.id, self.pool.kind())
    }

    pub(super) fn is_there(&self) -> bool {
        match self.shard.find(&self.pages.frames, self.object, self.key) {
            Some(Whereabouts::Here(frame)) => self.is_valid(frame),
            Some(Whereabouts::OnDisk(_)) => true,
            None => false,
        }
    }

    /// Whether the page is on disk only.
    pub(super) fn is_on_disk(&self) -> bool {
        let may_be = self.pool.kind() == PageKind::Persistent;
        may_be && matches!(self.look(), Standing::OnDisk(_))
    }

    /// Where the page is, or else where it would be.
    fn look(&self) -> Standing {
        self.shard.look(&self.pages.frames, self.object, self.key)
    }

    fn hash(&self) -> u64 {
        self.pages.seed.page_of(self.object, self.key.index)
    }

    /// Has the processor fetch what a put will touch.
    pub(super) fn expect_put(&self) {
        self.shard
            .expect(&self.pages.frames, self.pool.kind(), self.hash());
    }

    pub(super) fn count_put(&mut self, put: Put) {
        self.shard.tally.count_put(put);
        let hash = self.hash();
        self.shard.sample(hash, SampledUse::Put);
    }

    /// Puts the page. Whoever unlocks its shard has what came settled first.
    pub(super) fn put<'b, F: FnOnce(&mut Blank<'_>)>(
        &mut self,
        terms: Terms,
        arrivals: &mut Arrivals<'_>,
        fill: F,
    ) -> PutAttempt<'b, F>
    where
        Self: 'b,
    {
        let mut standing = self.look();
        if let Standing::Here(frame) = standing {
            if self.is_valid(frame) {
                return PutAttempt::Done(self.replace(frame, arrivals, fill));
            }
            self.flush_quietly();
            standing = self.look();
        }
        let is_known = matches!(standing, Standing::OnDisk(_));
        if !is_known && self.holdings.is_frozen() {
            return PutAttempt::Done(Put::Refused(PutRefused::Frozen));
        }
        let age = self.shard.directory.age();
        let spare = match self.frame(terms, arrivals) {
            FrameSource::Tenant(spare) => spare,
            FrameSource::NewBlock => {
                let owner = self.pages.tenants.get(self.owner.id);
                let block = owner.map(|owner| Shortage::Block(owner, self.pool.kind()));
                return block.map_or(PutAttempt::Done(NO_POOL), |block| {
                    PutAttempt::Lacks(block, fill)
                });
            }
            FrameSource::Unasked => return PutAttempt::Lacks(Shortage::Frame, fill),
            FrameSource::Nowhere => {
                // R-P3: the old page must not outlive a put that failed.
                self.flush();
                return PutAttempt::Done(Put::Refused(self.why_nowhere()));
            }
        };
        let frame = spare.frame();
        if self.shard.directory.age() != age {
            standing = self.look();
        }
        if let Err(refused) = self.store(frame, standing, arrivals, fill) {
            return PutAttempt::Done(Put::Refused(refused));
        }
        let put = match spare {
            _ if is_known => Put::Replaced,
            Spare::Free(_) => Put::Stored,
            Spare::FreedAhead(_) | Spare::Displaced(_) => Put::Displaced,
        };
        if !matches!(spare, Spare::Displaced(_)) {
            arrivals.note(frame);
        }
        PutAttempt::Done(put)
    }

    fn why_nowhere(&self) -> PutRefused {
        match self.owner.is_at_limit(1) {
            true => PutRefused::AtTarget,
            false => PutRefused::NoMemory,
        }
    }

    /// Writes over a page that is there.
    fn replace(
        &mut self,
        frame: FrameId,
        arrivals: &mut Arrivals<'_>,
        fill: impl FnOnce(&mut Blank<'_>),
    ) -> Put {
        arrivals.write(frame, self.pool.kind(), fill);
        match self.pool.kind() {
            PageKind::Ephemeral => {
                self.pages.stamp(frame);
                let page = page(self.pages, frame, self.hash(), self.now);
                self.shard.eviction.rewrite(page);
            }
            PageKind::Persistent => {
                let number = self.pages.frames.get(frame).note();
                let facts = self.shard.rows.get_mut(number);
                facts.sequence = facts.sequence.wrapping_add(1);
                self.shard.kept.requeue(&self.pages.frames, frame);
            }
        }
        Put::Replaced
    }

    /// Puts a new page, or one that was on disk only, into a frame.
    fn store(
        &mut self,
        frame: FrameId,
        standing: Standing,
        arrivals: &mut Arrivals<'_>,
        fill: impl FnOnce(&mut Blank<'_>),
    ) -> Result<(), PutRefused> {
        let kind = self.pool.kind();
        // Entered first: there may be no place on disk for it.
        if kind == PageKind::Persistent {
            self.keep(frame, standing)?;
        }
        arrivals.write(frame, kind, fill);
        // Entered last: what was written is on its way to memory meanwhile, and whoever unlocks has to wait for that.
        if kind == PageKind::Ephemeral {
            self.enter(frame, standing);
        }
        Ok(())
    }

    /// Links an ephemeral page's frame.
    fn enter(&mut self, frame: FrameId, standing: Standing) {
        self.pages.frames.get(frame).set_key(self.key);
        self.place(frame, standing);
        self.pages.stamp(frame);
        let page = page(self.pages, frame, self.hash(), self.now);
        self.shard.eviction.admit(page);
        if let Some(pages) = self.shard.came() {
            self.pages.tell_clock(pages);
        }
    }

    /// Links a persistent page's frame, with a place on disk for it.
    fn keep(&mut self, frame: FrameId, standing: Standing) -> Result<(), PutRefused> {
        let frames = &self.pages.frames;
        let number = match standing {
            Standing::OnDisk(number) => {
                let facts = self.shard.rows.get_mut(number);
                facts.sequence = facts.sequence.wrapping_add(1);
                number
            }
            _ => {
                let slot = self.space().and_then(|space| space.take());
                let Some(slot) = slot else {
                    self.shard.push_free(frames, frame, PageKind::Persistent);
                    return Err(PutRefused::SpillFull);
                };
                self.shard.rows.add(self.key, slot)
            }
        };
        frames.get(frame).set_key(self.key);
        frames.get(frame).set_note(number);
        self.place(frame, standing);
        self.shard.kept.push(frames, frame);
        Ok(())
    }

    /// Has the directory say that the page is in a frame.
    fn place(&mut self, frame: FrameId, standing: Standing) {
        let frames = &self.pages.frames;
        let (key, object, here) = (self.key, self.object, Whereabouts::Here(frame));
        match standing {
            Standing::OnDisk(number) => {
                let on_disk = Whereabouts::OnDisk(number);
                self.shard.set(frames, object, key, on_disk, here);
            }
            _ => self.shard.add(frames, object, key, standing, here),
        }
    }

    pub(super) fn space(&self) -> Option<Arc<Space>> {
        self.pages.pools.space(self.pool.base)
    }

    /// Goes on to another page of the object.
    pub(super) fn turn_to(&mut self, index: u32) {
        self.key.index = PageIndex(index);
    }

    /// Has the processor fetch the page while another is copied: what it fetches by itself ends with each page.
    pub(super) fn expect(&self) {
        if let Some(Whereabouts::Here(frame)) = self.shard.directory.guess(self.object, self.key) {
            self.pages.frames.expect_next_page(frame);
        }
    }

    pub(super) fn get(&mut self, visit: impl FnOnce(&[u8])) -> Get {
        let hash = self.hash();
        self.shard.tally.gets.bump();
        let what = match self.pool.is_exclusive() {
            true => SampledUse::Get,
            false => SampledUse::GetKeeping,
        };
        self.shard.sample(hash, what);
        if self.pool.is_exclusive() {
            self.shard.expect_ghost(hash);
            return self.take(hash, visit);
        }
        let at = self.shard.find(&self.pages.frames, self.object, self.key);
        match at {
            None => Get::Miss,
            Some(Whereabouts::Here(frame)) if self.is_valid(frame) => {
                self.pages.frames.expect_page(frame);
                self.hit(frame, visit);
                Get::Hit
            }
            Some(Whereabouts::Here(_)) => {
                self.flush_quietly();
                Get::Miss
            }
            Some(Whereabouts::OnDisk(number)) => self.read(number, visit),
        }
    }

    /// A page of an exclusive pool was asked for: it leaves.
    fn take(&mut self, hash: u64, visit: impl FnOnce(&[u8])) -> Get {
        let pages = self.pages;
        let (object, key) = (self.object, self.key);
        let at = self.shard.remove_to_read(&pages.frames, object, key);
        let Some(Whereabouts::Here(frame)) = at else {
            self.shard.eviction.miss(hash);
            return Get::Miss;
        };
        let page = page(pages, frame, hash, self.now);
        if !self.is_valid(frame) {
            self.shard.eviction.lose(page);
            return Get::Miss;
        }
        self.shard.tally.hits.bump();
        let block = pages.arena.block(pages.frames.block(frame));
        block.hit(self.now, self.luck);
        pages.frames.expect_neighbours(frame);
        visit(pages.bytes(frame));
        pages.lose(frame);
        self.shard.eviction.take(page);
        pages.free(&mut self.shard, frame, PageKind::Ephemeral);
        Get::Hit
    }

    /// A page that is here was asked for.
    fn hit(&mut self, frame: FrameId, visit: impl FnOnce(&[u8])) {
        self.shard.tally.hits.bump();
        let pages = self.pages;
        let page = page(pages, frame, self.hash(), self.now);
        let block = pages.arena.block(pages.frames.block(frame));
        block.hit(self.now, self.luck);
        match self.pool.kind() {
            PageKind::Ephemeral => {
                pages.stamp(frame);
                self.shard.eviction.hit(page);
            }
            PageKind::Persistent => self.shard.kept.requeue(&pages.frames, frame),
        }
        visit(pages.bytes(frame));
    }

    /// A persistent page that is on disk only was asked for. While the disk is read the shard is not locked, and no
    /// block is held back.
    fn read(&mut self, number: u32, visit: impl FnOnce(&[u8])) -> Get {
        let Some(space) = self.space() else {
            return Get::Failed;
        };
        let mut page = vec![0; self.pages.page_bytes()];
        loop {
            let facts = self.shard.rows.get(number);
            let (worker, mut read) = (self.worker, Ok(()));
            MutexGuard::unlocked(&mut self.shard, || {
                worker.aside(&mut || read = space.spill.read(facts.slot, &mut page));
            });
            if !self.id.is_some_and(|id| self.pages.pools.is_alive(id)) {
                return Get::NoPool; // ended while the disk was read
            }
            match self.shard.find(&self.pages.frames, self.object, self.key) {
                // Nobody changed it meanwhile, so this is the page.
                Some(Whereabouts::OnDisk(again))
                    if again == number && self.shard.rows.get(again).sequence == facts.sequence =>
                {
                    if read.is_err() {
                        return Get::Failed;
                    }
                    self.shard.tally.hits.bump();
                    visit(&page);
                    return Get::Hit;
                }
                Some(Whereabouts::OnDisk(again)) if again == number => {}
                Some(Whereabouts::OnDisk(_)) | None => return Get::Miss,
                Some(Whereabouts::Here(frame)) => {
                    self.hit(frame, visit);
                    return Get::Hit;
                }
            }
        }
    }

    /// Removes the page, wherever it is. Needs no memory and waits for nothing (R-F3).
    pub(super) fn flush(&mut self) {
        let hash = self.hash();
        self.shard.sample(hash, SampledUse::Flush);
        match self.flush_quietly() {
            true => self.shard.tally.flushes.bump(),
            false => self.shard.eviction.forget_absent(hash),
        }
    }

    /// Removes the page without counting it. Says whether it was there.
    fn flush_quietly(&mut self) -> bool {
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
                        self.forget_slot(number);
                    }
                    _ => {
                        let page = page(self.pages, frame, self.hash(), self.now);
                        match valid {
                            true => self.shard.eviction.forget(page),
                            false => self.shard.eviction.lose(page),
                        }
                    }
                }
                if valid {
                    self.pages.lose(frame);
                    let kind = self.pool.kind();
                    self.pages.free(&mut self.shard, frame, kind);
                }
            }
            Some(Whereabouts::OnDisk(number)) => self.forget_slot(number),
        }
        true
    }

    fn forget_slot(&mut self, number: u32) {
        if let Some(slot) = self.shard.rows.forget(number)
            && let Some(space) = self.space()
        {
            space.give_back(slot);
        }
    }

    /// Flushes a part of the object; says where the next begins.
    pub(super) fn flush_part(
        &mut self,
        from: u32,
        found: &mut Vec<(Key, Whereabouts)>,
    ) -> Option<u32> {
        found.clear();
        let mut next = Some(from);
        while let Some(from) = next
            && found.len() < PIECE
            && has_room(found, EXTENT_PAGES as usize)
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

fn page(pages: &Pages, frame: FrameId, hash: u64, now: Second) -> Page<'_> {
    Page {
        frames: &pages.frames,
        frame,
        hash,
        now,
    }
}
