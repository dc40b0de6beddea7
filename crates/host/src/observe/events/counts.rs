//! How often each kind of event happened, by reason: also of those that the ring has forgotten.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::Cause;
use super::id::ROWS;
use super::why::Why;

/// Counts since the start.
#[derive(Debug)]
pub(super) struct Counts {
    /// By row, then by reason; most reasons are of few rows.
    counts: Box<[[AtomicU64; Why::COUNT]]>,
    /// Causes that had no room and became no event.
    pub(super) lost: AtomicU64,
}

/// How often events of one kind happened for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// The kind's name.
    pub id: &'static str,
    /// The reason.
    pub why: &'static str,
    /// How often.
    pub count: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        Counts {
            counts: ROWS.iter().map(|_| none()).collect(),
            lost: AtomicU64::new(0),
        }
    }
}

impl Counts {
    pub(super) fn count(&self, cause: &Cause) {
        let count = &self.counts[cause.id as usize][cause.why as usize];
        count.fetch_add(cause.count, Ordering::Relaxed);
    }

    /// Each kind with each of its reasons, also what never happened.
    pub(super) fn all(&self) -> Vec<EventCount> {
        let of_row = |row: &'static super::id::Row| {
            row.whys.iter().map(|why| EventCount {
                id: row.name,
                why: why.name(),
                count: self.counts[row.id as usize][*why as usize].load(Ordering::Relaxed),
            })
        };
        ROWS.iter().flat_map(of_row).collect()
    }
}
