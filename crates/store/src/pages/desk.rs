//! The verbs: put, get, flush.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::MutexGuard;
use sublet_types::{ObjectId, PageIndex, PoolId, Second};

use super::directory::Whereabouts;
use super::evict::evict;
use super::frame::{FrameId, QueueId};
use super::holdings::Holdings;
use super::key::Key;
use super::pools::{Pool, Space};
use super::shard::{SampledUse, Shard};
use super::{Aside, Pages};
use crate::api::{Get, PageKey, Put, PutRefused};
use crate::arena::PageKind;
use crate::eviction::Page;
use crate::tenants::Tenant;

/// Pages of an object that are flushed in one go.
const FLUSHED_AT_ONCE: usize = 4096;

/// Pages of a run that are copied while their shard stays locked, at the most: some microseconds for who waits.
const LOCKED_RUN: u32 = 16;

const NO_POOL: Put = Put::Refused(PutRefused::NoPool);

/// One tenant's access to the page store, at one moment. Its worker is pinned.
pub(crate) struct Desk<'a> {
    pub(crate) pages: &'a Pages,
    pub(crate) tenant: &'a Tenant,
    pub(crate) now: Second,
    /// A number that differs from call to call.
    pub(crate) luck: u64,
    pub(crate) worker: &'a dyn Aside,
}

/// What became of an attempt to put.
pub(crate) enum Tried<'a, F> {
    /// It is decided.
    Done(Put),
    /// No frame is free and none may be displaced yet: whoever is charged needs a block.
    NeedsBlock(&'a Tenant, PageKind, F),
}

/// Whether a put that finds no free frame may displace a page at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Displacing {
    /// Only where nobody else could give way.
    IfBound,
    /// It has been found out that nobody else should.
    Always,
}

/// Where a frame for a new page came from.
enum Found {
    Free(FrameId),
    /// Another page of the tenant went for it.
    Displaced(FrameId),
    NeedsBlock,
    Nowhere,
}

/// A page of a pool whose shard is locked.
pub(super) struct Open<'a> {
    pub(super) pages: &'a Pages,
    pub(super) owner: &'a Tenant,
    pub(super) holdings: &'a Holdings,
    /// The handle; none where a dead pool's pages are removed.
    id: Option<PoolId>,
    pub(super) pool: Pool,
    pub(super) object: u64,
    pub(super) key: Key,
    pub(super) shard: MutexGuard<'a, Shard>,
    now: Second,
    luck: u64,
    worker: &'a dyn Aside,
}

