//! Bytes between a socket and a session.

use std::io;
use std::os::fd::OwnedFd;

use super::lent::Lent;
use crate::doors::socket;

/// Room that a new queue begins with, bytes.
const ROOM_MIN: usize = 16 << 10;

/// Where bytes wait.
#[derive(Debug)]
enum Room {
    /// In memory that is used again without being cleared.
    Own(Vec<u8>),
    /// Where their reader finds them.
    Lent(Box<Lent>),
}

impl Default for Room {
    fn default() -> Room {
        Room::Own(Vec::new())
    }
}

impl Room {
    fn bytes(&self) -> &[u8] {
        match self {
            Room::Own(room) => room,
            Room::Lent(lent) => lent.bytes(),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Room::Own(room) => room,
            Room::Lent(lent) => lent.bytes_mut(),
        }
    }
}

/// Bytes that wait, in order.
#[derive(Debug, Default)]
pub struct Queue {
    room: Room,
    /// What is before it is done with.
    done: usize,
    /// What is after it is room.
    end: usize,
}

impl Queue {
    /// A queue in the room of another.
    pub(super) fn within(room: Vec<u8>) -> Queue {
        Queue {
            room: Room::Own(room),
            ..Queue::default()
        }
    }

    /// A queue of replies which their reader finds where they were written.
    pub(super) fn lent(lent: Lent) -> Queue {
        Queue {
            room: Room::Lent(Box::new(lent)),
            ..Queue::default()
        }
    }

    /// Whether it is such a queue.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.room, Room::Lent(_))
    }

    /// Its room, once nothing waits in it; none that is lent.
    pub(super) fn into_room(self) -> Option<Vec<u8>> {
        match self.room {
            Room::Own(room) => Some(room),
            Room::Lent(_) => None,
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.done == self.end && !matches!(&self.room, Room::Lent(lent) if lent.is_under_way())
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.end - self.done
    }

    /// What waits.
    pub fn waiting(&self) -> &[u8] {
        &self.room.bytes()[self.done..self.end]
    }

    /// Memory that it holds, bytes.
    pub fn held(&self) -> usize {
        match &self.room {
            Room::Own(room) => room.len(),
            Room::Lent(lent) => lent.held(),
        }
    }

    /// The next `len` bytes, to be written by the caller: what is in them is old.
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        if self.end + len > self.room.bytes().len() {
            self.make_room(len);
        }
        let from = self.end;
        self.end += len;
        &mut self.room.bytes_mut()[from..self.end]
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
        let is_used_again = match &mut self.room {
            _ if self.done < self.end => false,
            Room::Own(_) => true,
            Room::Lent(lent) => lent.give_up_large(),
        };
        if is_used_again {
            (self.done, self.end) = (0, 0);
        }
    }

    /// Sends some of what waits. Says how many bytes were spliced.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when the socket takes no more.
    pub(super) fn send(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        let (count, is_spliced) = match &mut self.room {
            Room::Own(room) => (socket::send(socket, &room[self.done..self.end])?, false),
            Room::Lent(lent) => lent.send(self.done..self.end)?,
        };
        self.finish(count);
        Ok(if is_spliced { count } else { 0 })
    }

    fn make_room(&mut self, len: usize) {
        let waiting = self.done..self.end;
        match &mut self.room {
            Room::Own(room) => {
                // What is done with makes room, if that is much of it; else there will be more.
                if self.done >= waiting.len() && self.done > 0 {
                    room.copy_within(waiting.clone(), 0);
                    (self.done, self.end) = (0, waiting.len());
                }
                let wanted = self.end + len;
                if wanted > room.len() {
                    let grown = wanted.max(room.len() * 2).max(ROOM_MIN);
                    room.resize(grown, 0);
                }
            }
            Room::Lent(lent) => {
                let wanted = waiting.len() + len;
                (self.done, self.end) = (0, waiting.len());
                lent.go_on(waiting, wanted);
            }
        }
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
