//! Pages that have come, of which others have yet to hear.

use super::Pages;
use super::frame::FrameId;
use crate::arena::{Blank, BlockId, settle};
use crate::tenants::Tenant;

/// Pages that come together, at the most: those of a group, or of a part of a run.
pub(super) const TOGETHER_MAX: usize = 16;

/// Pages that come while their shards stay locked. To count a page in its block, or to have others see it, is to wait
/// until all that was written has gone its way: so that is done once for all of them, before the first of their shards
/// is unlocked.
pub(super) struct Arrivals<'a> {
    pages: &'a Pages,
    streams: bool,
    uncounted: [BlockId; TOGETHER_MAX],
    count: usize,
}

impl<'a> Arrivals<'a> {
    /// None yet, of a tenant.
    pub(super) fn new(pages: &'a Pages, tenant: &Tenant) -> Arrivals<'a> {
        Arrivals {
            pages,
            streams: tenant.has_more_than_caches(),
            uncounted: [BlockId(0); TOGETHER_MAX],
            count: 0,
        }
    }

    /// Has a frame written.
    pub(super) fn write(&mut self, frame: FrameId, fill: impl FnOnce(&mut Blank<'_>)) {
        let streams = self.streams;
        self.pages.write(frame, |bytes| match streams {
            true => fill(&mut Blank::streaming(bytes)),
            false => fill(&mut Blank::from(bytes)),
        });
    }

    /// A frame has a page now.
    pub(super) fn count(&mut self, frame: FrameId) {
        if self.count == TOGETHER_MAX {
            self.count_all();
        }
        self.uncounted[self.count] = self.pages.frames.block(frame);
        self.count += 1;
    }

    /// Has everybody see them.
    pub(super) fn settle(&mut self) {
        if self.streams {
            settle();
        }
        self.count_all();
    }

    /// Has their blocks count them: before any page leaves, which may be one of them.
    pub(super) fn count_all(&mut self) {
        for block in &self.uncounted[..std::mem::take(&mut self.count)] {
            self.pages.arena.block(*block).gain_page();
        }
    }
}

impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}
