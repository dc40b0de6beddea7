//! Looking ahead: what a batch of gets and puts will touch is fetched before the first of them is begun.
//!
//! Alone, a page is a walk from one place in memory to the next, each of which has to be waited for: its leaf, its frame's
//! facts, the page, its neighbours in their queue, its ghost. Of a batch, the same step of every walk is waited for together. Which lines
//! a step wants can be said from what the one before has brought:
//!
//! ```text
//!  1   leaf or slot, ghost; for a put the facts of the frame that it will get
//!  2   facts, block and first lines of the page; for a page that will be displaced also its leaf and ghost
//!  3   the facts of those beside it in its queue
//! ```
//!
//! All of it is a hint: nothing is changed, shards that others have locked are left out, and what is fetched may be somebody
//! else's by the time the batch comes to it.

use parking_lot::Mutex;

use super::Pages;
use super::desk::Desk;
use super::directory::Whereabouts;
use super::frame::FrameId;
use super::key::Key;
use super::pools::Pool;
use super::shard::Shard;
use crate::api::{PageKey, PageVerb};
use crate::arena::Wanted;

/// Pages whose steps are taken together: as many as the processor waits for side by side.
pub(crate) const BATCH: usize = 32;

/// Who has fewer blocks than this, 64 MiB, has most of it in the processor's caches: there a look ahead costs more than it brings.
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
    /// The frame that it probably is in, or will be in.
    frame: Option<FrameId>,
}

impl<'a> Desk<'a> {
    /// Has the processor fetch what gets and puts of these pages will touch. More than [`BATCH`] at a time are too many.
    pub(crate) fn look_ahead(&self, verb: PageVerb, keys: impl Iterator<Item = PageKey>) {
        let mut keys = keys.peekable();
        if keys.peek().is_none() || self.tenant.held_by_pages() < BLOCKS_MIN {
            return;
        }
        let mut batch = [const { None }; BATCH];
        for (place, key) in batch.iter_mut().zip(keys) {
            *place = self.coming(verb, key);
        }
        let mut wanted = Wanted::new();
        for step in [Coming::find, Coming::reach, Coming::link] {
            for coming in batch.iter_mut().flatten() {
                step(coming, &mut wanted);
            }
            wanted.fetch();
        }
    }

    /// A page of one of this tenant's own pools.
    fn coming(&self, verb: PageVerb, key: PageKey) -> Option<Coming<'a>> {
        let pages = self.pages;
        let pool = pages.pools.check(key.pool, self.tenant.id)?;
        let own = (pool.owner == self.tenant.id).then_some(self.tenant)?;
        let object = pages.seed.object(pool.base, key.object);
        Some(Coming {
            pages,
            shard: pages.holdings(own).shard(object),
            pool,
            verb,
            object,
            key: Key {
                pool: pool.base,
                object: key.object,
                index: key.index,
            },
            frame: None,
        })
    }
}

impl Coming<'_> {
    /// Whether a get leaves everything as it is.
    fn is_only_looked_at(&self) -> bool {
        self.verb == PageVerb::Get && self.pool.flags.keeping
    }

    /// Wants what says where the page is, and for a put the frame that it will get.
    fn find(&mut self, wanted: &mut Wanted) {
        let Some(shard) = self.shard.try_lock() else {
            return;
        };
        shard.directory.want(self.object, self.key, wanted);
        if !self.is_only_looked_at() {
            want_ghost(self.pages, &shard, self.object, self.key, wanted);
        }
        if self.verb == PageVerb::Put {
            let frame = shard.next_frame(self.pool.kind());
            frame
                .into_iter()
                .for_each(|frame| wanted.add(self.pages.frames.line(frame)));
        }
    }

    /// Wants the page itself, or the frame that it will get.
    fn reach(&mut self, wanted: &mut Wanted) {
        let Some(shard) = self.shard.try_lock() else {
            return;
        };
        let frames = &self.pages.frames;
        let there = match shard.directory.guess(self.object, self.key) {
            Some(Whereabouts::Here(frame)) => Some(frame),
            _ => None,
        };
        self.frame = match self.verb {
            PageVerb::Get => there,
            PageVerb::Put => there.or_else(|| shard.next_frame(self.pool.kind())),
        };
        let Some(frame) = self.frame else {
            return;
        };
        wanted.add(frames.line(frame));
        frames.want_page(frame, wanted);
        wanted.add(self.pages.arena.line(frames.block(frame)));
        if there.is_none() && frames.get(frame).is_live() {
            let gone = frames.get(frame).key();
            let object = self.pages.seed.object(gone.pool, gone.object);
            shard.directory.want(object, gone, wanted);
            want_ghost(self.pages, &shard, object, gone, wanted);
        }
    }

    /// Wants the frames that it is linked with.
    fn link(&mut self, wanted: &mut Wanted) {
        if let Some(frame) = self.frame.filter(|_| !self.is_only_looked_at()) {
            self.pages.frames.want_neighbours(frame, wanted);
        }
    }
}

/// Wants what remembers a page when it is gone.
fn want_ghost(pages: &Pages, shard: &Shard, object: u64, key: Key, wanted: &mut Wanted) {
    let hash = pages.seed.page_of(object, key.index);
    let ghost = shard.eviction.ghost_line(hash);
    ghost.into_iter().for_each(|line| wanted.add(line));
}
