//! What it costs to give blocks up.

/// What was lost with blocks that were given up, and what was copied to survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) blocks: u32,
    /// Items that were lost.
    pub(crate) items: u64,
    /// Pages that were lost.
    pub(crate) pages: u64,
    /// Bytes of both.
    pub(crate) bytes: u64,
    /// Bytes that were copied together or to disk.
    pub(crate) bytes_kept: u64,
}

impl Loss {
    pub(crate) fn add(&mut self, other: Loss) {
        self.blocks += other.blocks;
        self.items += other.items;
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.bytes_kept += other.bytes_kept;
    }
}
