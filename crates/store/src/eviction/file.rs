//! `file`: whole files go, least useful first (Synergy §5.2, Algorithm 3 and equation 1).
//!
//! A window that is read ahead and only partly present costs a disk read all the same, so that pages
//! leave by file, one after the other, and a file that is begun is finished. A file's utility is
//! 100 × (shared ÷ cached + gets ÷ (gets + flushes)), and 50 more for five seconds after its last use;
//! a term whose denominator is zero counts as zero. The first term would be
//! all or nothing for the files of a whole pool; it is left out. Algorithm 3 is printed with a loop that runs while the amount is ≥ 0; it ends at zero here.

use std::collections::{BTreeSet, HashMap, VecDeque};

use sublet_types::{ObjectId, Second};

use super::rule::{Eviction, Page, queue};
use crate::frames::{FrameId, Frames, Queue, Seeded};

/// A file: pool and object.
type FileKey = (u32, ObjectId);

/// A file's place in the order: utility, last use, itself.
type Rank = (u32, Second, FileKey);

/// Seconds that a use counts as recent.
const RECENT_SECS: u32 = 5;

/// What recent use is worth.
const RECENT_POINTS: u32 = 50;

/// Recently used files that are looked at for one that is worth less all the same.
const LOOKED_AT_MAX: usize = 32;

/// Files without a page whose counters are kept, at the most.
const DEPARTED_MAX: usize = 1024;

/// A flush needs no memory (R-F3): a file that one made less useful waits for its new place in the order until the next
/// file has to leave, and what is to hold the departed is there as soon as files are.
pub(super) struct ByFile {
    files: HashMap<FileKey, File, Seeded>,
    /// Files with pages, by utility without recency; of equals the one that was used longest ago comes first.
    order: BTreeSet<Rank>,
    /// Files whose place in the order is that of before a flush.
    misplaced: Vec<FileKey>,
    /// Departures of files, the longest ago first; of a file that came back since, too.
    departed: VecDeque<(u64, FileKey)>,
    /// Pages of all files.
    count: u32,
    /// Departures so far.
    departures: u64,
    /// The file that is being evicted.
    leaving: Option<FileKey>,
}

struct File {
    pages: Queue,
    gets: u32,
    flushes: u32,
    last_use: Second,
    /// Its place in the order, while it has pages.
    place: Option<Rank>,
    is_misplaced: bool,
    /// Which departure it was that it is without a page since.
    departure: Option<u64>,
}

impl File {
    fn new(now: Second) -> File {
        File {
            pages: queue(0),
            gets: 0,
            flushes: 0,
            last_use: now,
            place: None,
            is_misplaced: false,
            departure: None,
        }
    }

    /// Equation 1, in points, without recency.
    fn utility(&self) -> u32 {
        let (gets, flushes) = (u64::from(self.gets), u64::from(self.flushes));
        (100 * gets).checked_div(gets + flushes).unwrap_or(0) as u32
    }

    fn rank(&self, key: FileKey) -> Rank {
        (self.utility(), self.last_use, key)
    }

    fn is_recent(&self, now: Second) -> bool {
        now.0.saturating_sub(self.last_use.0) < RECENT_SECS
    }
}

impl ByFile {
    pub(super) fn new() -> ByFile {
        ByFile {
            files: HashMap::default(),
            order: BTreeSet::new(),
            misplaced: Vec::new(),
            departed: VecDeque::new(),
            count: 0,
            departures: 0,
            leaving: None,
        }
    }

    fn key(page: Page<'_>) -> FileKey {
        let key = page.frames.get(page.frame).key();
        (key.pool, key.object)
    }

    /// Changes a file, which may be new, and its place in the order.
    fn change(&mut self, key: FileKey, now: Second, change: impl FnOnce(&mut File)) {
        self.files.entry(key).or_insert_with(|| File::new(now));
        self.update(key, change);
        self.put_in_place(key);
        let files = self.order.len();
        self.misplaced
            .reserve(files.saturating_sub(self.misplaced.len()));
        self.departed
            .reserve(files.min(DEPARTED_MAX - self.departed.len()));
    }

    /// Changes a file that is there, and leaves it at its place in the order, unless its last page goes.
    fn update(&mut self, key: FileKey, change: impl FnOnce(&mut File)) {
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

    /// Gives a file that has pages the place in the order that it has by now.
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

    /// Has a file put in its place when the next one has to leave.
    fn note_misplaced(&mut self, key: FileKey) {
        let has_room = self.misplaced.len() < self.misplaced.capacity();
        let in_place = |file: &&mut File| file.place.is_some() && !file.is_misplaced;
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

    /// A file's last page went: its counters stay for a while.
    fn note_departure(&mut self, key: FileKey) {
        let room = self.departed.capacity().min(DEPARTED_MAX);
        if self.departed.len() >= room
            && let Some((departure, oldest)) = self.departed.pop_front()
        {
            let is_away = |file: &File| file.departure == Some(departure);
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

    /// The file of the least utility.
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

impl Eviction for ByFile {
    fn admit(&mut self, page: Page<'_>) {
        self.change(ByFile::key(page), page.now, |file| {
            file.pages.push(page.frames, page.frame);
            file.last_use = page.now;
        });
    }

    fn hit(&mut self, page: Page<'_>) {
        self.change(ByFile::key(page), page.now, |file| {
            file.gets = file.gets.saturating_add(1);
            file.last_use = page.now;
        });
    }

    fn rewrite(&mut self, page: Page<'_>) {
        self.change(ByFile::key(page), page.now, |file| file.last_use = page.now);
    }

    fn take(&mut self, page: Page<'_>) {
        self.change(ByFile::key(page), page.now, |file| {
            file.pages.remove(page.frames, page.frame);
            file.gets = file.gets.saturating_add(1);
            file.last_use = page.now;
        });
    }

    fn forget(&mut self, page: Page<'_>) {
        let key = ByFile::key(page);
        self.update(key, |file| {
            file.pages.remove(page.frames, page.frame);
            file.flushes = file.flushes.saturating_add(1);
        });
        self.note_misplaced(key);
    }

    fn victim(&mut self, frames: &Frames, now: Second) -> Option<FrameId> {
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

    fn lose(&mut self, page: Page<'_>) {
        self.update(ByFile::key(page), |file| {
            file.pages.remove(page.frames, page.frame);
        });
    }

    fn go_along(&mut self, page: Page<'_>) {
        self.lose(page);
    }

    fn moved(&mut self, page: Page<'_>, to: FrameId) {
        if let Some(file) = self.files.get_mut(&ByFile::key(page)) {
            file.pages.replace(page.frames, page.frame, to);
        }
    }

    fn queues(&mut self) -> &mut [Queue] {
        &mut []
    }

    fn count(&mut self) -> u32 {
        self.count
    }
}
