//! A table of words beside the blocks. It is zero until written, lies in huge pages, and is backed only where it was
//! touched.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::memory::{MappedMemory, Memory};

/// Words of a row.
pub(crate) const ROW: usize = 8;

/// The table, in rows of eight words.
pub(crate) struct WordTable {
    memory: MappedMemory,
    rows: usize,
}

/// Bytes that the kernel takes back at least.
const KERNEL_PAGE: usize = 4096;

/// The alignment of the rows: a huge page.
const ALIGN: usize = 2 << 20;

impl WordTable {
    /// Reserves address space for this many rows of 32 bytes.
    pub(crate) fn reserve(rows: usize) -> std::io::Result<WordTable> {
        let bytes = (rows * size_of::<[AtomicU32; ROW]>()).next_multiple_of(ALIGN);
        Ok(WordTable {
            memory: MappedMemory::reserve(bytes, ALIGN)?,
            rows,
        })
    }

    /// Keeps the table off the host's swap.
    pub(crate) fn lock(&self) -> std::io::Result<()> {
        self.memory.lock()
    }

    /// Gives the memory of rows back, as far as they fill pages of the kernel. They are zero afterwards. Nobody uses them
    /// meanwhile.
    pub(crate) fn give_back(&self, rows: Range<u32>) {
        let byte = |row: u32| row as usize * size_of::<[AtomicU32; ROW]>();
        let first = byte(rows.start).next_multiple_of(KERNEL_PAGE);
        let end = byte(rows.end) / KERNEL_PAGE * KERNEL_PAGE;
        if first < end {
            self.memory.release(first, end - first);
        }
    }

    /// A row.
    #[inline]
    pub(crate) fn row(&self, row: u32) -> &[AtomicU32; ROW] {
        assert!((row as usize) < self.rows);
        // SAFETY: inside the mapping by the assertion, and aligned, because rows begin at a huge page. Fresh memory is
        // zero, which is a valid row. Nobody reaches it except through shared atomics.
        unsafe {
            &*self
                .memory
                .base()
                .as_ptr()
                .cast::<[AtomicU32; ROW]>()
                .add(row as usize)
        }
    }
}
