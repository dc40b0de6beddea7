//! A shard's pages that need more than a frame to be found: persistent ones, which have a place on disk besides, and those
//! whose words are all equal, which need no frame.
//!
//! A persistent page gets a slot of its pool's spill file when it is put, so that shrinking always finds a place for
//! it. At most one write of a slot is in flight. A thread that replaces or flushes the page meanwhile raises the row's
//! sequence. The writer then knows that what it wrote is stale.

use crate::arena::{PageKind, SameWord};
use crate::frames::StoredKey;

/// A page, and where it is besides or instead of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) key: StoredKey,
    /// A number that each change raises. It goes on when the row is another page's, so that a thread that still reads for
    /// the page before sees that it is gone.
    pub(super) sequence: u32,
    pub(super) place: RowPlace,
}

const _: () = assert!(size_of::<Row>() == 32);

/// Where a row's page is.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowPlace {
    /// Nowhere: the row is vacant.
    Vacant,
    /// In a slot of the spill file, and perhaps in a frame.
    Disk(DiskSlot),
    /// Every word of it is the same. It is a page of a pool of this kind.
    Filled(SameWord, PageKind),
}

/// A slot of a spill file that is a persistent page's.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskSlot {
    /// Its number in the file, in pages.
    pub(super) number: u32,
    pub(super) writes: SlotWrites,
}

/// Whether a slot is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotWrites {
    /// It is not.
    None,
    /// It is.
    One,
    /// It is, and the page was flushed meanwhile. The writer gives the slot back.
    Doomed,
}

impl DiskSlot {
    fn new(number: u32) -> DiskSlot {
        DiskSlot {
            number,
            writes: SlotWrites::None,
        }
    }
}

/// The rows of a shard.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    vacant: Vec<u32>,
    /// Whether a row was wanted for which there was no room.
    lacked_room: bool,
    /// Pages that are filled, by kind.
    filled: [u32; 2],
    /// Where the search for the next one to go begins.
    hand: u32,
}

/// Room for rows, allocated while no shard is locked.
pub(super) struct RowRoom {
    rows: Vec<Row>,
    vacant: Vec<u32>,
}

impl RowRoom {
    fn of(count: usize) -> RowRoom {
        RowRoom {
            rows: Vec::with_capacity(count),
            vacant: Vec::with_capacity(count),
        }
    }
}

/// The least rows that room is made for.
const ROOM_MIN: usize = 256;

impl Rows {
    /// Returns whether a row can be added without an allocation. If not, the chores make room.
    pub(super) fn has_room(&mut self) -> bool {
        let has_room = !self.vacant.is_empty() || self.rows.len() < self.rows.capacity();
        self.lacked_room |= !has_room;
        has_room
    }

    /// Room for twice as many rows, if some were lacking since the last call. The caller locks no shard while it waits
    /// for the memory.
    pub(super) fn room_wanted(&mut self) -> Option<impl FnOnce() -> RowRoom + use<>> {
        let count = ROOM_MIN.max(2 * self.rows.capacity());
        std::mem::take(&mut self.lacked_room).then_some(move || RowRoom::of(count))
    }

    /// Moves into larger room. Returns the room that it had, which is freed while no shard is locked.
    pub(super) fn move_into(&mut self, mut room: RowRoom) -> RowRoom {
        if room.rows.capacity() > self.rows.capacity() {
            room.rows.append(&mut self.rows);
            room.vacant.append(&mut self.vacant);
            std::mem::swap(&mut room.rows, &mut self.rows);
            std::mem::swap(&mut room.vacant, &mut self.vacant);
        }
        room
    }

    /// Adds a row for a persistent page.
    pub(super) fn add_on_disk(&mut self, key: StoredKey, slot: u32) -> u32 {
        self.add(key, RowPlace::Disk(DiskSlot::new(slot)))
    }

    /// Adds a row for a page whose words are all the same.
    pub(super) fn add_filled(&mut self, key: StoredKey, word: SameWord, kind: PageKind) -> u32 {
        self.filled[kind as usize] += 1;
        self.add(key, RowPlace::Filled(word, kind))
    }

