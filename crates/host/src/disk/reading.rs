//! What a disk learns from what is read of it: who reads in order, and what is worth keeping.

use std::ops::Range;

use parking_lot::Mutex;
use sublet_store::disk::{Admission, AdmissionSettings, Coming, STREAMS, Stay, Streams, Window};
use sublet_types::Fill;

/// Missed pages that are remembered, at the most: 4 MiB for each disk that wants it.
const GHOSTS_MAX: u64 = 1 << 20;

/// Streams and admission of one disk.
pub(super) struct Reading(Mutex<Both>);

struct Both {
    streams: Streams,
    admission: Admission,
    /// Some pages leave when they are read.
    has_visitors: bool,
}

/// Pages that should be read ahead, and how far into their run they are.
pub(super) struct Ahead {
    pub(super) pages: Range<u64>,
    pub(super) position: u64,
}

impl Reading {
    /// Of a disk of so many pages.
    pub(super) fn new(pages: u64, fill: Fill, sequential_max: Option<u32>, seed: u64) -> Reading {
        let settings = AdmissionSettings {
            fill,
            sequential_max,
            ghosts: pages.min(GHOSTS_MAX) as usize,
            seed,
        };
        Reading(Mutex::new(Both {
            streams: Streams::new(pages, STREAMS, Window::DEFAULT),
            admission: Admission::new(&settings),
            has_visitors: fill == Fill::SecondMiss || sequential_max.is_some(),
        }))
    }

    /// Notes a read. Says how far into its run it begins, and what should be read ahead.
    pub(super) fn note(&self, pages: &Range<u64>) -> (u64, Option<Ahead>) {
        let count = pages.end - pages.start;
        let advice = self.0.lock().streams.note(pages.start, count as u32);
        let ahead = advice.ahead.map(|ahead| Ahead {
            position: advice.run + ahead.start.saturating_sub(pages.end),
            pages: ahead,
        });
        (advice.run.saturating_sub(count), ahead)
    }

    /// Whether pages that came by one read are put in memory.
    pub(super) fn came(&self, pages: Range<u64>, position: u64, coming: Coming) -> bool {
        self.0.lock().admission.came(pages, position, coming) != Stay::Not
    }

    /// Those of the pages, just read from memory, that leave now.
    pub(super) fn leavers(&self, pages: Range<u64>, position: u64) -> Vec<u64> {
        let mut both = self.0.lock();
        if !both.has_visitors {
            return Vec::new();
        }
        let first = pages.start;
        let leaves = |page: &u64| {
            let position = position + (page - first);
            both.admission.was_read(*page, position) == Stay::Not
        };
        pages.filter(leaves).collect()
    }

    pub(super) fn resize(&self, pages: u64) {
        self.0.lock().streams.resize(pages);
    }
}
