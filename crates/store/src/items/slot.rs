//! A hash slot: 8 bytes that say where an item is, and a little of what it is.
//!
//! ```text
//!  63       52 51     50      49   44 43      41 40     21 20      0
//! ┌───────────┬──────┬───────┬───────┬──────────┬─────────┬─────────┐
//! │ tag       │ told │ fetched│ stamp│generation│ block   │ offset  │   offset ≠ 0: an item
//! └───────────┴──────┴───────┴───────┴──────────┴─────────┴─────────┘
//! │ 1 │ 0 …   │ spill unit, bits 52..21           …        │ 0       │   a link to more slots
//! ```
//!
//! The empty slot is zero.

use super::space_time::Stamp;
use crate::arena::{BlockId, GENERATION_BITS};

const OFFSET_BITS: u32 = 21;
const BLOCK_BITS: u32 = 20;
const GENERATION_SHIFT: u32 = OFFSET_BITS + BLOCK_BITS;
const STAMP_SHIFT: u32 = GENERATION_SHIFT + GENERATION_BITS;
const STAMP_BITS: u32 = 6;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
const FETCHED: u64 = 1 << (STAMP_SHIFT + STAMP_BITS);
const TOLD: u64 = FETCHED << 1;
const TAG_SHIFT: u32 = 52;
const PLACE_MASK: u64 = (1 << STAMP_SHIFT) - 1;

/// Blocks that a slot can name: 2 TiB of 2 MiB blocks.
pub(crate) const BLOCKS_MAX: usize = 1 << BLOCK_BITS;

/// Where a record begins, with the generation that its block must still have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) block: BlockId,
    pub(crate) at: u32,
    /// The low bits of the block's generation.
    pub(crate) generation: u32,
}

impl Place {
    pub(crate) fn new(block: BlockId, at: u32, generation: u32) -> Place {
        Place {
            block,
            at,
            generation: generation & ((1 << GENERATION_BITS) - 1),
        }
    }

    /// Whether a block of that generation is the one meant.
    pub(crate) fn is_of(&self, generation: u32) -> bool {
        self.generation == generation & ((1 << GENERATION_BITS) - 1)
    }
}

/// The word of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    pub(crate) const EMPTY: Slot = Slot(0);

    /// The tag of a hash: its upper bits, which choose no bucket.
    pub(crate) fn tag_of(hash: u64) -> u64 {
        hash >> TAG_SHIFT
    }

    pub(crate) fn new(hash: u64, place: Place) -> Slot {
        Slot(
            Self::tag_of(hash) << TAG_SHIFT
                | u64::from(place.generation) << GENERATION_SHIFT
                | u64::from(place.block.0) << OFFSET_BITS
                | u64::from(place.at),
        )
    }

    pub(crate) fn link(unit: u32) -> Slot {
        Slot(1 << 63 | u64::from(unit) << OFFSET_BITS)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn offset(self) -> u32 {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as u32
    }

    /// Where it leads, if it is a link.
    pub(crate) fn as_link(self) -> Option<u32> {
        (self.offset() == 0 && !self.is_empty()).then_some((self.0 >> OFFSET_BITS) as u32)
    }

    /// Whether it names an item.
    pub(crate) fn is_item(self) -> bool {
        self.offset() != 0
    }

    pub(crate) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    pub(crate) fn place(self) -> Place {
        Place {
            block: BlockId((self.0 >> OFFSET_BITS) as u32 & (BLOCKS_MAX as u32 - 1)),
            at: self.offset(),
            generation: (self.0 >> GENERATION_SHIFT) as u32 & ((1 << GENERATION_BITS) - 1),
        }
    }

    pub(crate) fn has_same_place(self, other: Slot) -> bool {
        self.0 & PLACE_MASK == other.0 & PLACE_MASK
    }

    /// When its item was last hit.
    pub(crate) fn stamp(self) -> Stamp {
        Stamp::of_bits(self.0 >> STAMP_SHIFT & STAMP_MASK)
    }

    pub(crate) fn with_stamp(self, stamp: Stamp) -> Slot {
        let cleared = self.0 & !(STAMP_MASK << STAMP_SHIFT);
        Slot(cleared | stamp.bits() << STAMP_SHIFT)
    }

    /// Whether a read counted as a use.
    pub(crate) fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    pub(crate) fn with_fetched(self, fetched: bool) -> Slot {
        Slot(if fetched {
            self.0 | FETCHED
        } else {
            self.0 & !FETCHED
        })
    }

    /// Whether somebody was told the item's cas unique, which must therefore last.
    pub(crate) fn told(self) -> bool {
        self.0 & TOLD != 0
    }

    pub(crate) fn with_told(self) -> Slot {
        Slot(self.0 | TOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_field_comes_back(
            hash in any::<u64>(), block in 0u32..BLOCKS_MAX as u32, at in 1u32..1 << OFFSET_BITS,
            generation in any::<u32>(), stamp in 0..=STAMP_MASK, fetched in any::<bool>(),
        ) {
            let place = Place::new(BlockId(block), at, generation);
            let stamp = Stamp::of_bits(stamp);
            let slot = Slot::new(hash, place).with_stamp(stamp).with_fetched(fetched);
            prop_assert!(slot.is_item() && slot.as_link().is_none());
            prop_assert_eq!(slot.place(), place);
            prop_assert!(slot.place().is_of(generation) && !slot.place().is_of(generation + 1));
            prop_assert_eq!((slot.stamp(), slot.fetched(), slot.told()), (stamp, fetched, false));
            prop_assert_eq!(slot.tag(), Slot::tag_of(hash));
            let told = slot.with_told();
            prop_assert!(told.told() && told.has_same_place(slot) && told.stamp() == stamp);
        }

        #[test]
        fn links_are_no_items(unit in any::<u32>()) {
            prop_assert_eq!(Slot::link(unit).as_link(), Some(unit));
            prop_assert!(!Slot::link(unit).is_item() && !Slot::link(unit).is_empty());
        }
    }
}
