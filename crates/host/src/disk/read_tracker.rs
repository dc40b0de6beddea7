//! What a disk learns from its reads: which clients read in order, and what is worth keeping.

use std::ops::Range;

use parking_lot::Mutex;
use sublet_store::AccessPattern;
use sublet_store::disk_caching::{
    Admission, AdmissionSettings, ReadAheadWindow, ReadCause, ReadStreams, Retention, STREAMS,
};
use sublet_types::FillPolicy;

/// The most missed pages that are remembered: 4 MiB per disk that wants it.
const GHOSTS_MAX: u64 = 1 << 20;

/// The streams and the admission of one disk.
pub(super) struct ReadTracker(Mutex<ReadTrackerState>);

struct ReadTrackerState {
    streams: ReadStreams,
    admission: Admission,
    /// Some pages leave when they are read.
    has_visitors: bool,
}

/// Pages to read ahead, and how far into their run they are.
pub(super) struct ReadAheadRange {
    pub(super) pages: Range<u64>,
    pub(super) position: u64,
}

impl ReadTracker {
    /// A tracker for a disk of this many pages.
    pub(super) fn new(
        pages: u64,
        fill: FillPolicy,
        sequential_max: Option<u32>,
        seed: u64,
    ) -> ReadTracker {
        let settings = AdmissionSettings {
            fill,
            sequential_max,
            ghosts: pages.min(GHOSTS_MAX) as usize,
            seed,
        };
        ReadTracker(Mutex::new(ReadTrackerState {
            streams: ReadStreams::new(pages, STREAMS, ReadAheadWindow::DEFAULT),
            admission: Admission::new(&settings),
            has_visitors: fill == FillPolicy::SecondMiss || sequential_max.is_some(),
        }))
    }

    /// Records a read. Returns how far into its run it begins, and what to read ahead.
    pub(super) fn record_read(&self, pages: &Range<u64>) -> (u64, Option<ReadAheadRange>) {
        let count = pages.end - pages.start;
        let advice = self.0.lock().streams.record_read(pages.start, count as u32);
        let ahead = advice.ahead.map(|ahead| ReadAheadRange {
            position: advice.run,
            pages: ahead,
        });
        (advice.run.saturating_sub(count), ahead)
    }

    /// The pattern with which pages that one read brought are put into memory. `None` if they are not put.
    pub(super) fn admit(
        &self,
        pages: Range<u64>,
        position: u64,
        coming: ReadCause,
    ) -> Option<AccessPattern> {
        let admission = &mut self.0.lock().admission;
        let is_put = admission.admit(pages, position, coming) != Retention::Dropped;
        is_put.then(|| admission.pattern(position))
    }

    /// Those of the pages, just read from memory, that leave now.
    pub(super) fn pages_to_drop(&self, pages: Range<u64>, position: u64) -> Vec<u64> {
        let mut both = self.0.lock();
        if !both.has_visitors {
            return Vec::new();
        }
        let first = pages.start;
        let leaves = |page: &u64| {
            let position = position + (page - first);
            both.admission.record_hit(*page, position) == Retention::Dropped
        };
        pages.filter(leaves).collect()
    }

    pub(super) fn resize(&self, pages: u64) {
        self.0.lock().streams.resize(pages);
    }
}
