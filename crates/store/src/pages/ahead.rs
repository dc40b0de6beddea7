//! Looking ahead: what a batch of gets and puts will touch is fetched before the first of them is begun.
//!
//! Alone, a page is a walk from one place in memory to the next, each of which has to be waited for: its leaf, its
//! frame's facts, the page, its neighbours in their queue, its ghost. Of a batch, the same step of every walk is waited
//! for together. Which lines a step wants can be said from what the one before has brought:
//!
//! ```text
//!  1   leaf or slot, ghost; for a put the facts of the frame that it will get
//!  2   facts, block and first lines of the page; for a page that will be displaced also its leaf and ghost
//!  3   the facts of those beside it in its queue
//! ```
//!
//! All of it is a hint: nothing is changed, shards that others have locked are left out, and what is fetched may be
//! somebody else's by the time the batch comes to it.

use parking_lot::Mutex;

use super::Pages;
use super::directory::{Led, Whereabouts};
use super::frame::FrameId;
use super::key::Key;
use super::pools::Pool;
use super::shard::Shard;
use crate::api::{PageKey, PageVerb};
use crate::arena::{PageKind, Wanted};
use crate::tenants::Tenant;

/// Pages whose steps are taken together: as many as the processor waits for side by side.
pub(crate) const BATCH: usize = 32;

/// Who has fewer blocks than this, 64 MiB, has most of it in the processor's caches: there a look ahead costs more than
/// it brings.
const BLOCKS_MIN: u32 = if cfg!(test) { 1 } else { 32 };

/// A page that will be got or put.
#[derive(Clone, Copy)]
struct Coming<'a> {
    pages: &'a Pages,
    shard: &'a Mutex<Shard>,
    pool: Pool,
    verb: PageVerb,
    object: u64,
    key: Key,
    /// Whether a new page will get the shard's next frame: of those that come to a shard one after the other, the first.
    is_first: bool,
    /// What tells where it is, if that is known already.
    led: Option<Led>,
    /// The frame that it probably is in, or will be in.
    frame: Option<FrameId>,
}

impl Pages {
    /// Has the processor fetch what gets and puts of a tenant's pages will touch. Looks at the first [`BATCH`] keys.
    pub(crate) fn look_ahead(
        &self,
        tenant: &Tenant,
        verb: PageVerb,
        keys: impl Iterator<Item = PageKey>,
    ) {
        if tenant.held_by_pages() < BLOCKS_MIN {
            return;
        }
        let mut batch = [const { None }; BATCH];
        let mut before = None;
        for (place, key) in batch.iter_mut().zip(keys) {
            *place = self.coming(tenant, verb, key, before);
            before = place.as_ref().map(|coming: &Coming<'_>| coming.shard);
        }
        let mut wanted = Wanted::new();
        for step in [Coming::find, Coming::reach, Coming::link] {
            for coming in batch.iter_mut().flatten() {
                step(coming, &mut wanted);
            }
            wanted.fetch();
        }
    }

    /// A page of one of a tenant's own pools, after one that comes to the shard `before`.
    fn coming<'a>(
        &'a self,
        tenant: &'a Tenant,
        verb: PageVerb,
        key: PageKey,
        before: Option<&'a Mutex<Shard>>,
    ) -> Option<Coming<'a>> {
        let pool = self.pools.check(key.pool, tenant.id)?;
        if pool.owner != tenant.id {
            return None;
        }
        let object = self.seed.object(pool.base, key.object);
        let shard = self.holdings(tenant).shard(object);
        Some(Coming {
            pages: self,
            shard,
            pool,
            verb,
            object,
            key: Key {
                pool: pool.base,
                object: key.object,
                index: key.index,
            },
            is_first: before.is_none_or(|before| !std::ptr::eq(before, shard)),
            led: None,
            frame: None,
        })
    }
}

impl Coming<'_> {
    /// Wants what says where the page is, and for a put the frame that it will get.
    fn find(&mut self, wanted: &mut Wanted) {
        let Some(shard) = self.shard.try_lock() else {
            return;
        };
        self.led = shard.directory.want(self.object, self.key, wanted);
        if self.has_ghost() {
            want_ghost(self.pages, &shard, self.object, self.key, wanted);
        }
        if let Some(frame) = self.new_frame(&shard) {
            wanted.add(self.pages.frames.line(frame));
        }
    }

    /// Wants the page itself, or the frame that it will get.
    fn reach(&mut self, wanted: &mut Wanted) {
        let Some(shard) = self.shard.try_lock() else {
            return;
        };
        let frames = &self.pages.frames;
        let guess = shard.directory.guess_by(self.led, self.object, self.key);
        let there = match guess {
            // What was known of it may be out of date, and lead anywhere.
            Some(Whereabouts::Here(frame)) if frames.has(frame) => Some(frame),
            _ => None,
        };
        self.frame = there.or_else(|| self.new_frame(&shard));
        let Some(frame) = self.frame else {
            return;
        };
        wanted.add(frames.line(frame));
        frames.want_page(frame, wanted);
        if there.is_none() && frames.get(frame).is_live() {
            let gone = frames.get(frame).key();
            let object = self.pages.seed.object(gone.pool, gone.object);
            shard.directory.want(object, gone, wanted);
            want_ghost(self.pages, &shard, object, gone, wanted);
        }
    }

    /// Wants the frames that it is linked with.
    fn link(&mut self, wanted: &mut Wanted) {
        if let Some(frame) = self.frame.filter(|_| !self.stays_in_line()) {
            self.pages.frames.want_neighbours(frame, wanted);
        }
    }

    /// The frame that a put will probably get.
    fn new_frame(&self, shard: &Shard) -> Option<FrameId> {
        let is_new = self.verb == PageVerb::Put && self.is_first;
        is_new.then(|| shard.next_frame(self.pool.kind()))?
    }

    /// Whether what happens to the page is remembered, or known, when it is gone.
    fn has_ghost(&self) -> bool {
        match self.verb {
            PageVerb::Get => self.pool.is_exclusive(),
            PageVerb::Put => self.pool.kind() == PageKind::Ephemeral,
        }
    }

    /// Whether the page stays where it is in its queue. With some evictions a get moves it all the same.
    fn stays_in_line(&self) -> bool {
        self.verb == PageVerb::Get && self.pool.flags.keeping
    }
}

/// Wants what remembers a page when it is gone.
fn want_ghost(pages: &Pages, shard: &Shard, object: u64, key: Key, wanted: &mut Wanted) {
    let hash = pages.seed.page_of(object, key.index);
    let ghost = shard.eviction.ghost_line(hash);
    ghost.into_iter().for_each(|line| wanted.add(line));
}
