//! What was found of a backing's holes, for as long as nothing may have changed there. Programs that look for them ask
//! for one extent after the other; each would wake the disk's thread, and look at the file anew.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_frontends::block::Extent;

/// Extents that are found at once for who asks for one after the other.
const AHEAD: usize = 128;

/// How long what was found is believed: whoever else changes the file is seen after that.
const BELIEVED: Duration = Duration::from_secs(1);

/// What is known of the holes of one disk's backing.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// Changes that were asked for, and those of them that were answered.
    begun: AtomicU64,
    ended: AtomicU64,
    found: Mutex<Found>,
}

/// What was found when so many changes had begun, and all had ended.
#[derive(Debug, Default)]
struct Found {
    changes: u64,
    since: Option<Instant>,
    /// In order, without a gap.
    extents: Vec<(Range<u64>, bool)>,
    /// Where the last answer ended: who asks from there on goes through all of them.
    next: u64,
}

/// A moment in which no change was under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calm(u64);

impl Holes {
    /// A change is asked for. Before anything of it is done.
    pub(super) fn begin_change(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// It is done, or will not be. Before anybody hears of it.
    pub(super) fn end_change(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether no change is under way. To be asked before the file is looked at.
    pub(super) fn calm(&self) -> Option<Calm> {
        // In this order: as many had ended as had begun only later.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(Calm(begun))
    }

    /// How many extents are worth looking for, for who wants the one at a place.
    pub(super) fn worth(&self, at: u64) -> usize {
        match self.found.lock().next == at {
            true => AHEAD,
            false => 1,
        }
    }

    /// Keeps what was found from a place on, since that moment.
    pub(super) fn keep(&self, Calm(changes): Calm, at: u64, extents: &[Extent], now: Instant) {
        let mut from = at;
        let ranged = extents.iter().map(|extent| {
            let range = from..from + extent.len;
            from = range.end;
            (range, extent.hole)
        });
        let extents: Vec<_> = ranged.collect();
        *self.found.lock() = Found {
            changes,
            since: Some(now),
            next: extents.first().map_or(at, |(range, _)| range.end),
            extents,
        };
    }

    /// The extent at a place, within `len` bytes, if it is known. A change that has not begun yet has its turn after that.
    pub(super) fn at(&self, at: u64, len: u64, now: Instant) -> Option<Extent> {
        let mut found = self.found.lock();
        let is_old = found.since.is_none_or(|since| now - since >= BELIEVED);
        if is_old || found.changes != self.begun.load(Ordering::SeqCst) {
            return None;
        }
        let place = found.extents.partition_point(|(range, _)| range.end <= at);
        let (range, hole) = found.extents.get(place)?.clone();
        if !range.contains(&at) {
            return None;
        }
        found.next = range.end;
        Some(Extent {
            len: (range.end - at).min(len),
            hole,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: [Extent; 3] = [
        Extent {
            len: 10,
            hole: true,
        },
        Extent {
            len: 5,
            hole: false,
        },
        Extent {
            len: 20,
            hole: true,
        },
    ];

    fn known(now: Instant) -> Holes {
        let holes = Holes::default();
        let calm = holes.calm().expect("nothing is under way");
        holes.keep(calm, 100, &THREE, now);
        holes
    }

    #[test]
    fn what_was_found_is_known_from_wherever_it_is_asked() {
        let now = Instant::now();
        let holes = known(now);
        let at = |at, len| holes.at(at, len, now).map(|found| (found.len, found.hole));
        assert_eq!(at(100, 1000), Some((10, true)));
        assert_eq!(at(103, 1000), Some((7, true)));
        assert_eq!(at(110, 2), Some((2, false)));
        assert_eq!(at(134, 9), Some((1, true)));
        assert_eq!((at(99, 9), at(135, 9)), (None, None));
        assert!(holes.at(100, 1, now + BELIEVED).is_none());
    }

    #[test]
    fn nothing_is_known_once_a_change_has_begun_nor_after_it() {
        let now = Instant::now();
        let holes = known(now);
        holes.begin_change();
        assert!(holes.at(100, 1, now).is_none());
        assert!(holes.calm().is_none(), "it is under way");
        holes.end_change();
        assert!(holes.at(100, 1, now).is_none());
        let calm = holes.calm().expect("it has ended");
        holes.begin_change();
        holes.keep(calm, 100, &THREE, now);
        assert!(holes.at(100, 1, now).is_none(), "it began meanwhile");
    }

    #[test]
    fn who_asks_for_one_after_the_other_has_more_looked_for() {
        let now = Instant::now();
        let holes = known(now);
        assert_eq!(holes.worth(500), 1);
        assert_eq!(holes.worth(110), AHEAD);
        let _ = holes.at(120, 10, now);
        assert_eq!(holes.worth(135), AHEAD);
    }
}
