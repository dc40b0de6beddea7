//! Evicting: who leaves for a frame, and who leaves with it.
//!
//! The eviction names one page. Where the windows of its pool leave whole, those of its window that are there go along:
//! whoever wants the window has to wait for the backing anyway.

use sublet_types::{PageIndex, Second, Windows};

use super::Pages;
use super::directory::Whereabouts;
use super::shard::Shard;
use crate::api::SampledUse;
use crate::arena::PageKind;
use crate::eviction::Page;
use crate::frames::FrameId;
use crate::frames::Key;
use crate::tenants::Tenant;

/// Pages of a window that leaves whole: an aligned run of an object. Chosen by evidence
/// (`docs/decisions/2026-11-22-windows-whole.md`).
pub(crate) const WINDOW_PAGES: u32 = 8;

/// Places in dropped blocks that one put clears away on its way to a frame: some ten microseconds. The sweep has the rest.
const CLEARED_MAX: u32 = 256;

/// What is left of that.
pub(super) struct Patience(u32);

impl Default for Patience {
    fn default() -> Patience {
        Patience(CLEARED_MAX)
    }
}

impl Patience {
    /// That of who may take his time.
    pub(super) fn endless() -> Patience {
        Patience(u32::MAX)
    }

    /// Another one was in the way.
    pub(super) fn wear(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    pub(super) fn is_over(&self) -> bool {
        self.0 == 0
    }
}

/// Evicts one of a shard's pages, for its frame: its block goes on counting it, for the page that comes into it.
/// `None` if there is nobody to go, or too much in the way.
pub(super) fn evict(
    pages: &Pages,
    owner: &Tenant,
    shard: &mut Shard,
    now: Second,
    patience: &mut Patience,
) -> Option<FrameId> {
    let mut evicting = Evicting {
        pages,
        owner,
        shard,
        now,
    };
    while !patience.is_over() {
        let frame = evicting.shard.eviction.victim(&pages.frames, now)?;
        let key = pages.frames.get(frame).key();
        let left = evicting.let_go(frame, key);
        if pages.pools.windows(key.pool) == Windows::Whole {
            evicting.neighbours(key);
        }
        match left {
            Remains::Frame => {
                evicting.shard.debt.give();
                evicting.tell();
                return Some(frame);
            }
            Remains::NoFrame => pages.lose(frame),
            Remains::Dropped => patience.wear(),
        }
    }
    None
}

/// What a page that was evicted leaves behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remains {
    /// A frame that can be used again.
    Frame,
    /// A frame that nothing new may come into.
    NoFrame,
    /// Nothing: its block was dropped before.
    Dropped,
}

struct Evicting<'a> {
    pages: &'a Pages,
    owner: &'a Tenant,
    shard: &'a mut Shard,
    now: Second,
}

impl Evicting<'_> {
    /// Tells the tenant how old what goes next is, now and then.
    fn tell(&mut self) {
        if !self.shard.is_time_to_tell() {
            return;
        }
        if let Some(oldest) = self.shard.eviction.oldest() {
            self.owner.tails.note_page(self.pages.written_at(oldest));
        }
    }

    /// Lets go of what is here of a page's window. Their frames go to the shard's stock.
    fn neighbours(&mut self, key: Key) {
        let (pages, object) = (self.pages, self.object(key));
        let first = key.index.0 - key.index.0 % WINDOW_PAGES;
        for index in first..=first + (WINDOW_PAGES - 1) {
            let key = key.at(PageIndex(index));
            let at = self.shard.find(&pages.frames, object, key);
            let Some(Whereabouts::Here(frame)) = at else {
                continue;
            };
            self.shard.eviction.go_along(Page {
                frames: &pages.frames,
                frame,
                hash: pages.seed.page_of(object, key.index),
                now: self.now,
            });
            let left = self.let_go(frame, key);
            if left != Remains::Dropped {
                pages.lose(frame);
            }
            if left == Remains::Frame {
                self.shard
                    .push_free(&pages.frames, frame, PageKind::Ephemeral);
            }
        }
    }

    /// Forgets where a page is that its eviction has let go of.
    fn let_go(&mut self, frame: FrameId, key: Key) -> Remains {
        let pages = self.pages;
        let object = self.object(key);
        self.shard.remove(&pages.frames, object, key);
        let block = pages.arena.block(pages.frames.block(frame));
        if !block.is_of_pages(self.owner.id, PageKind::Ephemeral) {
            return Remains::Dropped;
        }
        self.shard.tally.evictions.bump();
        let hash = pages.seed.page_of(object, key.index);
        self.shard.sample(hash, SampledUse::Evict);
        match block.is_leaving() {
            true => Remains::NoFrame,
            false => Remains::Frame,
        }
    }

    fn object(&self, key: Key) -> u64 {
        self.pages.seed.object(key.pool, key.object)
    }
}
