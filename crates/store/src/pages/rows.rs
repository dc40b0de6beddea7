//! Persistent pages' places on disk.
//!
//! A persistent page gets a slot of its pool's spill file when it is put, so that shrinking always finds a place for
//! it. A slot has a sequence number and at most one write in flight. A thread that replaces or flushes the page
//! meanwhile raises the sequence. The writer then knows that what it wrote is stale.

use crate::frames::StoredKey;

/// One persistent page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) key: StoredKey,
    /// Its slot in the spill file, in pages.
    pub(super) slot: u32,
    /// A number that each change raises.
    pub(super) sequence: u32,
    /// Whether its slot is being written.
    pub(super) writing: bool,
    /// It was flushed while its slot was being written. The writer gives the slot back.
    pub(super) doomed: bool,
}

/// The persistent pages of a shard.
#[derive(Default)]
pub(super) struct Rows {
    pages: Vec<Row>,
    vacant: Vec<u32>,
}

impl Rows {
    /// Adds a row for a new page.
    pub(super) fn add(&mut self, key: StoredKey, slot: u32) -> u32 {
        let mut page = Row {
            key,
            slot,
            sequence: 0,
            writing: false,
            doomed: false,
        };
        match self.vacant.pop() {
            Some(number) => {
                // The sequence continues, so that a thread that still reads for the page before sees that it is gone.
                page.sequence = self.pages[number as usize].sequence.wrapping_add(1);
                self.pages[number as usize] = page;
                number
            }
            None => {
                self.pages.push(page);
                // A flush needs no memory, so make room for it now.
                let room = self.pages.capacity() - self.vacant.len();
                self.vacant.reserve_exact(room);
                self.pages.len() as u32 - 1
            }
        }
    }

    pub(super) fn key(&self, number: u32) -> StoredKey {
        self.pages[number as usize].key
    }

    pub(super) fn get(&self, number: u32) -> Row {
        self.pages[number as usize]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Row {
        &mut self.pages[number as usize]
    }

    /// Removes a page. Returns the slot if it can be given back now, because nobody is writing it.
    pub(super) fn forget(&mut self, number: u32) -> Option<u32> {
        let page = &mut self.pages[number as usize];
        page.sequence = page.sequence.wrapping_add(1);
        if page.writing {
            page.doomed = true;
            return None;
        }
        self.vacant.push(number);
        Some(page.slot)
    }

    /// Records that a write has ended. Returns whether the page is still as it was when the write began, or the slot
    /// that can be given back.
    pub(super) fn finish_write(&mut self, number: u32, sequence: u32) -> WriteOutcome {
        let page = &mut self.pages[number as usize];
        page.writing = false;
        if page.doomed {
            self.vacant.push(number);
            return WriteOutcome::Doomed(page.slot);
        }
        match page.sequence == sequence {
            true => WriteOutcome::Current,
            false => WriteOutcome::Outdated,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let page = size_of::<Row>();
        (self.pages.capacity() * page + self.vacant.capacity() * size_of::<u32>()) as u64
    }
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
