//! Buffers for pages that a disk's tasks work on, beside the buffers of requests. They are used again and again, so
//! that no request allocates one.

use std::cell::RefCell;

use sublet_frontends::block_device::Buffer;

use super::page_span::PAGE;

/// The most buffers that are kept for later.
const SPARE_MAX: usize = 8;

/// Pages of each buffer. A request for less than whole pages touches few.
pub(super) const ROOM_PAGES: u64 = 16;

const ROOM_BYTES: usize = ROOM_PAGES as usize * PAGE;

/// The buffers that no task uses.
pub(super) struct ScratchBuffers(RefCell<Vec<Buffer>>);

impl Default for ScratchBuffers {
    fn default() -> ScratchBuffers {
        ScratchBuffers(RefCell::new(Vec::with_capacity(SPARE_MAX)))
    }
}

impl ScratchBuffers {
    /// A buffer of this many bytes, with any content.
    pub(super) fn acquire(&self, bytes: usize) -> Buffer {
        let spare = match bytes <= ROOM_BYTES {
            true => self.0.borrow_mut().pop(),
            false => None,
        };
        let mut room = spare.unwrap_or_else(|| Buffer::zeroed(bytes.max(ROOM_BYTES)));
        room.resize(bytes);
        room
    }

    /// Gives a buffer back.
    pub(super) fn release(&self, room: Buffer) {
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
        let buffers = ScratchBuffers::default();
        let mut room = buffers.acquire(4096);
        room[4095] = 7;
        buffers.release(room);
        let room = buffers.acquire(8192);
        assert_eq!((room.len(), room[4095]), (8192, 7));
        let large = buffers.acquire(2 * ROOM_BYTES);
        assert_eq!(large.len(), 2 * ROOM_BYTES);
        buffers.release(large);
        assert_eq!(buffers.0.borrow().len(), 0);
    }
}
