//! Pages that have arrived and that their blocks and the clock do not count yet.

use super::PageStore;
use super::tenant_pages::TenantPages;
use crate::arena::{PageKind, SameWord, UnwrittenPage, fence_streamed};
use crate::frames::FrameId;

/// The most pages that arrive together: those of a group, or of a part of a run.
pub(super) const TOGETHER_MAX: usize = 16;

/// Pages that arrive while their shards stay locked.
///
/// To count a page in its block, or to make others see it, the thread must wait until all its writes have reached
/// memory. So it does that once for all pages, before it unlocks the first of their shards.
pub(super) struct Arrivals<'a> {
    pages: &'a PageStore,
    streams: bool,
    uncounted: [FrameId; TOGETHER_MAX],
    pending: usize,
}

impl<'a> Arrivals<'a> {
    /// An empty batch for a tenant.
    pub(super) fn new(pages: &'a PageStore, tenant_pages: &TenantPages) -> Arrivals<'a> {
        Arrivals {
            pages,
            streams: tenant_pages.are_beyond_caches(),
            uncounted: [FrameId(0); TOGETHER_MAX],
            pending: 0,
        }
    }

    /// Writes a frame. Persistent pages do not stream, because finding their place on disk waits for the stores before.
    /// Returns the page's word if all of its words are equal.
    pub(super) fn write(
        &mut self,
        frame: FrameId,
        kind: PageKind,
        fill: impl FnOnce(&mut UnwrittenPage<'_>),
    ) -> Option<SameWord> {
        let streams = self.streams && kind == PageKind::Ephemeral;
        let mut same = None;
        self.pages.write(frame, |bytes| {
            let mut page = match streams {
                true => UnwrittenPage::streaming(bytes),
                false => UnwrittenPage::from(bytes),
            };
            fill(&mut page);
            same = page.same_word();
        });
        same
    }

    /// Records that a frame has a page now, which is to be counted.
    pub(super) fn record(&mut self, frame: FrameId) {
        if self.pending == TOGETHER_MAX {
            self.count_all();
        }
        self.uncounted[self.pending] = frame;
        self.pending += 1;
    }

    /// Makes the pages visible and counts them, so that their shards may be unlocked.
    pub(super) fn publish(&mut self) {
        if self.streams {
            fence_streamed();
        }
        self.count_all();
    }

    /// Counts the pages in their blocks. Call it before any page leaves, which may be one of them.
    pub(super) fn count_all(&mut self) {
        let came = &self.uncounted[..std::mem::take(&mut self.pending)];
        let block = |frame: &FrameId| self.pages.frames.block(*frame);
        for of_a_block in came.chunk_by(|a, b| block(a) == block(b)) {
            self.pages.gain(of_a_block[0], of_a_block.len() as u32);
        }
    }
}

/// Serves builds that survive a panic, such as tests. A thread that panics while it fills a page has unlocked the
/// page's shard before.
impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}
