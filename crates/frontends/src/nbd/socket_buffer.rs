//! The buffer between a socket and a session.

use crate::serving::SendBuffer;

/// The smallest allocation, bytes.
const ROOM_MIN: usize = 16 << 10;

/// A first-in, first-out queue of bytes.
#[derive(Debug, Default)]
pub struct SocketBuffer {
    /// The memory behind the queue. It is reused without being cleared.
    bytes: Vec<u8>,
    /// Bytes before this offset are consumed.
    done: usize,
    /// Bytes from this offset on are free.
    end: usize,
}

impl SocketBuffer {
    /// An empty queue in the memory of another.
    pub(super) fn with_allocation(room: Vec<u8>) -> SocketBuffer {
        SocketBuffer {
            bytes: room,
            ..SocketBuffer::default()
        }
    }

    /// Gives up the memory of an empty queue.
    pub(super) fn into_allocation(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns whether no byte waits.
    pub fn is_empty(&self) -> bool {
        self.done == self.end
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.end - self.done
    }

    /// The bytes that wait.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.done..self.end]
    }

    /// How much memory the queue holds, bytes.
    pub fn capacity_held(&self) -> usize {
        self.bytes.len()
    }

    /// Appends `len` bytes, which the caller must write. Until then they hold old bytes.
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        if self.end + len > self.bytes.len() {
            self.make_room(len);
        }
        let from = self.end;
        self.end += len;
        &mut self.bytes[from..self.end]
    }

    /// Takes back the last `len` bytes, which the caller did not write after all.
    pub fn give_back(&mut self, len: usize) {
        self.end -= len;
    }

    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// Drops the first `count` bytes.
    pub fn consume(&mut self, count: usize) {
        self.done += count;
        if self.done == self.end {
            (self.done, self.end) = (0, 0);
        }
    }

    fn make_room(&mut self, len: usize) {
        let waiting = self.done..self.end;
        // If much of the memory is consumed, the queue moves to the front. Otherwise it grows.
        if self.done >= waiting.len() && self.done > 0 {
            self.bytes.copy_within(waiting.clone(), 0);
            (self.done, self.end) = (0, waiting.len());
        }
        let wanted = self.end + len;
        if wanted > self.bytes.len() {
            let grown = wanted.max(self.bytes.len() * 2).max(ROOM_MIN);
            self.bytes.resize(grown, 0);
        }
    }
}

impl SendBuffer for SocketBuffer {
    fn waiting(&self) -> &[u8] {
        self.waiting()
    }

    fn consume(&mut self, count: usize) {
        self.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let mut queue = SocketBuffer::default();
        queue.push(b"abc");
        queue.space(10).fill(b'x');
        queue.give_back(8);
        queue.consume(1);
        queue.push(b"de");
        assert_eq!(queue.waiting(), b"bcxxde");
        queue.consume(6);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_reader_that_never_catches_up_does_not_make_it_grow() {
        let mut queue = SocketBuffer::default();
        queue.push(&[1; 1000]);
        for n in 0..10_000_u32 {
            queue.push(&[n as u8; 1000]);
            queue.consume(1000);
            assert_eq!(queue.waiting(), [n as u8; 1000]);
        }
        assert_eq!(queue.capacity_held(), ROOM_MIN);
    }
}
