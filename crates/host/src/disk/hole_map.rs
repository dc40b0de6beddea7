//! The known holes of a backing, valid for as long as nothing may have changed there. Programs that look for holes ask
//! for one extent after the other. Without this map each request would wake the disk's thread, which would read the
//! file's extents again.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_frontends::block_device::Extent;

/// Extents that are found at once for a client that asks for one after the other.
const AHEAD: usize = 128;

/// How long the map trusts what was found. After that it sees changes that other processes made to the file.
const BELIEVED: Duration = Duration::from_secs(1);

/// What is known of the holes of one disk's backing.
#[derive(Debug, Default)]
pub(super) struct HoleMap {
    /// Changes that were requested, and those of them that were answered.
    begun: AtomicU64,
    ended: AtomicU64,
    found: Mutex<KnownExtents>,
}

/// What was found when this many changes had begun, and all of them had ended.
#[derive(Debug, Default)]
struct KnownExtents {
    changes: u64,
    since: Option<Instant>,
    /// In order, without a gap.
    extents: Vec<(Range<u64>, bool)>,
    /// Where the last answer ended. A client that asks from there on goes through all of them.
    next: u64,
}

/// A moment in which no change was under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuietEpoch(u64);

impl HoleMap {
    /// Call this when a change is requested, before anything of it is done.
    pub(super) fn begin_change(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Call this when the change is done or will not be, before anybody learns of it.
    pub(super) fn end_change(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// A moment without a change under way, if it is such a moment. Ask before you read the file's extents.
    pub(super) fn quiet_epoch(&self) -> Option<QuietEpoch> {
        // In this order: as many changes had ended as had begun only later.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(QuietEpoch(begun))
    }

    /// How many extents are worth finding for a client that wants the one at an offset.
    pub(super) fn extents_to_find(&self, at: u64) -> usize {
        match self.found.lock().next == at {
            true => AHEAD,
            false => 1,
        }
    }

    /// Keeps what was found from an offset on, since that moment.
    pub(super) fn record(
        &self,
        QuietEpoch(changes): QuietEpoch,
        at: u64,
        extents: &[Extent],
        now: Instant,
    ) {
        let mut from = at;
        let ranged = extents.iter().map(|extent| {
            let range = from..from + extent.len;
            from = range.end;
            (range, extent.hole)
        });
        let extents: Vec<_> = ranged.collect();
        *self.found.lock() = KnownExtents {
            changes,
            since: Some(now),
            next: extents.first().map_or(at, |(range, _)| range.end),
            extents,
        };
    }

    /// The extent at an offset, within `len` bytes, if it is known. A change that has not begun yet has its turn after
    /// that.
    pub(super) fn lookup(&self, at: u64, len: u64, now: Instant) -> Option<Extent> {
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

    fn known(now: Instant) -> HoleMap {
        let holes = HoleMap::default();
        let calm = holes.quiet_epoch().expect("nothing is under way");
        holes.record(calm, 100, &THREE, now);
        holes
    }

    #[test]
    fn what_was_found_is_known_from_wherever_it_is_asked() {
        let now = Instant::now();
        let holes = known(now);
        let at = |at, len| {
            holes
                .lookup(at, len, now)
                .map(|found| (found.len, found.hole))
        };
        assert_eq!(at(100, 1000), Some((10, true)));
        assert_eq!(at(103, 1000), Some((7, true)));
        assert_eq!(at(110, 2), Some((2, false)));
        assert_eq!(at(134, 9), Some((1, true)));
        assert_eq!((at(99, 9), at(135, 9)), (None, None));
        assert!(holes.lookup(100, 1, now + BELIEVED).is_none());
    }

    #[test]
    fn nothing_is_known_once_a_change_has_begun_nor_after_it() {
        let now = Instant::now();
        let holes = known(now);
        holes.begin_change();
        assert!(holes.lookup(100, 1, now).is_none());
        assert!(holes.quiet_epoch().is_none(), "it is under way");
        holes.end_change();
        assert!(holes.lookup(100, 1, now).is_none());
        let calm = holes.quiet_epoch().expect("it has ended");
        holes.begin_change();
        holes.record(calm, 100, &THREE, now);
        assert!(holes.lookup(100, 1, now).is_none(), "it began meanwhile");
    }

    #[test]
    fn who_asks_for_one_after_the_other_has_more_looked_for() {
        let now = Instant::now();
        let holes = known(now);
        assert_eq!(holes.extents_to_find(500), 1);
        assert_eq!(holes.extents_to_find(110), AHEAD);
        let _ = holes.lookup(120, 10, now);
        assert_eq!(holes.extents_to_find(135), AHEAD);
    }
}
