//! `file`: evicts whole files, the least useful first (Synergy §5.2, Algorithm 3 and equation 1).
//!
//! A window that is read ahead and only partly present costs a disk read all the same. So pages leave by file, one
//! after the other, and a file that is begun is finished.
//!
//! A file's utility is 100 × (shared ÷ cached + gets ÷ (gets + flushes)). It is 50 more for five seconds after the
//! file's last use. A term whose denominator is zero counts as zero. The first term is left out, because it would be
//! all or nothing for the files of a whole pool. Algorithm 3 is printed with a loop that runs while the amount is ≥ 0;
//! here it ends at zero.

use std::collections::{BTreeSet, HashMap, VecDeque};

use sublet_types::{ObjectId, Second};

use super::rule::{Eviction, PageRef, queue};
use crate::frames::{FrameId, FrameQueue, FrameTable, SeededHasher};

/// A file: pool and object.
type FileKey = (u32, ObjectId);

/// A file's place in the order: its utility, its last use, its key.
type FileRank = (u32, Second, FileKey);

/// Seconds for which a use counts as recent.
const RECENT_SECS: u32 = 5;

/// Points that recent use is worth.
const RECENT_POINTS: u32 = 50;

/// Recently used files that are examined in search of one that is worth less all the same.
const LOOKED_AT_MAX: usize = 32;

/// The most files without a page whose counters are kept.
const DEPARTED_MAX: usize = 1024;

/// The eviction by file.
///
/// A flush needs no memory (R-F3). So a file that a flush made less useful waits for its new place until the next file
/// has to leave. The space for departed files is allocated along with that for present files.
pub(super) struct FileEviction {
    files: HashMap<FileKey, CachedFile, SeededHasher>,
    /// Files with pages, by utility without recency. Among equals, the one that was used longest ago comes first.
    order: BTreeSet<FileRank>,
    /// Files that still have the place in the order that they had before a flush.
    misplaced: Vec<FileKey>,
    /// Departures of files, oldest first, including those of files that came back since.
    departed: VecDeque<(u64, FileKey)>,
    /// Pages of all files.
    count: u32,
    /// Departures so far.
    departures: u64,
    /// The file that is being evicted.
    leaving: Option<FileKey>,
}

struct CachedFile {
    pages: FrameQueue,
    gets: u32,
    flushes: u32,
    last_use: Second,
    /// The file's place in the order, while it has pages.
    place: Option<FileRank>,
    is_misplaced: bool,
    /// The number of the departure since which it has no page.
    departure: Option<u64>,
}

impl CachedFile {
    fn new(now: Second) -> CachedFile {
        CachedFile {
            pages: queue(0),
            gets: 0,
            flushes: 0,
            last_use: now,
            place: None,
            is_misplaced: false,
            departure: None,
        }
    }

    /// Equation 1 in points, without recency.
    fn utility(&self) -> u32 {
        let (gets, flushes) = (u64::from(self.gets), u64::from(self.flushes));
        (100 * gets).checked_div(gets + flushes).unwrap_or(0) as u32
    }

    fn rank(&self, key: FileKey) -> FileRank {
        (self.utility(), self.last_use, key)
    }

    fn is_recent(&self, now: Second) -> bool {
        now.0.saturating_sub(self.last_use.0) < RECENT_SECS
    }
}

impl FileEviction {
    pub(super) fn new() -> FileEviction {
        FileEviction {
            files: HashMap::default(),
            order: BTreeSet::new(),
            misplaced: Vec::new(),
            departed: VecDeque::new(),
            count: 0,
            departures: 0,
            leaving: None,
        }
    }

    fn key(page: PageRef<'_>) -> FileKey {
        let key = page.frames.get(page.frame).key();
        (key.pool, key.object)
    }

    /// Changes a file, which may be new, and moves it to its place in the order.
    fn change(&mut self, key: FileKey, now: Second, change: impl FnOnce(&mut CachedFile)) {
        self.files
            .entry(key)
            .or_insert_with(|| CachedFile::new(now));
        self.update(key, change);
        self.put_in_place(key);
        let files = self.order.len();
        self.misplaced
            .reserve(files.saturating_sub(self.misplaced.len()));
        self.departed
            .reserve(files.min(DEPARTED_MAX - self.departed.len()));
    }

    /// Changes a file that exists and keeps its place in the order, unless its last page goes.
    fn update(&mut self, key: FileKey, change: impl FnOnce(&mut CachedFile)) {
        let Some(file) = self.files.get_mut(&key) else {
            return;
        };
        let had = file.pages.len();
        change(file);
        let has = file.pages.len();
        self.count = self.count + has - had;
        if has > 0 {
            file.departure = None;
        } else if let Some(place) = file.place.take() {
            self.order.remove(&place);
            self.note_departure(key);
        }
    }

