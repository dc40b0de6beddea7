//! Rooms for pages that a disk's tasks work on beside what they were given: used again and again, so that no request
//! allocates one.

use std::cell::RefCell;

use sublet_frontends::block::Buffer;

use super::cover::PAGE;

/// Rooms that are kept for later, at the most.
const SPARE_MAX: usize = 8;

/// Pages of each of them: a request for less than whole pages touches few.
pub(super) const ROOM_PAGES: u64 = 16;

const ROOM_BYTES: usize = ROOM_PAGES as usize * PAGE;

/// The rooms that nobody uses.
pub(super) struct Rooms(RefCell<Vec<Buffer>>);

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms(RefCell::new(Vec::with_capacity(SPARE_MAX)))
    }
}

impl Rooms {
    /// A room of so many bytes, whatever they are.
    pub(super) fn take(&self, bytes: usize) -> Buffer {
        let spare = match bytes <= ROOM_BYTES {
            true => self.0.borrow_mut().pop(),
            false => None,
        };
        let mut room = spare.unwrap_or_else(|| Buffer::zeroed(bytes.max(ROOM_BYTES)));
        room.resize(bytes);
        room
    }

    /// Nobody needs it any more.
    pub(super) fn give_back(&self, room: Buffer) {
        let mut spare = self.0.borrow_mut();
        if spare.len() < SPARE_MAX && room.capacity() < 2 * ROOM_BYTES {
            spare.push(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_used_again_and_a_large_one_is_not_kept() {
        let rooms = Rooms::default();
        let mut room = rooms.take(4096);
        room[4095] = 7;
        rooms.give_back(room);
        let room = rooms.take(8192);
        assert_eq!((room.len(), room[4095]), (8192, 7));
        let large = rooms.take(2 * ROOM_BYTES);
        assert_eq!(large.len(), 2 * ROOM_BYTES);
        rooms.give_back(large);
        assert_eq!(rooms.0.borrow().len(), 0);
    }
}
