//! What a guest knows of its pages: which are in memory, in the order of their last use, and a note on each
//! that outlives its stay there.
//!
//! ```text
//! name ──directory──► leaf: 16 × Page { last use, note }, and beside it their marks, and when the disk delivers them
//! ```
//!
//! A simulation spends most of its time here. So pages are found by number wherever they can be, neighbours lie
//! together, and a page in memory that is used is eight bytes and a mark.

use crate::machine::uses::{NEVER, Used, Uses};
use crate::table::Table;
use crate::virtual_time::Moment;

/// Pages of a leaf.
const LEAF: u32 = 16;

/// Leaves of anonymous memory that are found by number, its first 64 GiB; those beyond are found by hash.
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

/// Where a page's entry is: a leaf's number and the page in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(pub(super) u32);

impl Place {
    fn number(self) -> usize {
        self.0 as usize
    }
}

/// What stands for a file where a leaf is of anonymous memory.
const NO_FILE: FilePage = FilePage {
    object: 0,
    index: 0,
};

#[derive(Clone, Copy, Debug)]
struct Page {
    /// Its last use, where it is in memory.
    last_use: u32,
    note: u32,
}

const UNKNOWN: Page = Page {
    last_use: NEVER,
    note: 0,
};

impl Used for Vec<Page> {
    fn last_use(&self, number: u32) -> u32 {
        self[number as usize].last_use
    }

    fn set_last_use(&mut self, number: u32, at: u32) {
        self[number as usize].last_use = at;
    }
}

/// Written since it was last stored.
const DIRTY: u8 = 1;

/// Its disk may not have delivered it yet.
const FROM_DISK: u8 = 2;

/// Of a file.
const OF_FILE: u8 = 4;

/// Read ahead and not used yet.
const AHEAD: u8 = 8;

/// What a use of a page found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    /// When the page is there.
    pub(super) usable_at: Moment,
    /// Whether it was read ahead, and this is its first use.
    pub(super) was_ahead: bool,
}

/// A page that has just left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaver {
    Anonymous(Place),
    File { place: Place, dirty: bool },
}

/// A guest's pages.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pages: Vec<Page>,
    /// Marks of each page in memory.
    marks: Vec<u8>,
    /// When the disk has delivered each page that is marked so.
    ready_at: Vec<Moment>,
    /// The first page of each leaf of a file.
    names: Vec<FilePage>,
    /// Leaves of anonymous memory by their number.
    near: Vec<u32>,
    far: Table<u64, u32>,
    /// Leaves of files, by file and number.
    files: Table<(u64, u32), u32>,
    /// The leaf of a file that was looked for last.
    recent: Option<((u64, u32), u32)>,
    uses: Uses,
    resident: usize,
}

impl Memory {
    /// Pages in memory.
    pub(super) fn len(&self) -> usize {
        self.resident
    }

    /// Where a page of anonymous memory has its entry, which is made if there is none.
    pub(super) fn anonymous(&mut self, page: u64) -> Place {
        let offset = (page % u64::from(LEAF)) as u32;
        let leaf = match self.find_anonymous(page / u64::from(LEAF)) {
            NONE => self.grow_anonymous(page / u64::from(LEAF)),
            leaf => leaf,
        };
        Place(leaf * LEAF + offset)
    }

    /// The same, if there is one.
    pub(super) fn known_anonymous(&self, page: u64) -> Option<Place> {
        let offset = (page % u64::from(LEAF)) as u32;
        let leaf = self.find_anonymous(page / u64::from(LEAF));
        (leaf != NONE).then(|| Place(leaf * LEAF + offset))
    }

    /// Where a page of a file has its entry, which is made if there is none.
    pub(super) fn file(&mut self, page: FilePage) -> Place {
        let leaf = match self.find_file(page.leaf()) {
            NONE => self.grow_file(page.leaf()),
            leaf => leaf,
        };
        self.recent = Some((page.leaf(), leaf));
        Place(leaf * LEAF + page.index % LEAF)
    }

