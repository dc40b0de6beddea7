//! How many slots of the swap space a fault reads.
//!
//! The adaptive mode is what Linux has done since 3.14 for swap space on a disk. The papers' guests run 3.19. One rule
//! looks at the guest as a whole: how many of the pages that were read ahead since the last fault have been used?
//! (Since 4.14 Linux has another rule for disks without platters, which looks at each mapping by itself.)

use serde::Deserialize;

/// How many slots a fault on swapped memory reads, up to `read_ahead`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwapReadAheadMode {
    /// As many as the hits of recent read-ahead have paid for, down to one.
    #[default]
    Adaptive,
    /// Always `read_ahead` slots.
    Fixed,
}

/// What a guest knows of its read-ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwapReadAhead {
    rule: SwapReadAheadMode,
    /// The most slots, a power of two.
    most: u32,
    /// Pages that were read ahead and used since the last fault.
    hits: u32,
    /// The slot of the last fault that had no hit before it.
    unpaid: Option<u32>,
    /// Slots that the last fault read.
    window: u32,
}

/// The first fault assumes this many hits, as Linux does.
const HITS_AT_FIRST: u32 = 4;

/// The fewest slots that are read once anything was hit.
const PAID_MIN: u32 = 4;

impl SwapReadAhead {
    pub(super) fn of(rule: SwapReadAheadMode, most: u32) -> SwapReadAhead {
        SwapReadAhead {
            rule,
            most: most.max(1),
            hits: HITS_AT_FIRST,
            unpaid: None,
            window: 0,
        }
    }

    /// A page that was read ahead is used for the first time.
    pub(super) fn hit(&mut self) {
        self.hits += 1;
    }

    /// How many slots a fault on `slot` reads, a power of two.
    pub(super) fn window(&mut self, slot: u32) -> u32 {
        if self.rule == SwapReadAheadMode::Fixed || self.most == 1 {
            return self.most;
        }
        let hits = std::mem::take(&mut self.hits);
        let wanted = match hits {
            0 if self.follows(slot) => 2,
            0 => 1,
            _ => (hits + 2).next_power_of_two().max(PAID_MIN),
        };
        if hits == 0 {
            self.unpaid = Some(slot);
        }
        // It shrinks by half at most.
        self.window = wanted.min(self.most).max(self.window / 2);
        self.window
    }

    /// Returns whether a slot is next to the slot of the last fault that had no hits. Without hits nothing else
    /// identifies a scan.
    fn follows(&self, slot: u32) -> bool {
        self.unpaid.is_some_and(|unpaid| unpaid.abs_diff(slot) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hits before a fault, the slot of the fault, and what it reads.
    type FaultCase = (u32, u32, u32);

    fn windows_are(most: u32, faults: &[FaultCase]) {
        let mut ahead = SwapReadAhead::of(SwapReadAheadMode::Adaptive, most);
        for (number, (hits, slot, expected)) in faults.iter().enumerate() {
            (0..*hits).for_each(|_| ahead.hit());
            assert_eq!(ahead.window(*slot), *expected, "fault {number}");
        }
    }

    #[test]
    fn windows_shrink_by_half_without_hits_and_grow_with_them() {
        windows_are(
            8,
            &[
                // The first fault assumes four hits: 4 + 2, rounded up.
                (0, 100, 8),
                // No hit since, and no neighbour: one, but no less than half of the last.
                (0, 900, 4),
                (0, 300, 2),
                (0, 700, 1),
                (0, 500, 1),
                // The neighbour of the last one, on either side.
                (0, 501, 2),
                (0, 500, 2),
                // If hits paid, the fault is not remembered as unpaid: 501 is still next to 500.
                (1, 9_000, 4),
                (0, 501, 2),
                // 1 + 2 and 2 + 2 make four, 3 + 2 makes eight, and no number of hits makes more than the most.
                (2, 40, 4),
                (3, 77, 8),
                (30, 12, 8),
            ],
        );
    }

    #[test]
    fn a_larger_most_lets_windows_grow_on_and_one_is_one() {
        windows_are(32, &[(7, 0, 16), (15, 9, 32), (0, 50, 16), (6, 3, 8)]);
        windows_are(2, &[(0, 0, 2), (0, 7, 1), (5, 9, 2)]);
        windows_are(1, &[(0, 0, 1), (9, 1, 1)]);
    }

    #[test]
    fn a_fixed_window_hears_of_nothing() {
        let mut ahead = SwapReadAhead::of(SwapReadAheadMode::Fixed, 8);
        assert_eq!(
            [ahead.window(0), ahead.window(500), ahead.window(9)],
            [8; 3]
        );
    }
}
