//! How often each kind of event happened, by reason. These counts include events that the buffer dropped.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::PostedEvent;
use super::id::ROWS;
use super::reason::EventReason;

/// Counts since the start.
#[derive(Debug)]
pub(super) struct EventCounters {
    /// By row, then by reason. Most reasons are of few rows.
    counts: Box<[[AtomicU64; EventReason::COUNT]]>,
    /// Causes that found no room and became no event.
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

impl Default for EventCounters {
    fn default() -> EventCounters {
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        EventCounters {
            counts: ROWS.iter().map(|_| none()).collect(),
            lost: AtomicU64::new(0),
        }
    }
}

impl EventCounters {
    pub(super) fn count(&self, cause: &PostedEvent) {
        let count = &self.counts[cause.id as usize][cause.why as usize];
        count.fetch_add(cause.count, Ordering::Relaxed);
    }

    /// The count of each kind with each of its reasons, including those that never happened.
    pub(super) fn all(&self) -> Vec<EventCount> {
        let of_row = |row: &'static super::id::EventDescription| {
            row.reasons.iter().map(|why| EventCount {
                id: row.name,
                why: why.name(),
                count: self.counts[row.id as usize][*why as usize].load(Ordering::Relaxed),
            })
        };
        ROWS.iter().flat_map(of_row).collect()
    }
}