    /// The same, if there is one.
    pub(super) fn known_file(&self, page: FilePage) -> Option<Place> {
        let leaf = self.find_file(page.leaf());
        (leaf != NONE).then(|| Place(leaf * LEAF + page.index % LEAF))
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
        self.ready_at.resize(pages, Moment::START);
        self.names.len() as u32 - 1
    }

    /// The page of a file whose entry this is.
    pub(super) fn file_page(&self, place: Place) -> FilePage {
        let first = self.names[(place.0 / LEAF) as usize];
        FilePage {
            index: first.index + place.0 % LEAF,
            ..first
        }
    }

    /// What is noted on a page; 0 where nothing ever was.
    pub(super) fn note(&self, place: Place) -> u32 {
        self.pages[place.number()].note
    }

    /// Notes a number on a page, in memory or not.
    pub(super) fn set_note(&mut self, place: Place, note: u32) {
        self.pages[place.number()].note = note;
    }

    /// Whether a page is in memory; no use of it.
    pub(super) fn has(&self, place: Place) -> bool {
        self.pages[place.number()].last_use != NEVER
    }

    /// Uses a page at `now`, if it is in memory: it becomes the hottest. No later use is before `began`.
    pub(super) fn touch(&mut self, place: Place, now: Moment, began: Moment) -> Option<Touched> {
        if !self.has(place) {
            return None;
        }
        self.uses.note(&mut self.pages, place.0, self.resident);
        let marks = &mut self.marks[place.number()];
        let was_ahead = *marks & AHEAD != 0;
        *marks &= !AHEAD;
        let mut usable_at = now;
        if *marks & FROM_DISK != 0 {
            let ready_at = self.ready_at[place.number()];
            usable_at = now.max(ready_at);
            if ready_at <= began {
                *marks &= !FROM_DISK;
            }
        }
        Some(Touched {
            usable_at,
            was_ahead,
        })
    }

    /// Marks a page in memory as read ahead.
    pub(super) fn mark_ahead(&mut self, place: Place) {
        self.mark(place, AHEAD);
    }

    /// Marks a page in memory as written.
    pub(super) fn soil(&mut self, place: Place) {
        self.mark(place, DIRTY);
    }

    fn mark(&mut self, place: Place, mark: u8) {
        if self.has(place) {
            self.marks[place.number()] |= mark;
        }
    }

    /// Enters a page of anonymous memory that is not here as the hottest; the disk delivers it at `ready_at`, or
    /// has.
    pub(super) fn insert_anonymous(&mut self, place: Place, ready_at: Moment) {
        self.insert(place, ready_at, 0);
    }

    /// Enters a clean page of a file likewise.
    pub(super) fn insert_file(&mut self, place: Place, ready_at: Moment) {
        self.insert(place, ready_at, OF_FILE);
    }

    fn insert(&mut self, place: Place, ready_at: Moment, marks: u8) {
        debug_assert!(!self.has(place));
        self.resident += 1;
        self.uses.note(&mut self.pages, place.0, self.resident);
        self.marks[place.number()] = marks;
        if ready_at != Moment::START {
            self.marks[place.number()] |= FROM_DISK;
            self.ready_at[place.number()] = ready_at;
        }
    }

    /// Takes a page out of memory; its note stays.
    pub(super) fn remove(&mut self, place: Place) {
        if self.has(place) {
            self.pages[place.number()].last_use = NEVER;
            self.resident -= 1;
        }
    }

