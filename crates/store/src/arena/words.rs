//! A table of words beside the blocks: zero until written, in huge pages, backed only where it was touched.

use std::sync::atomic::AtomicU32;

use super::memory::{Mapped, Memory};

/// Words of a row.
pub(crate) const ROW: usize = 8;

/// The table, in rows of eight words.
pub(crate) struct Words {
    memory: Mapped,
    rows: usize,
}

/// Where rows begin: at a huge page.
const ALIGN: usize = 2 << 20;

impl Words {
    /// Reserves address space for so many rows of 32 bytes.
    pub(crate) fn reserve(rows: usize) -> std::io::Result<Words> {
        let bytes = (rows * size_of::<[AtomicU32; ROW]>()).next_multiple_of(ALIGN);
        Ok(Words {
            memory: Mapped::reserve(bytes, ALIGN)?,
            rows,
        })
    }

    /// Keeps it off the host's swap.
    pub(crate) fn lock(&self) -> std::io::Result<()> {
        self.memory.lock()
    }

    /// A row.
    #[inline]
    pub(crate) fn row(&self, row: u32) -> &[AtomicU32; ROW] {
        assert!((row as usize) < self.rows);
        // SAFETY: inside the mapping by the assertion, and aligned, since rows begin at a huge page. Fresh
        // memory is zero, which is a good row; nobody reaches it but through shared atomics.
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