impl<'a> Desk<'a> {
    /// Locks the shard of a key, if its pool is this tenant's.
    pub(super) fn open(&self, id: PoolId, object: ObjectId, index: PageIndex) -> Option<Open<'a>> {
        let pages = self.pages;
        let pool = pages.pools.check(id, self.tenant.id)?;
        let owner = match pool.owner == self.tenant.id {
            true => self.tenant,
            false => pages.tenants.get(pool.owner)?,
        };
        let holdings = pages.holdings(owner);
        let hash = pages.seed.object(pool.base, object);
        let shard = holdings.shard(hash).lock();
        pages.pools.is_alive(id).then_some(Open {
            pages,
            owner,
            holdings,
            id: Some(id),
            pool,
            object: hash,
            key: Key {
                pool: pool.base,
                object,
                index,
            },
            shard,
            now: self.now,
            luck: self.luck,
            worker: self.worker,
        })
    }

    /// Puts a page, if a frame can be had without leaving the shard.
    pub(crate) fn try_put<F: FnOnce(&mut [u8])>(
        &self,
        key: PageKey,
        displacing: Displacing,
        fill: F,
    ) -> Tried<'a, F> {
        match self.open(key.pool, key.object, key.index) {
            None => Tried::Done(NO_POOL),
            Some(mut open) => {
                let tried = open.put(displacing, fill);
                if let Tried::Done(put) = &tried {
                    open.count_put(*put);
                    if put.is_stored() {
                        self.note_toucher(key, open.pool);
                    }
                }
                tried
            }
        }
    }

    /// Puts a part of a run of an object's pages under one lock, as far as frames can be had there; `told` hears what
    /// became of each. Says how far it came, and who needs a block of which kind before it can go on.
    pub(crate) fn put_part(
        &self,
        key: PageKey,
        part: Range<u32>,
        fill: &mut impl FnMut(u32, &mut [u8]),
        told: &mut impl FnMut(u32, Put),
    ) -> (u32, Option<(&'a Tenant, PageKind)>) {
        let part = part.start..part.end.min(part.start + LOCKED_RUN);
        let Some(mut open) = self.open(key.pool, key.object, key.index) else {
            part.clone().for_each(|n| told(n, NO_POOL));
            return (part.end, None);
        };
        let pool = open.pool;
        let (mut stored, mut needs) = (false, None);
        let stopped = part.clone().find(|n| {
            open.turn_to(key.index.0 + n);
            match open.put(Displacing::IfBound, |page| fill(*n, page)) {
                Tried::Done(put) => {
                    open.count_put(put);
                    stored |= put.is_stored();
                    told(*n, put);
                }
                Tried::NeedsBlock(owner, kind, _) => needs = Some((owner, kind)),
            }
            needs.is_some()
        });
        drop(open);
        if stored {
            self.note_toucher(key, pool);
        }
        (stopped.unwrap_or(part.end), needs)
    }

    /// Gets a page.
    pub(crate) fn get(&self, key: PageKey, visit: impl FnOnce(&[u8])) -> Get {
        match self.open(key.pool, key.object, key.index) {
            None => Get::NoPool,
            Some(mut open) => {
                let pool = open.pool;
                let got = open.get(visit);
                drop(open);
                if got == Get::Hit {
                    self.note_toucher(key, pool);
                }
                got
            }
        }
    }

    /// Gets `count` pages of an object in their order, from `key` on, up to the first that is not there. Says how many
    /// it got; `visit` sees the nth.
    pub(crate) fn get_run(
        &self,
        key: PageKey,
        count: u32,
        mut visit: impl FnMut(u32, &[u8]),
    ) -> u32 {
        let mut got = 0;
        while got < count {
            let part = got..count.min(got + LOCKED_RUN);
            let end = part.end;
            got = self.get_part(key, part, &mut visit);
            if got < end {
                break;
            }
        }
        got
    }

    /// Gets a part of a run under one lock. Says how far it came.
    fn get_part(&self, key: PageKey, part: Range<u32>, visit: &mut impl FnMut(u32, &[u8])) -> u32 {
        let Some(mut open) = self.open(key.pool, key.object, key.index) else {
            return part.start;
        };
        let pool = open.pool;
        let mut here = part.clone();
        let missed = here.find(|n| {
            if n + 1 < part.end {
                open.turn_to(key.index.0 + n + 1);
                open.expect();
            }
            open.turn_to(key.index.0 + n);
            open.get(|bytes| visit(*n, bytes)) != Get::Hit
        });
        drop(open);
        let end = missed.unwrap_or(part.end);
        if end > part.start {
            self.note_toucher(key, pool);
        }
        end
    }

    /// Whether a get would find a page.
    pub(crate) fn has(&self, key: PageKey) -> bool {
        let open = self.open(key.pool, key.object, key.index);
        open.is_some_and(|open| open.is_there())
    }

    /// Flushes a page; not finding it is fine. Says whether the pool is there.
    pub(crate) fn flush_page(&self, key: PageKey) -> bool {
        let open = self.open(key.pool, key.object, key.index);
        open.map(|mut open| open.flush()).is_some()
    }

    /// Flushes an object. Says whether the pool is there.
    pub(crate) fn flush_object(&self, pool: PoolId, object: ObjectId) -> bool {
        let mut found = Vec::with_capacity(FLUSHED_AT_ONCE.min(512));
        let mut next = Some(0);
        while let Some(from) = next {
            let Some(mut open) = self.open(pool, object, PageIndex(0)) else {
                return false;
            };
            next = open.flush_part(from, &mut found);
        }
        true
    }
}

