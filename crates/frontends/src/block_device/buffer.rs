//! The bytes that travel to or from a backing.

use std::fmt;
use std::ops::{Deref, DerefMut};

use sublet_types::PAGE_BYTES;

const ALIGN: usize = PAGE_BYTES as usize;

/// Bytes that begin at a page boundary of memory, as direct I/O requires.
#[derive(Default)]
pub struct Buffer {
    /// The memory behind the buffer, longer than what is used. It never moves while the buffer is in use.
    allocation: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` zeroes.
    pub fn zeroed(len: usize) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.resize(len);
        buffer
    }

    /// Sets the length to `len` bytes, whose contents are not defined. It allocates only if the buffer never had so
    /// many.
    pub fn resize(&mut self, len: usize) {
        if len > self.allocation.len().saturating_sub(self.start) {
            self.allocation = vec![0; len + ALIGN];
            self.start = self.allocation.as_ptr().align_offset(ALIGN).min(ALIGN);
        }
        self.len = len;
    }

    /// The largest length that the buffer ever had.
    pub(crate) fn largest_len(&self) -> usize {
        self.allocation.len().saturating_sub(ALIGN)
    }

    /// How many bytes the buffer can have without allocating.
    pub fn capacity(&self) -> usize {
        self.allocation.len().saturating_sub(self.start)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.allocation[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.allocation[self.start..self.start + self.len]
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
