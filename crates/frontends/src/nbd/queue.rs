//! Bytes between a socket and a session.

use crate::serving::Outgoing;

/// Room that a new queue begins with, bytes.
const ROOM_MIN: usize = 16 << 10;

/// Bytes that wait, in order.
#[derive(Debug, Default)]
pub struct Queue {
    /// Memory that is used again without being cleared.
    room: Vec<u8>,
    /// What is before it is done with.
    done: usize,
    /// What is after it is room.
    end: usize,
}

impl Queue {
    /// A queue in the room of another.
    pub(super) fn within(room: Vec<u8>) -> Queue {
        Queue {
            room,
            ..Queue::default()
        }
    }

    /// Its room, once nothing waits in it.
    pub(super) fn into_room(self) -> Vec<u8> {
        self.room
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.done == self.end
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.end - self.done
    }

    /// What waits.
    pub fn waiting(&self) -> &[u8] {
        &self.room[self.done..self.end]
    }

    /// Memory that it holds, bytes.
    pub fn held(&self) -> usize {
        self.room.len()
    }

    /// The next `len` bytes, to be written by the caller: what is in them is old.
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        if self.end + len > self.room.len() {
            self.make_room(len);
        }
        let from = self.end;
        self.end += len;
        &mut self.room[from..self.end]
    }

    /// The last `len` bytes were not written after all.
    pub fn give_back(&mut self, len: usize) {
        self.end -= len;
    }

    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// The front `count` bytes are done with.
    pub fn finish(&mut self, count: usize) {
        self.done += count;
        if self.done == self.end {
            (self.done, self.end) = (0, 0);
        }
    }

    fn make_room(&mut self, len: usize) {
        let waiting = self.done..self.end;
        // What is done with makes room, if that is much of it; else there will be more.
        if self.done >= waiting.len() && self.done > 0 {
            self.room.copy_within(waiting.clone(), 0);
            (self.done, self.end) = (0, waiting.len());
        }
        let wanted = self.end + len;
        if wanted > self.room.len() {
            let grown = wanted.max(self.room.len() * 2).max(ROOM_MIN);
            self.room.resize(grown, 0);
        }
    }
}

impl Outgoing for Queue {
    fn waiting(&self) -> &[u8] {
        self.waiting()
    }

    fn finish(&mut self, count: usize) {
        self.finish(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let mut queue = Queue::default();
        queue.push(b"abc");
        queue.space(10).fill(b'x');
        queue.give_back(8);
        queue.finish(1);
        queue.push(b"de");
        assert_eq!(queue.waiting(), b"bcxxde");
        queue.finish(6);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_reader_that_never_catches_up_does_not_make_it_grow() {
        let mut queue = Queue::default();
        queue.push(&[1; 1000]);
        for n in 0..10_000_u32 {
            queue.push(&[n as u8; 1000]);
            queue.finish(1000);
            assert_eq!(queue.waiting(), [n as u8; 1000]);
        }
        assert_eq!(queue.held(), ROOM_MIN);
    }
}
