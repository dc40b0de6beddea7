//! A thread's operations on blocks that this host has lent.

use sublet_types::{LentBlock, Second};

use super::Worker;

impl Worker {
    /// Lends a block: free memory, or memory that the arena may still have. `None` if there is none.
    pub fn lend(&self, now: Second) -> Option<LentBlock> {
        self.store().lent.lend(now)
    }

    /// Reads a page of a block that was lent. `read` sees its bytes. Returns false if the block was taken back, or if
    /// the page was not written under this handle.
    pub fn read_lent(
        &self,
        lent: LentBlock,
        place: u16,
        now: Second,
        read: impl FnOnce(&[u8]),
    ) -> bool {
        self.pinned(|| {
            self.store().lent.hit(lent, now, self.moment(now).random);
            self.store().lent.read(lent, place, read)
        })
    }

    /// Writes a page of a block that was lent. `write` fills all its bytes. Returns false if the block was taken back.
    pub fn write_lent(&self, lent: LentBlock, place: u16, write: impl FnOnce(&mut [u8])) -> bool {
        self.pinned(|| self.store().lent.write(lent, place, write))
    }

    /// How much each of these blocks is used. Blocks that are not lent any more are left out.
    pub fn lent_heats(&self, lent: &[LentBlock]) -> Vec<(LentBlock, u64)> {
        let heat = |block: &LentBlock| Some((*block, self.store().lent.heat(*block)?.into()));
        self.pinned(|| lent.iter().filter_map(heat).collect())
    }

    /// Ends the lending of blocks, because their borrower has given them back or is gone.
    pub fn end_lent(&self, lent: &[LentBlock]) {
        self.pinned(|| self.store().lent.end(lent.iter().copied()));
    }

    /// Takes back this many blocks, those that were used least first. It waits for no borrower. Returns how many went.
    pub fn take_back(&self, blocks: u32) -> u32 {
        self.pinned(|| self.store().lent.take_back(blocks))
    }
}
