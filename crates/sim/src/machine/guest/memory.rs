//! What a guest knows of its pages: which are in memory, in the order of their last use, and a note on each page. The
//! note outlives the page's stay in memory.
//!
//! ```text
//! name ──directory──► leaf: 16 × Page { last use, note }, and beside it their marks, and when the disk delivers them
//! ```
//!
//! A simulation spends most of its time here. So pages are found by number wherever possible, and neighbours lie
//! together. A used page in memory takes eight bytes and a mark.

use crate::machine::use_log::{LastUseTable, NEVER, UseLog};
use crate::stable_hash::StableHashMap;
use crate::virtual_time::VirtualInstant;

/// Pages of a leaf.
const LEAF: u32 = 16;

/// Leaves of anonymous memory that are found by number: its first 64 GiB. Those beyond are found by hash.
const NEAR_LEAVES: u64 = 1 << 20;

const NONE: u32 = u32::MAX;

/// A page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilePage {
    pub(super) object: u64,
    pub(super) index: u32,
}

impl FilePage {
    fn leaf(self) -> (u64, u32) {
        (self.object, self.index / LEAF)
    }
}

/// The index of a page's entry: a leaf's number and the page in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryIndex(pub(super) u32);

impl EntryIndex {
    fn number(self) -> usize {
        self.0 as usize
    }
}

/// Stands for a file if a leaf is of anonymous memory.
const NO_FILE: FilePage = FilePage {
    object: 0,
    index: 0,
};

#[derive(Clone, Copy, Debug)]
struct PageEntry {
    /// Its last use, if it is in memory.
    last_use: u32,
    note: u32,
}

const UNKNOWN: PageEntry = PageEntry {
    last_use: NEVER,
    note: 0,
};

impl LastUseTable for Vec<PageEntry> {
    fn last_use(&self, number: u32) -> u32 {
        self[number as usize].last_use
    }

    fn set_last_use(&mut self, number: u32, at: u32) {
        self[number as usize].last_use = at;
    }
}

/// The page was written since it was last stored.
const DIRTY: u8 = 1;

/// The disk may not have delivered the page yet.
const FROM_DISK: u8 = 2;

/// The page is of a file.
const OF_FILE: u8 = 4;

/// The page was read ahead and not used yet.
const AHEAD: u8 = 8;

/// The result of using a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHit {
    /// When the page is there.
    pub(super) usable_at: VirtualInstant,
    /// Whether it was read ahead and this is its first use.
    pub(super) was_ahead: bool,
}

/// How a file page in memory differs from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileContent {
    /// The disk has the same.
    Clean,
    /// The guest has written to it since it was read.
    Dirty,
}

/// A page that has just left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictedPage {
    Anonymous(EntryIndex),
    File {
        entry: EntryIndex,
        state: FileContent,
    },
}

/// A guest's pages.
#[derive(Debug, Default)]
pub(super) struct GuestMemory {
    pages: Vec<PageEntry>,
    /// The marks of each page in memory.
    marks: Vec<u8>,
    /// When the disk has delivered each page that is marked so.
    ready_at: Vec<VirtualInstant>,
    /// The first page of each leaf of a file.
    names: Vec<FilePage>,
    /// Leaves of anonymous memory, by their number.
    near: Vec<u32>,
    far: StableHashMap<u64, u32>,
    /// Leaves of files, by file and number.
    files: StableHashMap<(u64, u32), u32>,
    /// The leaf of a file that was looked up last.
    recent: Option<((u64, u32), u32)>,
    uses: UseLog,
    resident: usize,
}

impl GuestMemory {
    /// Pages in memory.
    pub(super) fn len(&self) -> usize {
        self.resident
    }

    /// The entry of a page of anonymous memory. It is made if there is none.
    pub(super) fn anonymous(&mut self, page: u64) -> EntryIndex {
        let offset = (page % u64::from(LEAF)) as u32;
        let leaf = match self.find_anonymous(page / u64::from(LEAF)) {
            NONE => self.grow_anonymous(page / u64::from(LEAF)),
            leaf => leaf,
        };
        EntryIndex(leaf * LEAF + offset)
    }

    /// The entry of a page of anonymous memory, if there is one.
    pub(super) fn known_anonymous(&self, page: u64) -> Option<EntryIndex> {
        let offset = (page % u64::from(LEAF)) as u32;
        let leaf = self.find_anonymous(page / u64::from(LEAF));
        (leaf != NONE).then(|| EntryIndex(leaf * LEAF + offset))
    }

    /// The entry of a page of a file. It is made if there is none.
    pub(super) fn file(&mut self, page: FilePage) -> EntryIndex {
        let leaf = match self.find_file(page.leaf()) {
            NONE => self.grow_file(page.leaf()),
            leaf => leaf,
        };
        self.recent = Some((page.leaf(), leaf));
        EntryIndex(leaf * LEAF + page.index % LEAF)
    }

