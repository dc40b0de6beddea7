//! Evicting: who leaves for a frame, and who leaves with it.
//!
//! The eviction names one page. Where the windows of its pool leave whole, those of its window that are there go along:
//! whoever wants the window has to wait for the backing anyway.

use sublet_types::{PageIndex, Second, Windows};

use super::Pages;
use super::directory::Whereabouts;
use super::frame::FrameId;
use super::key::Key;
use super::shard::Shard;
use crate::arena::PageKind;
use crate::eviction::Page;
use crate::tenants::Tenant;

/// Pages of a window that leaves whole: an aligned run of an object. Chosen by evidence
/// (`docs/decisions/2026-11-22-windows-whole.md`).
pub(crate) const WINDOW_PAGES: u32 = 8;

/// Evicts one of a shard's pages, for its frame. `None` if there is nobody to go.
pub(super) fn evict(
    pages: &Pages,
    owner: &Tenant,
    shard: &mut Shard,
    now: Second,
) -> Option<FrameId> {
    let mut evicting = Evicting {
        pages,
        owner,
        shard,
        now,
    };
    loop {
        let frame = evicting.shard.eviction.victim(&pages.frames, now)?;
        let key = pages.frames.get(frame).key();
        let usable = evicting.let_go(frame, key);
        if pages.pools.windows(key.pool) == Windows::Whole {
            evicting.neighbours(key);
        }
        if usable {
            return Some(frame);
        }
    }
}

struct Evicting<'a> {
    pages: &'a Pages,
    owner: &'a Tenant,
    shard: &'a mut Shard,
    now: Second,
}

impl Evicting<'_> {
    /// Lets go of what is here of a page's window. Their frames go to the shard's stock.
    fn neighbours(&mut self, key: Key) {
        let (pages, object) = (self.pages, self.object(key));
        let first = key.index.0 - key.index.0 % WINDOW_PAGES;
        for index in first..first.saturating_add(WINDOW_PAGES) {
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
            if self.let_go(frame, key) {
                self.shard.free[PageKind::Ephemeral as usize].push(&pages.frames, frame);
            }
        }
    }

    /// Forgets where a page is that its eviction has let go of. Says whether its frame can be used again.
    fn let_go(&mut self, frame: FrameId, key: Key) -> bool {
        let pages = self.pages;
        let object = self.object(key);
        self.shard.remove(&pages.frames, object, key);
        let block = pages.arena.block(pages.frames.block(frame));
        if !block.is_of_pages(self.owner.id, PageKind::Ephemeral) {
            return false;
        }
        block.lose_page();
        self.shard.tally.evictions += 1;
        !pages.is_leaving(frame)
    }

    fn object(&self, key: Key) -> u64 {
        self.pages.seed.object(key.pool, key.object)
    }
}
