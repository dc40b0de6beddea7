//! Bytes on their way to or from a backing.

use std::fmt;
use std::ops::{Deref, DerefMut};

use sublet_types::PAGE_BYTES;

const ALIGN: usize = PAGE_BYTES as usize;

/// Bytes that begin at a page of memory, as direct I/O wants them.
#[derive(Default)]
pub struct Buffer {
    /// Longer than what is used, and never moved while it is.
    room: Vec<u8>,
    from: usize,
    len: usize,
}

impl Buffer {
    /// So many zeroes.
    pub fn zeroed(len: usize) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.resize(len);
        buffer
    }

    /// Has `len` bytes from now on, whatever they are. Allocates only if it never had so many.
    pub fn resize(&mut self, len: usize) {
        if len > self.room.len().saturating_sub(self.from) {
            self.room = vec![0; len + ALIGN];
            self.from = self.room.as_ptr().align_offset(ALIGN).min(ALIGN);
        }
        self.len = len;
    }

    /// The most bytes that it was asked to have.
    pub(crate) fn made_for(&self) -> usize {
        self.room.len().saturating_sub(ALIGN)
    }

    /// Bytes that it may have without allocating.
    pub fn capacity(&self) -> usize {
        self.room.len().saturating_sub(self.from)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[self.from..self.from + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.from..self.from + self.len]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_begin_at_a_page_and_stay() {
        let mut buffer = Buffer::zeroed(10);
        assert!(buffer.as_ptr().addr().is_multiple_of(ALIGN));
        buffer.copy_from_slice(b"0123456789");
        let moved = buffer;
        assert_eq!(&*moved, b"0123456789");
        assert!(moved.as_ptr().addr().is_multiple_of(ALIGN));
    }

    #[test]
    fn shrinking_and_growing_within_its_room_allocates_nothing() {
        let mut buffer = Buffer::zeroed(8192);
        let at = buffer.as_ptr();
        buffer.resize(0);
        buffer.resize(4096);
        buffer.resize(8192);
        assert_eq!(buffer.as_ptr(), at);
    }
}