    /// The entry of a page of a file, if there is one.
    pub(super) fn known_file(&self, page: FilePage) -> Option<EntryIndex> {
        let leaf = self.find_file(page.leaf());
        (leaf != NONE).then(|| EntryIndex(leaf * LEAF + page.index % LEAF))
    }

    fn find_anonymous(&self, leaf: u64) -> u32 {
        match leaf < NEAR_LEAVES {
            true => self.near.get(leaf as usize).copied().unwrap_or(NONE),
            false => self.far.get(&leaf).copied().unwrap_or(NONE),
        }
    }

    fn find_file(&self, key: (u64, u32)) -> u32 {
        match self.recent {
            Some((recent, leaf)) if recent == key => leaf,
            _ => self.files.get(&key).copied().unwrap_or(NONE),
        }
    }

    fn grow_anonymous(&mut self, number: u64) -> u32 {
        let leaf = self.grow(NO_FILE);
        if number >= NEAR_LEAVES {
            self.far.insert(number, leaf);
            return leaf;
        }
        let at = number as usize;
        if self.near.len() <= at {
            self.near.resize(at + 1, NONE);
        }
        self.near[at] = leaf;
        leaf
    }

    fn grow_file(&mut self, key: (u64, u32)) -> u32 {
        let (object, number) = key;
        let leaf = self.grow(FilePage {
            object,
            index: number * LEAF,
        });
        self.files.insert(key, leaf);
        leaf
    }

    fn grow(&mut self, first: FilePage) -> u32 {
        self.names.push(first);
        let pages = self.pages.len() + LEAF as usize;
        self.pages.resize(pages, UNKNOWN);
        self.marks.resize(pages, 0);
        self.ready_at.resize(pages, VirtualInstant::START);
        self.names.len() as u32 - 1
    }

    /// The page of a file that has this entry.
    pub(super) fn file_page(&self, entry: EntryIndex) -> FilePage {
        let first = self.names[(entry.0 / LEAF) as usize];
        FilePage {
            index: first.index + entry.0 % LEAF,
            ..first
        }
    }

    /// The note on a page. 0 if there never was one.
    pub(super) fn note_of(&self, entry: EntryIndex) -> u32 {
        self.pages[entry.number()].note
    }

    /// Sets the note on a page, in memory or not.
    pub(super) fn set_note(&mut self, entry: EntryIndex, note: u32) {
        self.pages[entry.number()].note = note;
    }

    /// Returns whether a page is in memory. This does not count as a use.
    pub(super) fn has(&self, entry: EntryIndex) -> bool {
        self.pages[entry.number()].last_use != NEVER
    }

    /// Uses a page at `now` if it is in memory: it becomes the hottest. No later use is before `began`.
    pub(super) fn touch(
        &mut self,
        entry: EntryIndex,
        now: VirtualInstant,
        began: VirtualInstant,
    ) -> Option<PageHit> {
        if !self.has(entry) {
            return None;
        }
        self.uses.record(&mut self.pages, entry.0, self.resident);
        let marks = &mut self.marks[entry.number()];
        let was_ahead = *marks & AHEAD != 0;
        *marks &= !AHEAD;
        let mut usable_at = now;
        if *marks & FROM_DISK != 0 {
            let ready_at = self.ready_at[entry.number()];
            usable_at = now.max(ready_at);
            if ready_at <= began {
                *marks &= !FROM_DISK;
            }
        }
        Some(PageHit {
            usable_at,
            was_ahead,
        })
    }

    /// Marks a page in memory as read ahead.
    pub(super) fn mark_ahead(&mut self, entry: EntryIndex) {
        self.mark(entry, AHEAD);
    }

    /// Marks a page in memory as written.
    pub(super) fn mark_dirty(&mut self, entry: EntryIndex) {
        self.mark(entry, DIRTY);
    }

    fn mark(&mut self, entry: EntryIndex, mark: u8) {
        if self.has(entry) {
            self.marks[entry.number()] |= mark;
        }
    }

    /// Enters a page of anonymous memory that is not here, as the hottest. The disk delivers it at `ready_at`, or has
    /// delivered it.
    pub(super) fn insert_anonymous(&mut self, entry: EntryIndex, ready_at: VirtualInstant) {
        self.insert(entry, ready_at, 0);
    }

    /// Enters a clean page of a file in the same way.
    pub(super) fn insert_file(&mut self, entry: EntryIndex, ready_at: VirtualInstant) {
        self.insert(entry, ready_at, OF_FILE);
    }

    fn insert(&mut self, entry: EntryIndex, ready_at: VirtualInstant, marks: u8) {
        debug_assert!(!self.has(entry));
        self.resident += 1;
        self.uses.record(&mut self.pages, entry.0, self.resident);
        self.marks[entry.number()] = marks;
        if ready_at != VirtualInstant::START {
            self.marks[entry.number()] |= FROM_DISK;
            self.ready_at[entry.number()] = ready_at;
        }
    }

    /// Removes a page from memory. Its note stays.
    pub(super) fn remove(&mut self, entry: EntryIndex) {
        if self.has(entry) {
            self.pages[entry.number()].last_use = NEVER;
            self.resident -= 1;
        }
    }