    fn add(&mut self, key: StoredKey, place: RowPlace) -> u32 {
        match self.vacant.pop() {
            Some(number) => {
                let row = &mut self.rows[number as usize];
                let sequence = row.sequence.wrapping_add(1);
                *row = Row {
                    key,
                    sequence,
                    place,
                };
                number
            }
            None => {
                self.rows.push(Row {
                    key,
                    sequence: 0,
                    place,
                });
                // A flush needs no memory, so make room for it now.
                let room = self.rows.capacity() - self.vacant.len();
                self.vacant.reserve_exact(room);
                self.rows.len() as u32 - 1
            }
        }
    }

    pub(super) fn key(&self, number: u32) -> StoredKey {
        self.rows[number as usize].key
    }

    pub(super) fn get(&self, number: u32) -> Row {
        self.rows[number as usize]
    }

    /// The slot of a row. `None` if its page needs none.
    pub(super) fn slot(&self, number: u32) -> Option<DiskSlot> {
        match self.rows[number as usize].place {
            RowPlace::Disk(slot) => Some(slot),
            RowPlace::Filled(..) | RowPlace::Vacant => None,
        }
    }

    /// Records that a page has changed. What is read or written of it is stale.
    pub(super) fn change(&mut self, number: u32) {
        let row = &mut self.rows[number as usize];
        row.sequence = row.sequence.wrapping_add(1);
    }

    /// Removes a page. Returns the slot if it can be given back now, because nobody is writing it.
    pub(super) fn forget(&mut self, number: u32) -> Option<u32> {
        self.change(number);
        let row = &mut self.rows[number as usize];
        let given_back = match &mut row.place {
            RowPlace::Disk(slot) if slot.writes != SlotWrites::None => {
                slot.writes = SlotWrites::Doomed;
                return None;
            }
            RowPlace::Disk(slot) => Some(slot.number),
            RowPlace::Filled(_, kind) => {
                self.filled[*kind as usize] -= 1;
                None
            }
            RowPlace::Vacant => return None,
        };
        row.place = RowPlace::Vacant;
        self.vacant.push(number);
        given_back
    }

    /// Records that a slot is being written from now on. Returns its number and the row's sequence. `None` if it is being
    /// written already.
    pub(super) fn begin_write(&mut self, number: u32) -> Option<SlotWrite> {
        let row = &mut self.rows[number as usize];
        let RowPlace::Disk(slot) = &mut row.place else {
            return None;
        };
        if slot.writes != SlotWrites::None {
            return None;
        }
        slot.writes = SlotWrites::One;
        Some(SlotWrite {
            slot: slot.number,
            sequence: row.sequence,
        })
    }

    /// Records that a write has ended. Returns whether the page is still as it was when the write began, or the slot
    /// that can be given back.
    pub(super) fn finish_write(&mut self, number: u32, write: SlotWrite) -> WriteOutcome {
        let row = &mut self.rows[number as usize];
        let RowPlace::Disk(slot) = &mut row.place else {
            return WriteOutcome::Outdated;
        };
        if slot.writes == SlotWrites::Doomed {
            row.place = RowPlace::Vacant;
            self.vacant.push(number);
            return WriteOutcome::Doomed(write.slot);
        }
        slot.writes = SlotWrites::None;
        match row.sequence == write.sequence {
            true => WriteOutcome::Current,
            false => WriteOutcome::Outdated,
        }
    }

    /// Pages of a kind that are filled.
    pub(super) fn filled(&self, kind: PageKind) -> u32 {
        self.filled[kind as usize]
    }

    /// An ephemeral page that is filled, another one each time, in turns.
    pub(super) fn next_filled_ephemeral(&mut self) -> Option<(u32, StoredKey)> {
        if self.filled(PageKind::Ephemeral) == 0 {
            return None;
        }
        loop {
            self.hand = (self.hand + 1) % self.rows.len() as u32;
            let row = &self.rows[self.hand as usize];
            if let RowPlace::Filled(_, PageKind::Ephemeral) = row.place {
                return Some((self.hand, row.key));
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.rows.capacity() * size_of::<Row>() + self.vacant.capacity() * size_of::<u32>()) as u64
    }
}

/// A write of a page to its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotWrite {
    pub(super) slot: u32,
    /// Of the row, when the write began.
    sequence: u32,
}

/// The outcome of a write that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The slot holds the page.
    Current,
    /// The page was replaced meanwhile.
    Outdated,
    /// The page was flushed meanwhile. This slot is free.
    Doomed(u32),
}
