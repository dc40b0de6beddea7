//! Whether a lender counts what its borrower counts.
//!
//! Reports of two nodes are not of one moment. So a difference counts from when both figures stopped changing.

use std::collections::BTreeMap;
use std::time::Duration;

use sublet_policy::placement::NodeNumber;

use crate::ids::NodeName;

/// A difference that stands for longer is an alarm.
pub const MISMATCH_ALARM_AFTER: Duration = Duration::from_secs(10);

/// The most differences that are kept. Others are not looked at until there is room.
const MISMATCHES_MAX: usize = 1 << 16;

/// A lender counts another number of blocks than its borrower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairMismatch {
    /// The lender.
    pub lender: NodeName,
    /// The borrower.
    pub borrower: NodeName,
    /// What the lender counts, in blocks.
    pub lent: u32,
    /// What the borrower counts, in blocks.
    pub borrowed: u32,
    /// Since when.
    pub since: Duration,
}

/// The counts of a pair that differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mismatch {
    pub(super) lent: u32,
    pub(super) borrowed: u32,
    pub(super) since: Duration,
}

/// A lender and its borrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LendingPair {
    pub(super) lender: NodeNumber,
    pub(super) borrower: NodeNumber,
}

/// All pairs whose counts differ.
#[derive(Debug, Default)]
pub(super) struct PairBooks {
    mismatches: BTreeMap<LendingPair, Mismatch>,
}

impl PairBooks {
    /// Compares what both ends of a pair count.
    pub(super) fn compare(&mut self, now: Duration, pair: LendingPair, lent: u32, borrowed: u32) {
        if lent == borrowed {
            self.mismatches.remove(&pair);
            return;
        }
        let has_room = self.mismatches.len() < MISMATCHES_MAX;
        match self.mismatches.get_mut(&pair) {
            Some(known) if (known.lent, known.borrowed) == (lent, borrowed) => {}
            None if !has_room => {}
            _ => {
                let since = now;
                let mismatch = Mismatch {
                    lent,
                    borrowed,
                    since,
                };
                self.mismatches.insert(pair, mismatch);
            }
        }
    }

    /// Forgets pairs of which `is_known` says that one end does not report.
    pub(super) fn retain(&mut self, is_known: impl Fn(&LendingPair) -> bool) {
        self.mismatches.retain(|pair, _| is_known(pair));
    }

    /// The differences that have stood for too long.
    pub(super) fn alarms(&self, now: Duration) -> impl Iterator<Item = (LendingPair, Mismatch)> {
        let is_old =
            move |mismatch: &Mismatch| now.saturating_sub(mismatch.since) > MISMATCH_ALARM_AFTER;
        let all = self.mismatches.iter();
        all.filter(move |(_, mismatch)| is_old(mismatch))
            .map(|(pair, mismatch)| (*pair, *mismatch))
    }
}
