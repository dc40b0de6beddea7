//! Eviction of pages: which page leaves for a frame, and which leave with it.
//!
//! The eviction names one page. If the windows of its pool leave whole, the other present pages of its window go along.
//! A client that wants the window has to wait for the backing anyway.

use sublet_types::{PageIndex, Second, WindowEviction};

use super::PageStore;
use super::directory::Whereabouts;
use super::shard::Shard;
use crate::api::{AccessPattern, PageSending, SampledUse};
use crate::arena::PageKind;
use crate::eviction::PageRef;
use crate::frames::FrameId;
use crate::frames::StoredKey;
use crate::tenants::Tenant;

/// Pages of a window that leaves whole: an aligned run of an object. The number was chosen by evidence
/// (`docs/decisions/2026-11-22-windows-whole.md`).
pub(crate) const WINDOW_PAGES: u32 = 8;

/// Entries of dropped blocks that one put removes on its way to a frame. That takes some ten microseconds. The sweep
/// removes the rest.
const CLEARED_MAX: u32 = 256;

/// What is left of that limit.
pub(super) struct SweepBudget(u32);

impl Default for SweepBudget {
    fn default() -> SweepBudget {
        SweepBudget(CLEARED_MAX)
    }
}

impl SweepBudget {
    /// The budget of a thread that may take its time.
    pub(super) fn unlimited() -> SweepBudget {
        SweepBudget(u32::MAX)
    }

    /// Counts one more entry that was in the way.
    pub(super) fn spend(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

/// Evicts one of a shard's pages for its frame. The block goes on counting the page, on behalf of the page that comes
/// into the frame. Returns `None` if there is no page to evict, or if too much is in the way.
pub(super) fn evict(
    pages: &PageStore,
    owner: &Tenant,
    shard: &mut Shard,
    now: Second,
    budget: &mut SweepBudget,
) -> Option<FrameId> {
    let mut evicting = ShardEviction {
        pages,
        owner,
        shard,
        now,
    };
    while !budget.is_spent() {
        let frame = evicting.shard.eviction.victim(&pages.frames, now)?;
        let key = pages.frames.get(frame).key();
        let left = evicting.let_go(frame, key);
        if pages.pools.windows(key.pool) == WindowEviction::Whole {
            evicting.evict_neighbours(key);
        }
        match left {
            EvictedFrame::Frame => {
                evicting.shard.debt.record_given();
                evicting.report_tail();
                return Some(frame);
            }
            EvictedFrame::NoFrame => pages.lose(frame),
            EvictedFrame::Dropped => budget.spend(),
        }
    }
    None
}

/// What an evicted page leaves behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EvictedFrame {
    /// A frame that can be reused.
    Frame,
    /// A frame that nothing new may come into.
    NoFrame,
    /// Nothing. Its block was dropped before.
    Dropped,
}

struct ShardEviction<'a> {
    pages: &'a PageStore,
    owner: &'a Tenant,
    shard: &'a mut Shard,
    now: Second,
}

impl ShardEviction<'_> {
    /// Reports to the tenant, now and then, how old the next victim is.
    fn report_tail(&mut self) {
        if !self.shard.is_report_due() {
            return;
        }
        if let Some(oldest) = self.shard.eviction.oldest() {
            self.owner.tails.record_page(self.pages.written_at(oldest));
        }
    }

    /// Evicts the other present pages of a page's window. Their frames go to the shard's free list.
    fn evict_neighbours(&mut self, key: StoredKey) {
        let (pages, object) = (self.pages, self.object(key));
        let first = key.index.0 - key.index.0 % WINDOW_PAGES;
        for index in first..=first + (WINDOW_PAGES - 1) {
            let key = key.at(PageIndex(index));
            let at = self.shard.find(&pages.frames, object, key);
            let Some(Whereabouts::Here(frame)) = at else {
                continue;
            };
            self.shard.eviction.evict_along(PageRef {
                frames: &pages.frames,
                frame,
                hash: pages.seed.page_of(object, key.index),
                now: self.now,
            });
            let left = self.let_go(frame, key);
            if left != EvictedFrame::Dropped {
                pages.lose(frame);
            }
            if left == EvictedFrame::Frame {
                self.shard
                    .push_free(&pages.frames, frame, PageKind::Ephemeral);
            }
        }
    }

    /// Removes the directory entry of a page that its eviction has dropped, or makes it lead to a lender.
    fn let_go(&mut self, frame: FrameId, key: StoredKey) -> EvictedFrame {
        let pages = self.pages;
        let object = self.object(key);
        let is_sent = self.goes_to_a_lender(frame, key)
            && pages.send_away(self.owner, self.shard, frame, self.now);
        if !is_sent {
            self.shard.remove(&pages.frames, object, key);
        }
        if !self.is_own(frame) {
            return EvictedFrame::Dropped;
        }
        self.shard.tally.evictions.bump();
        if pages.pools.sending(key.pool) != PageSending::Allowed {
            self.shard.tally.count_unsendable();
        }
        let hash = pages.seed.page_of(object, key.index);
        self.shard.sample(hash, SampledUse::Evict);
        let block = pages.arena.block(pages.frames.block(frame));
        match block.is_leaving() {
            true => EvictedFrame::NoFrame,
            false => EvictedFrame::Frame,
        }
    }

    /// Returns whether a page is one for a lender. One of a sequential run is not (P6): its backing gives such pages
    /// quickly, and they would push out those that are worth it. Nor is one whose pool the lenders are too slow for.
    fn goes_to_a_lender(&self, frame: FrameId, key: StoredKey) -> bool {
        let pages = self.pages;
        let pattern = || pages.frames.get(frame).pattern();
        pages.far.has_blocks()
            && pages.pools.sending(key.pool) == PageSending::Allowed
            && pattern() == AccessPattern::Random
            && self.is_own(frame)
    }

    /// Returns whether a frame's block is still the owner's.
    fn is_own(&self, frame: FrameId) -> bool {
        let block = self.pages.arena.block(self.pages.frames.block(frame));
        block.is_of_pages(self.owner.id, PageKind::Ephemeral)
    }

    fn object(&self, key: StoredKey) -> u64 {
        self.pages.seed.object(key.pool, key.object)
    }
}