    /// Moves a file that has pages to its current place in the order.
    fn put_in_place(&mut self, key: FileKey) {
        let Some(file) = self.files.get_mut(&key) else {
            return;
        };
        file.is_misplaced = false;
        let place = (file.pages.len() > 0).then(|| file.rank(key));
        if file.place == place {
            return;
        }
        let before = std::mem::replace(&mut file.place, place);
        before.map(|before| self.order.remove(&before));
        self.order.extend(place);
    }

    /// Marks a file, so that it is moved to its place when the next one has to leave.
    fn note_misplaced(&mut self, key: FileKey) {
        let has_room = self.misplaced.len() < self.misplaced.capacity();
        let in_place = |file: &&mut CachedFile| file.place.is_some() && !file.is_misplaced;
        if let Some(file) = self
            .files
            .get_mut(&key)
            .filter(in_place)
            .filter(|_| has_room)
        {
            file.is_misplaced = true;
            self.misplaced.push(key);
        }
    }

    /// Records that a file's last page went. Its counters stay for a while.
    fn note_departure(&mut self, key: FileKey) {
        let room = self.departed.capacity().min(DEPARTED_MAX);
        if self.departed.len() >= room
            && let Some((departure, oldest)) = self.departed.pop_front()
        {
            let is_away = |file: &CachedFile| file.departure == Some(departure);
            if self.files.get(&oldest).is_some_and(is_away) {
                self.files.remove(&oldest);
            }
        }
        self.departures += 1;
        self.departed.push_back((self.departures, key));
        if let Some(file) = self.files.get_mut(&key) {
            file.departure = Some(self.departures);
        }
    }

    /// The file with the least utility.
    fn least_useful(&self, now: Second) -> Option<FileKey> {
        let mut best: Option<(u32, FileKey)> = None;
        for (looked_at, &(utility, _, key)) in self.order.iter().enumerate() {
            if best.is_some_and(|(points, _)| points <= utility) || looked_at >= LOOKED_AT_MAX {
                break;
            }
            let points = match self.files.get(&key)?.is_recent(now) {
                true => utility + RECENT_POINTS,
                false => utility,
            };
            if best.is_none_or(|(least, _)| points < least) {
                best = Some((points, key));
            }
        }
        best.map(|(_, key)| key)
    }
}

impl Eviction for FileEviction {
    fn admit(&mut self, page: PageRef<'_>) {
        self.change(FileEviction::key(page), page.now, |file| {
            file.pages.push(page.frames, page.frame);
            file.last_use = page.now;
        });
    }

    fn hit(&mut self, page: PageRef<'_>) {
        self.change(FileEviction::key(page), page.now, |file| {
            file.gets = file.gets.saturating_add(1);
            file.last_use = page.now;
        });
    }

    fn rewrite(&mut self, page: PageRef<'_>) {
        self.change(FileEviction::key(page), page.now, |file| {
            file.last_use = page.now
        });
    }

    fn hit_exclusive(&mut self, page: PageRef<'_>) {
        self.change(FileEviction::key(page), page.now, |file| {
            file.pages.remove(page.frames, page.frame);
            file.gets = file.gets.saturating_add(1);
            file.last_use = page.now;
        });
    }

    fn forget(&mut self, page: PageRef<'_>) {
        let key = FileEviction::key(page);
        self.update(key, |file| {
            file.pages.remove(page.frames, page.frame);
            file.flushes = file.flushes.saturating_add(1);
        });
        self.note_misplaced(key);
    }

    fn victim(&mut self, frames: &FrameTable, now: Second) -> Option<FrameId> {
        let begun = self
            .leaving
            .filter(|key| self.files.get(key).is_some_and(|file| file.pages.len() > 0));
        while let Some(misplaced) = self.misplaced.pop() {
            self.put_in_place(misplaced);
        }
        let key = begun.or_else(|| self.least_useful(now))?;
        self.leaving = Some(key);
        let mut victim = None;
        self.update(key, |file| victim = file.pages.pop(frames));
        victim
    }

    fn drop_with_block(&mut self, page: PageRef<'_>) {
        self.update(FileEviction::key(page), |file| {
            file.pages.remove(page.frames, page.frame);
        });
    }

    fn evict_along(&mut self, page: PageRef<'_>) {
        self.drop_with_block(page);
    }

    fn relocate(&mut self, page: PageRef<'_>, to: FrameId) {
        if let Some(file) = self.files.get_mut(&FileEviction::key(page)) {
            file.pages.replace(page.frames, page.frame, to);
        }
    }

    fn queues(&mut self) -> &mut [FrameQueue] {
        &mut []
    }

    fn count(&mut self) -> u32 {
        self.count
    }
}
