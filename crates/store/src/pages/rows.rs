//! Persistent pages' places on disk.
//!
//! A persistent page has a slot of its pool's spill file from its put on, so that shrinking always finds a
//! place for it. A slot has a sequence number and at most one write in flight: whoever replaces or flushes
//! the page meanwhile raises the sequence, and the writer then knows that what it wrote is out of date.

use crate::frames::Key;

/// One persistent page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) key: Key,
    /// Its place in the spill file, in pages.
    pub(super) slot: u32,
    /// Raised with each change.
    pub(super) sequence: u32,
    /// Its slot is being written.
    pub(super) writing: bool,
    /// It was flushed while its slot was being written: the writer gives the slot back.
    pub(super) doomed: bool,
}

/// The persistent pages of a shard.
#[derive(Default)]
pub(super) struct Rows {
    pages: Vec<Row>,
    vacant: Vec<u32>,
}

impl Rows {
    /// A place for a new page.
    pub(super) fn add(&mut self, key: Key, slot: u32) -> u32 {
        let mut page = Row {
            key,
            slot,
            sequence: 0,
            writing: false,
            doomed: false,
        };
        match self.vacant.pop() {
            Some(number) => {
                // A sequence goes on, so that whoever still reads for the one before sees that it is gone.
                page.sequence = self.pages[number as usize].sequence.wrapping_add(1);
                self.pages[number as usize] = page;
                number
            }
            None => {
                self.pages.push(page);
                // Who flushes needs no memory.
                let room = self.pages.capacity() - self.vacant.len();
                self.vacant.reserve_exact(room);
                self.pages.len() as u32 - 1
            }
        }
    }

    pub(super) fn key(&self, number: u32) -> Key {
        self.pages[number as usize].key
    }

    pub(super) fn get(&self, number: u32) -> Row {
        self.pages[number as usize]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Row {
        &mut self.pages[number as usize]
    }

    /// Forgets a page. The slot that can be given back now, if nobody is writing it.
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

    /// Hears that a write has ended. Whether the page is still as it was when the write began, or the
    /// slot that can be given back.
    pub(super) fn written(&mut self, number: u32, sequence: u32) -> Written {
        let page = &mut self.pages[number as usize];
        page.writing = false;
        if page.doomed {
            self.vacant.push(number);
            return Written::Doomed(page.slot);
        }
        match page.sequence == sequence {
            true => Written::Current,
            false => Written::Outdated,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let page = size_of::<Row>();
        (self.pages.capacity() * page + self.vacant.capacity() * size_of::<u32>()) as u64
    }
}

/// What a write that has ended is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The slot holds the page.
    Current,
    /// The page was replaced meanwhile.
    Outdated,
    /// The page was flushed meanwhile; this slot is free.
    Doomed(u32),
}