impl Desk<'_> {
    /// Removes every page of a pool whose handles are dead.
    pub(super) fn remove_pages(&self, pool: Pool) {
        let holdings = self.pages.holdings(self.tenant);
        for (number, shard) in holdings.shards().iter().enumerate() {
            let keys = self
                .pages
                .keys_of(self.tenant, number, |key| key.pool == pool.base);
            let Some(first) = keys.first() else {
                continue;
            };
            let mut open = Open {
                pages: self.pages,
                owner: self.tenant,
                holdings,
                id: None,
                pool,
                object: 0,
                key: *first,
                shard: shard.lock(),
                now: self.now,
                luck: self.luck,
                worker: self.worker,
            };
            for key in keys {
                open.key = key;
                open.object = self.pages.seed.object(key.pool, key.object);
                open.flush();
            }
        }
    }
}

impl Open<'_> {
    /// Whether a frame's block is still what it was when the page came into it.
    pub(super) fn is_valid(&self, frame: FrameId) -> bool {
        let block = self.pages.frames.block(frame);
        let block = self.pages.arena.block(block);
        block.is_of_pages(self.owner.id, self.pool.kind())
    }

    fn is_there(&self) -> bool {
        match self.shard.find(&self.pages.frames, self.object, self.key) {
            Some(Whereabouts::Here(frame)) => self.is_valid(frame),
            Some(Whereabouts::OnDisk(_)) => true,
            None => false,
        }
    }

    fn hash(&self) -> u64 {
        self.pages.seed.page_of(self.object, self.key.index)
    }

    fn count_put(&mut self, put: Put) {
        let tally = &mut self.shard.tally;
        tally.puts += 1;
        match put {
            Put::Stored | Put::Replaced => tally.puts_succeeded += 1,
            Put::Displaced => {}
            Put::Refused(_) => tally.puts_refused += 1,
        }
        let hash = self.hash();
        self.shard.sample(hash, SampledUse::Put);
    }

    fn put<'b, F: FnOnce(&mut [u8])>(&mut self, displacing: Displacing, fill: F) -> Tried<'b, F>
    where
        Self: 'b,
    {
        let hash = self.hash();
        self.shard
            .expect(&self.pages.frames, self.pool.kind(), hash);
        let mut at = self.shard.find(&self.pages.frames, self.object, self.key);
        if let Some(Whereabouts::Here(frame)) = at {
            if self.is_valid(frame) {
                return Tried::Done(self.replace(frame, fill));
            }
            self.flush_quietly();
            at = None;
        }
        if at.is_none() && self.holdings.is_frozen() {
            return Tried::Done(Put::Refused(PutRefused::Frozen));
        }
        let on_disk = matches!(at, Some(Whereabouts::OnDisk(_)));
        let (frame, done) = match self.frame(displacing) {
            Found::Free(frame) => (frame, Put::Stored),
            Found::Displaced(frame) => (frame, Put::Displaced),
            Found::NeedsBlock => {
                let owner = self.pages.tenants.get(self.owner.id);
                return match owner {
                    Some(owner) => Tried::NeedsBlock(owner, self.pool.kind(), fill),
                    None => Tried::Done(NO_POOL),
                };
            }
            Found::Nowhere => {
                // R-P3: the old page must not outlive a put that failed.
                self.flush();
                return Tried::Done(Put::Refused(PutRefused::NoMemory));
            }
        };
        let done = match self.store(frame, at.filter(|_| on_disk), fill) {
            Ok(()) if on_disk => Put::Replaced,
            Ok(()) => done,
            Err(refused) => Put::Refused(refused),
        };
        Tried::Done(done)
    }

    /// Writes over a page that is there.
    fn replace(&mut self, frame: FrameId, fill: impl FnOnce(&mut [u8])) -> Put {
        self.pages.write(frame, fill);
        match self.pool.kind() {
            PageKind::Ephemeral => {
                let page = page(self.pages, frame, self.hash(), self.now);
                self.shard.eviction.rewrite(page);
            }
            PageKind::Persistent => {
                let number = self.pages.frames.get(frame).note();
                let facts = self.shard.disk.get_mut(number);
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
        at: Option<Whereabouts>,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), PutRefused> {
        if self.pool.kind() == PageKind::Persistent {
            self.keep(frame, at)?;
        } else {
            self.pages.frames.get(frame).set_key(self.key);
            let (key, object) = (self.key, self.object);
            self.shard
                .insert(&self.pages.frames, object, key, Whereabouts::Here(frame));
            let page = page(self.pages, frame, self.hash(), self.now);
            self.shard.eviction.admit(page);
        }
        self.pages
            .arena
            .block(self.pages.frames.block(frame))
            .gain_page();
        self.pages.write(frame, fill);
        Ok(())
    }

    /// Links a persistent page's frame, with a place on disk for it.
    fn keep(&mut self, frame: FrameId, at: Option<Whereabouts>) -> Result<(), PutRefused> {
        let frames = &self.pages.frames;
        let number = match at {
            Some(Whereabouts::OnDisk(number)) => {
                let facts = self.shard.disk.get_mut(number);
                facts.sequence = facts.sequence.wrapping_add(1);
                number
            }
            _ => {
                let slot = self.space().and_then(|space| space.take());
                let Some(slot) = slot else {
                    self.shard.free[PageKind::Persistent as usize].push(frames, frame);
                    return Err(PutRefused::SpillFull);
                };
                self.shard.disk.add(self.key, slot)
            }
        };
        frames.get(frame).set_key(self.key);
        frames.get(frame).set_note(number);
        let (key, object) = (self.key, self.object);
        let here = Whereabouts::Here(frame);
        match at {
            Some(_) => self.shard.set(frames, object, key, here),
            None => self.shard.insert(frames, object, key, here),
        }
        self.shard.kept.push(frames, frame);
        Ok(())
    }

    pub(super) fn space(&self) -> Option<Arc<Space>> {
        self.pages.pools.space(self.pool.base)
    }

    /// A frame for a new page.
    fn frame(&mut self, displacing: Displacing) -> Found {
        let kind = self.pool.kind();
        if let Some(frame) = self.free_frame(kind) {
            return Found::Free(frame);
        }
        let arena = &self.pages.arena;
        let bound = self.owner.is_at_limit(1, arena.block_bytes());
        if kind == PageKind::Persistent {
            return match self.siblings_frame(kind) {
                Some(frame) => Found::Free(frame),
                None if bound || displacing == Displacing::Always => Found::Nowhere,
                None => Found::NeedsBlock,
            };
        }
        let may_give = arena.ready() as usize > arena.reserve() || arena.may_grow();
        let asks = !bound && (may_give || self.holdings.displaces());
        if asks && displacing == Displacing::IfBound {
            return Found::NeedsBlock;
        }
        if let Some(frame) = self.victim() {
            return Found::Displaced(frame);
        }
        match self.siblings_frame(kind) {
            Some(frame) => Found::Displaced(frame),
            None if bound && displacing == Displacing::IfBound => Found::NeedsBlock,
            None => Found::Nowhere,
        }
    }

    fn free_frame(&mut self, kind: PageKind) -> Option<FrameId> {
        let frames = &self.pages.frames;
        loop {
            while let Some(frame) = self.shard.free[kind as usize].pop_newest(frames) {
                if self.is_valid(frame) && !self.pages.is_leaving(frame) {
                    return Some(frame);
                }
            }
            let mut came = false;
            for frame in self.holdings.some_frames(kind, frames) {
                frames.get(frame).set_shard(self.shard.number());
                self.shard.free[kind as usize].push(frames, frame);
                came = true;
            }
            if !came {
                return None;
            }
        }
    }

    /// Evicts one of this shard's pages, for its frame.
    fn victim(&mut self) -> Option<FrameId> {
        evict(self.pages, self.owner, &mut self.shard, self.now)
    }

    /// A frame of another shard of the tenant: free, or of an ephemeral page that goes. Locks only who is not locked.
    fn siblings_frame(&mut self, kind: PageKind) -> Option<FrameId> {
        let frames = &self.pages.frames;
        for sibling in self.holdings.shards() {
            let Some(mut sibling) = sibling.try_lock() else {
                continue;
            };
            let free = sibling.free[kind as usize].pop_newest(frames);
            let usable = |frame: &FrameId| self.is_valid(*frame) && !self.pages.is_leaving(*frame);
            let frame = match free.filter(usable) {
                Some(frame) => Some(frame),
                None if kind == PageKind::Persistent => None,
                None => evict(self.pages, self.owner, &mut sibling, self.now),
            };
            if let Some(frame) = frame {
                frames.get(frame).set_shard(self.shard.number());
                return Some(frame);
            }
        }
        None
    }

    /// Goes on to another page of the object.
    fn turn_to(&mut self, index: u32) {
        self.key.index = PageIndex(index);
    }

    /// Has the processor fetch the page while another is copied: what it fetches by itself ends with each page.
    fn expect(&self) {
        if let Some(Whereabouts::Here(frame)) = self.shard.directory.guess(self.object, self.key) {
            self.pages.frames.expect_next_page(frame);
        }
    }

    fn get(&mut self, visit: impl FnOnce(&[u8])) -> Get {
        let hash = self.hash();
        self.shard.tally.gets += 1;
        let what = match self.pool.is_exclusive() {
            true => SampledUse::Get,
            false => SampledUse::GetKeeping,
        };
        self.shard.sample(hash, what);
        self.shard.eviction.expect(hash);
        if self.pool.is_exclusive() {
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
        let Some(Whereabouts::Here(frame)) = self.shard.remove(&pages.frames, object, key) else {
            return Get::Miss;
        };
        let page = page(pages, frame, hash, self.now);
        if !self.is_valid(frame) {
            self.shard.eviction.forget(page);
            return Get::Miss;
        }
        self.shard.tally.hits += 1;
        let block = pages.arena.block(pages.frames.block(frame));
        block.hit(self.now, self.luck);
        pages.frames.expect_neighbours(frame);
        visit(pages.bytes(frame));
        block.lose_page();
        self.shard.eviction.take(page);
        pages.free(&mut self.shard, frame, PageKind::Ephemeral);
        Get::Hit
    }

    /// A page that is here was asked for.
    fn hit(&mut self, frame: FrameId, visit: impl FnOnce(&[u8])) {
        self.shard.tally.hits += 1;
        let pages = self.pages;
        let page = page(pages, frame, self.hash(), self.now);
        let block = pages.arena.block(pages.frames.block(frame));
        block.hit(self.now, self.luck);
        match self.pool.kind() {
            PageKind::Ephemeral => self.shard.eviction.hit(page),
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
            let facts = self.shard.disk.get(number);
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
                    if again == number && self.shard.disk.get(again).sequence == facts.sequence =>
                {
                    if read.is_err() {
                        return Get::Failed;
                    }
                    self.shard.tally.hits += 1;
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
        if self.flush_quietly() {
            self.shard.tally.flushes += 1;
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
                        self.shard.eviction.forget(page);
                    }
                }
                if valid {
                    self.pages.arena.block(frames.block(frame)).lose_page();
                    let kind = self.pool.kind();
                    self.pages.free(&mut self.shard, frame, kind);
                }
            }
            Some(Whereabouts::OnDisk(number)) => self.forget_slot(number),
        }
        true
    }

    fn forget_slot(&mut self, number: u32) {
        if let Some(slot) = self.shard.disk.forget(number)
            && let Some(space) = self.space()
        {
            space.give_back(slot);
        }
    }

    /// Flushes a part of the object; says where the next begins.
    fn flush_part(&mut self, from: u32, found: &mut Vec<(Key, Whereabouts)>) -> Option<u32> {
        found.clear();
        let mut next = Some(from);
        while let Some(from) = next
            && found.len() < FLUSHED_AT_ONCE
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
