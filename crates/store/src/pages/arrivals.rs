//! Pages that have come, of which others have yet to hear.

use super::Pages;
use super::holdings::Holdings;
use crate::arena::{Blank, PageKind, land};
use crate::frames::FrameId;

/// Pages that come together, at the most: those of a group, or of a part of a run.
pub(super) const TOGETHER_MAX: usize = 16;

/// Pages that come while their shards stay locked. To count a page in its block, or to have others see it, is to wait
/// until all that was written has gone its way: so that is done once for all of them, before the first of their shards
/// is unlocked.
pub(super) struct Arrivals<'a> {
    pages: &'a Pages,
    streams: bool,
    uncounted: [FrameId; TOGETHER_MAX],
    pending: usize,
}

impl<'a> Arrivals<'a> {
    /// None yet, of a tenant.
    pub(super) fn new(pages: &'a Pages, holdings: &Holdings) -> Arrivals<'a> {
        Arrivals {
            pages,
            streams: holdings.are_beyond_caches(),
            uncounted: [FrameId(0); TOGETHER_MAX],
            pending: 0,
        }
    }

    /// Has a frame written. To find a persistent page's place on disk is to wait for the stores before: such pages do not
    /// stream.
    pub(super) fn write(
        &mut self,
        frame: FrameId,
        kind: PageKind,
        fill: impl FnOnce(&mut Blank<'_>),
    ) {
        let streams = self.streams && kind == PageKind::Ephemeral;
        self.pages.write(frame, |bytes| match streams {
            true => fill(&mut Blank::streaming(bytes)),
            false => fill(&mut Blank::from(bytes)),
        });
    }

    /// A frame has a page now, to be counted.
    pub(super) fn note(&mut self, frame: FrameId) {
        if self.pending == TOGETHER_MAX {
            self.count_all();
        }
        self.uncounted[self.pending] = frame;
        self.pending += 1;
    }

    /// Has them written and counted, so that their shards may be unlocked.
    pub(super) fn settle(&mut self) {
        if self.streams {
            land();
        }
        self.count_all();
    }

    /// Has their blocks count them: before any page leaves, which may be one of them.
    pub(super) fn count_all(&mut self) {
        let came = &self.uncounted[..std::mem::take(&mut self.pending)];
        let block = |frame: &FrameId| self.pages.frames.block(*frame);
        for of_a_block in came.chunk_by(|a, b| block(a) == block(b)) {
            self.pages.gain(of_a_block[0], of_a_block.len() as u32);
        }
    }
}

/// In a build that outlives a panic, as tests are: whoever panics while he fills a page has unlocked its shard before.
impl Drop for Arrivals<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}
