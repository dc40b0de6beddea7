//! How often each block was dropped since the hash slots were last swept.
//!
//! A slot keeps few generation bits. A block that was dropped more often than they can count, with no sweep in between,
//! must not be opened again. An old slot would seem new.

use super::block::{BlockId, GENERATION_BITS};

/// Drops of a block that may go unswept. This is the number of generations less one, and less one more for a slot that
/// is published just after the sweep has passed.
pub(super) const UNSWEPT_MAX: u8 = (1 << GENERATION_BITS) - 2;

/// The wear of all blocks.
pub(super) struct Wear {
    /// Drops before the current sweep began. The sweep will make up for them.
    before: Box<[u8]>,
    /// Drops since then.
    since: Box<[u8]>,
}

impl Wear {
    pub(super) fn new(blocks: usize) -> Wear {
        Wear {
            before: vec![0; blocks].into(),
            since: vec![0; blocks].into(),
        }
    }

    pub(super) fn note_drop(&mut self, block: BlockId) {
        self.since[block.0 as usize] += 1;
    }

    pub(super) fn is_worn(&self, block: BlockId) -> bool {
        let place = block.0 as usize;
        self.before[place] + self.since[place] >= UNSWEPT_MAX
    }

    pub(super) fn sweep_begins(&mut self) {
        for (before, since) in self.before.iter_mut().zip(&mut self.since) {
            *before += std::mem::take(since);
        }
    }

    pub(super) fn sweep_ends(&mut self) {
        self.before.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sweep_that_began_after_a_drop_makes_it_good() {
        let mut wear = Wear::new(1);
        let block = BlockId(0);
        wear.sweep_begins();
        for _ in 0..UNSWEPT_MAX {
            assert!(!wear.is_worn(block));
            wear.note_drop(block);
        }
        assert!(wear.is_worn(block));
        wear.sweep_ends();
        assert!(wear.is_worn(block), "that sweep had begun before the drops");
        wear.sweep_begins();
        assert!(wear.is_worn(block));
        wear.sweep_ends();
        assert!(!wear.is_worn(block));
    }
}
