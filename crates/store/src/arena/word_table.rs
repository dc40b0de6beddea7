//! A table of words beside the blocks. It is zero until written, and is backed only where it was touched. One that fills
//! a huge page lies in huge pages.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::memory::{HUGE_PAGE, MappedMemory, Memory};

/// Words of a row.
pub(crate) const ROW: usize = 8;

/// The table, in rows of eight words.
pub(crate) struct WordTable {
    memory: MappedMemory,
    rows: usize,
}

/// Bytes that the kernel takes back at least.
const KERNEL_PAGE: usize = 4096;

impl WordTable {
    /// Reserves address space for this many rows of 32 bytes.
    pub(crate) fn reserve(rows: usize) -> std::io::Result<WordTable> {
        let bytes = rows * size_of::<[AtomicU32; ROW]>();
        // The table of a small arena would cost a huge page at its first word.
        let align = match bytes {
            HUGE_PAGE.. => HUGE_PAGE,
            _ => KERNEL_PAGE,
        };
        Ok(WordTable {
            memory: MappedMemory::reserve(bytes.next_multiple_of(align), align)?,
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
        // SAFETY: inside the mapping by the assertion, and aligned, because rows begin at a page. Fresh memory is
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