    /// Removes the coldest page from memory.
    pub(super) fn pop_coldest(&mut self) -> Option<EvictedPage> {
        let entry = EntryIndex(self.uses.pop_coldest(&self.pages)?);
        self.remove(entry);
        let marks = self.marks[entry.number()];
        Some(match marks & OF_FILE != 0 {
            true => EvictedPage::File {
                entry,
                state: match marks & DIRTY != 0 {
                    true => FileContent::Dirty,
                    false => FileContent::Clean,
                },
            },
            false => EvictedPage::Anonymous(entry),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SimRng;
    use crate::virtual_time::VirtualDuration;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum PageName {
        Anonymous(u64),
        File(u64, u32),
    }

    /// A page in the model: its name, its content, when it is usable, and whether it was read ahead.
    type ModelEntry = (PageName, FileContent, VirtualInstant, bool);

    /// Names many of which share a leaf, and some of which are far from all others.
    fn any_name(rng: &mut SimRng) -> PageName {
        let page = rng.below(40);
        match rng.below(4) {
            0 => PageName::Anonymous(page),
            1 => PageName::Anonymous(NEAR_LEAVES * u64::from(LEAF) - 20 + page),
            2 => PageName::Anonymous(u64::MAX - page),
            _ => PageName::File(page % 3, (page % 7 * 11) as u32),
        }
    }

    fn entry_of(memory: &mut GuestMemory, name: PageName) -> EntryIndex {
        match name {
            PageName::Anonymous(page) => memory.anonymous(page),
            PageName::File(object, index) => memory.file(FilePage { object, index }),
        }
    }

    fn known(memory: &GuestMemory, name: PageName) -> Option<EntryIndex> {
        match name {
            PageName::Anonymous(page) => memory.known_anonymous(page),
            PageName::File(object, index) => memory.known_file(FilePage { object, index }),
        }
    }

    fn evicted(memory: &mut GuestMemory, name: PageName, state: FileContent) -> EvictedPage {
        let entry = entry_of(memory, name);
        match name {
            PageName::Anonymous(_) => EvictedPage::Anonymous(entry),
            PageName::File(..) => EvictedPage::File { entry, state },
        }
    }

    #[test]
    fn it_agrees_with_a_list_that_is_searched() {
        let mut memory = GuestMemory::default();
        // The coldest comes first.
        let mut model: Vec<ModelEntry> = Vec::new();
        let mut notes: StableHashMap<PageName, u32> = StableHashMap::default();
        let mut rng = SimRng::seeded(11);
        for step in 0..40_000u32 {
            let name = any_name(&mut rng);
            let is_known = known(&memory, name).is_some();
            assert!(is_known || !notes.contains_key(&name));
            let entry = entry_of(&mut memory, name);
            assert_eq!(known(&memory, name), Some(entry));
            if let PageName::File(object, index) = name {
                assert_eq!(memory.file_page(entry), FilePage { object, index });
            }
            assert_eq!(
                memory.note_of(entry),
                notes.get(&name).copied().unwrap_or(0)
            );
            let found = model.iter().position(|entry| entry.0 == name);
            assert_eq!(memory.has(entry), found.is_some());
            match (rng.below(5), found) {
                (0, None) | (1, None) => {
                    let ready_at = VirtualInstant(rng.below(3) * u64::from(step));
                    match name {
                        PageName::Anonymous(_) => memory.insert_anonymous(entry, ready_at),
                        PageName::File(..) => memory.insert_file(entry, ready_at),
                    }
                    let is_ahead = rng.happens(0.5);
                    if is_ahead {
                        memory.mark_ahead(entry);
                    }
                    model.push((name, FileContent::Clean, ready_at, is_ahead));
                }
                (0 | 1, Some(found)) => {
                    let began = VirtualInstant(u64::from(step));
                    let now = began + VirtualDuration(rng.below(40_000));
                    let (name, state, ready_at, was_ahead) = model.remove(found);
                    let touched = PageHit {
                        usable_at: now.max(ready_at),
                        was_ahead,
                    };
                    assert_eq!(memory.touch(entry, now, began), Some(touched));
                    model.push((name, state, ready_at, false));
                }
                (2, found) => {
                    memory.mark_dirty(entry);
                    found
                        .into_iter()
                        .for_each(|found| model[found].1 = FileContent::Dirty);
                    memory.set_note(entry, step);
                    notes.insert(name, step);
                }
                (3, found) => {
                    memory.remove(entry);
                    found.map(|found| model.remove(found));
                    assert_eq!(
                        memory.touch(entry, VirtualInstant::START, VirtualInstant::START),
                        None
                    );
                }
                _ => {
                    let coldest = (!model.is_empty()).then(|| model.remove(0));
                    let expected =
                        coldest.map(|(name, state, ..)| evicted(&mut memory, name, state));
                    assert_eq!(memory.pop_coldest(), expected);
                }
            }
            assert_eq!(memory.len(), model.len());
        }
    }
}
