//! `file`: whole files go, least useful first (Synergy §5.2, Algorithm 3 and equation 1).
//!
//! A window that is read ahead and only partly present costs a disk read all the same, so that pages
//! leave by file, one after the other, and a file that is begun is finished. A file's utility is
//! 100 × (shared ÷ cached + gets ÷ (gets + flushes)), and 50 more for five seconds after its last use;
//! a term whose denominator is zero counts as zero. The first term would be
//! all or nothing for the files of a whole pool; it is left out. Algorithm 3 is printed with a loop that runs while the amount is ≥ 0; it ends at zero here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sublet_types::{ObjectId, Second};

use super::{Eviction, Page, queue};
use crate::pages::{FrameId, Frames, Queue, Seeded};

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

pub(super) struct ByFile {
    files: HashMap<FileKey, File, Seeded>,
    /// Files with pages, by utility without recency; of equals the one that was used longest ago comes first.
    order: BTreeSet<Rank>,
    /// Files without a page, the longest so first.
    departed: BTreeMap<u64, FileKey>,
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
            departed: BTreeMap::new(),
            departures: 0,
            leaving: None,
        }
    }

    fn key(page: Page<'_>) -> FileKey {
        let key = page.frames.get(page.frame).key();
        (key.pool, key.object)
    }

    /// Changes a file, and its place in the order.
    fn change(&mut self, key: FileKey, now: Second, change: impl FnOnce(&mut File)) {
        let file = self.files.entry(key).or_insert_with(|| File::new(now));
        let (before, had) = (file.rank(key), file.pages.len() > 0);
        change(file);
        let (after, has) = (file.rank(key), file.pages.len() > 0);
        let departure = file.departure.take_if(|_| has);
        if had && (!has || before != after) {
            self.order.remove(&before);
        }
        if has && (!had || before != after) {
            self.order.insert(after);
        }
        if let Some(departure) = departure {
            self.departed.remove(&departure);
        }
        if had && !has {
            self.note_departure(key);
        }
    }

    /// A file's last page went: its counters stay for a while.
    fn note_departure(&mut self, key: FileKey) {
        self.departures += 1;
        self.departed.insert(self.departures, key);
        if let Some(file) = self.files.get_mut(&key) {
            file.departure = Some(self.departures);
        }
        if self.departed.len() > DEPARTED_MAX
            && let Some((_, oldest)) = self.departed.pop_first()
        {
            self.files.remove(&oldest);
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
        self.change(ByFile::key(page), page.now, |file| {
            file.pages.remove(page.frames, page.frame);
            file.flushes = file.flushes.saturating_add(1);
        });
    }

    fn victim(&mut self, frames: &Frames, now: Second) -> Option<FrameId> {
        let begun = self
            .leaving
            .filter(|key| self.files.get(key).is_some_and(|file| file.pages.len() > 0));
        let key = begun.or_else(|| self.least_useful(now))?;
        self.leaving = Some(key);
        let mut victim = None;
        self.change(key, now, |file| victim = file.pages.pop(frames));
        victim
    }

    fn lose(&mut self, page: Page<'_>) {
        self.change(ByFile::key(page), page.now, |file| {
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
}