    /// Takes the coldest page out of memory.
    pub(super) fn pop_coldest(&mut self) -> Option<Leaver> {
        let place = Place(self.uses.take_coldest(&self.pages)?);
        self.remove(place);
        let marks = self.marks[place.number()];
        Some(match marks & OF_FILE != 0 {
            true => Leaver::File {
                place,
                dirty: marks & DIRTY != 0,
            },
            false => Leaver::Anonymous(place),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::virtual_time::Nanos;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Name {
        Anonymous(u64),
        File(u64, u32),
    }

    /// A page in the model: name, whether it is dirty, when it is usable, whether it was read ahead.
    type Entry = (Name, bool, Moment, bool);

    /// Pages of which many share a leaf, and some are far from all others.
    fn any_name(chance: &mut Chance) -> Name {
        let page = chance.below(40);
        match chance.below(4) {
            0 => Name::Anonymous(page),
            1 => Name::Anonymous(NEAR_LEAVES * u64::from(LEAF) - 20 + page),
            2 => Name::Anonymous(u64::MAX - page),
            _ => Name::File(page % 3, (page % 7 * 11) as u32),
        }
    }

    fn place_of(memory: &mut Memory, name: Name) -> Place {
        match name {
            Name::Anonymous(page) => memory.anonymous(page),
            Name::File(object, index) => memory.file(FilePage { object, index }),
        }
    }

    fn known(memory: &Memory, name: Name) -> Option<Place> {
        match name {
            Name::Anonymous(page) => memory.known_anonymous(page),
            Name::File(object, index) => memory.known_file(FilePage { object, index }),
        }
    }

    fn leaver(memory: &mut Memory, name: Name, dirty: bool) -> Leaver {
        let place = place_of(memory, name);
        match name {
            Name::Anonymous(_) => Leaver::Anonymous(place),
            Name::File(..) => Leaver::File { place, dirty },
        }
    }

    #[test]
    fn it_agrees_with_a_list_that_is_searched() {
        let mut memory = Memory::default();
        // The coldest first.
        let mut model: Vec<Entry> = Vec::new();
        let mut notes: Table<Name, u32> = Table::default();
        let mut chance = Chance::seeded(11);
        for step in 0..40_000u32 {
            let name = any_name(&mut chance);
            let is_known = known(&memory, name).is_some();
            assert!(is_known || !notes.contains_key(&name));
            let place = place_of(&mut memory, name);
            assert_eq!(known(&memory, name), Some(place));
            if let Name::File(object, index) = name {
                assert_eq!(memory.file_page(place), FilePage { object, index });
            }
            assert_eq!(memory.note(place), notes.get(&name).copied().unwrap_or(0));
            let found = model.iter().position(|entry| entry.0 == name);
            assert_eq!(memory.has(place), found.is_some());
            match (chance.below(5), found) {
                (0, None) | (1, None) => {
                    let ready_at = Moment(chance.below(3) * u64::from(step));
                    match name {
                        Name::Anonymous(_) => memory.insert_anonymous(place, ready_at),
                        Name::File(..) => memory.insert_file(place, ready_at),
                    }
                    let is_ahead = chance.happens(0.5);
                    if is_ahead {
                        memory.mark_ahead(place);
                    }
                    model.push((name, false, ready_at, is_ahead));
                }
                (0 | 1, Some(found)) => {
                    let began = Moment(u64::from(step));
                    let now = began + Nanos(chance.below(40_000));
                    let (name, dirty, ready_at, was_ahead) = model.remove(found);
                    let touched = Touched {
                        usable_at: now.max(ready_at),
                        was_ahead,
                    };
                    assert_eq!(memory.touch(place, now, began), Some(touched));
                    model.push((name, dirty, ready_at, false));
                }
                (2, found) => {
                    memory.soil(place);
                    found.into_iter().for_each(|found| model[found].1 = true);
                    memory.set_note(place, step);
                    notes.insert(name, step);
                }
                (3, found) => {
                    memory.remove(place);
                    found.map(|found| model.remove(found));
                    assert_eq!(memory.touch(place, Moment::START, Moment::START), None);
                }
                _ => {
                    let coldest = (!model.is_empty()).then(|| model.remove(0));
                    let expected =
                        coldest.map(|(name, dirty, ..)| leaver(&mut memory, name, dirty));
                    assert_eq!(memory.pop_coldest(), expected);
                }
            }
            assert_eq!(memory.len(), model.len());
        }
    }
}
