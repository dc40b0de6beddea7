//! Sweeping: removes slots of dropped blocks from the index in small steps, and fits the index to the number of items.

use std::sync::atomic::Ordering;

use sublet_types::Second;

use super::Items;
use super::table::Table;
use crate::arena::BlockOwner;

/// Buckets swept or merged in one step, which takes less than a millisecond.
const STEP_BUCKETS: u64 = 2048;

impl Items {
    /// Does one step of what the index needs. Returns whether there is more to do. The caller is pinned.
    pub(super) fn tidy_index(&self, now: Second) -> bool {
        self.sweep_step()
            || self
                .tables()
                .any(|table| table.is_sparse() && self.merge_step(table, now))
    }

    /// Merges some buckets. Returns whether that succeeded.
    fn merge_step(&self, table: &Table, now: Second) -> bool {
        let block = || {
            self.arena
                .allocate(BlockOwner::None, self.arena.reserve(), now)
        };
        let buckets = STEP_BUCKETS.min(table.buckets() / 4);
        (0..buckets).all(|_| table.merge(&self.arena, self, block).is_ok())
    }

    fn sweep_step(&self) -> bool {
        let mut cursor = self.sweeper.cursor.lock();
        let (mut nth, mut bucket) = match *cursor {
            Some(place) => place,
            None if self.sweeper.stale.swap(0, Ordering::Relaxed) == 0 => return false,
            None => {
                self.arena.sweep_begins();
                (0, 0)
            }
        };
        for _ in 0..STEP_BUCKETS {
            let Some(table) = self.tables().nth(nth) else {
                self.arena.sweep_ends();
                *cursor = None;
                return self.sweeper.stale.load(Ordering::Relaxed) > 0;
            };
            bucket += 1;
            if bucket > table.sweep(bucket - 1, self) {
                (nth, bucket) = (nth + 1, 0);
            }
        }
        *cursor = Some((nth, bucket));
        true
    }
}
