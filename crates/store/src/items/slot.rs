//! A hash slot: 8 bytes that tell where an item is, and a little about it.
//!
//! ```text
//!  63       52 51     50      49   44 43      41 40     21 20      0
//! ┌───────────┬──────┬───────┬───────┬──────────┬─────────┬─────────┐
//! │ tag       │ cas  │ fetched│ stamp│generation│ block   │ offset  │   offset ≠ 0: an item
//! └───────────┴──────┴───────┴───────┴──────────┴─────────┴─────────┘
//! │ 1 │ 0 …   │ overflow unit, bits 52..21        …        │ 0       │   a link to more slots
//! ```
//!
//! The empty slot is zero.

use super::space_time::HitStamp;
use crate::arena::{BlockId, GENERATION_BITS};

const OFFSET_BITS: u32 = 21;
const BLOCK_BITS: u32 = 20;
const GENERATION_SHIFT: u32 = OFFSET_BITS + BLOCK_BITS;
const STAMP_SHIFT: u32 = GENERATION_SHIFT + GENERATION_BITS;
const STAMP_BITS: u32 = 6;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
const FETCHED: u64 = 1 << (STAMP_SHIFT + STAMP_BITS);
const CAS_REPORTED: u64 = FETCHED << 1;
const TAG_SHIFT: u32 = 52;
const PLACE_MASK: u64 = (1 << STAMP_SHIFT) - 1;

/// Blocks that a slot can name: 2 TiB of 2 MiB blocks.
pub(crate) const BLOCKS_MAX: usize = 1 << BLOCK_BITS;

/// Where a record begins, with the generation that its block must still have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordAddress {
    pub(crate) block: BlockId,
    pub(crate) at: u32,
    /// The low bits of the block's generation.
    pub(crate) generation: u32,
}

impl RecordAddress {
    pub(crate) fn new(block: BlockId, at: u32, generation: u32) -> RecordAddress {
        RecordAddress {
            block,
            at,
            generation: generation & ((1 << GENERATION_BITS) - 1),
        }
    }

    /// Returns whether this names a block of that generation.
    pub(crate) fn is_of(&self, generation: u32) -> bool {
        self.generation == generation & ((1 << GENERATION_BITS) - 1)
    }
}

/// Whether a read of an item counted as a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchState {
    /// A read counted as a use.
    Fetched,
    /// No read has counted as a use so far.
    Unfetched,
}

/// The word of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    pub(crate) const EMPTY: Slot = Slot(0);

    /// The tag of a hash: its upper bits, which do not choose the bucket.
    pub(crate) fn tag_of(hash: u64) -> u64 {
        hash >> TAG_SHIFT
    }

    pub(crate) fn new(hash: u64, place: RecordAddress) -> Slot {
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

    /// The unit that it links to, if it is a link.
    pub(crate) fn as_link(self) -> Option<u32> {
        (self.offset() == 0 && !self.is_empty()).then_some((self.0 >> OFFSET_BITS) as u32)
    }

    /// Returns whether it names an item.
    pub(crate) fn is_item(self) -> bool {
        self.offset() != 0
    }

    pub(crate) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    pub(crate) fn record_address(self) -> RecordAddress {
        RecordAddress {
            block: BlockId((self.0 >> OFFSET_BITS) as u32 & (BLOCKS_MAX as u32 - 1)),
            at: self.offset(),
            generation: (self.0 >> GENERATION_SHIFT) as u32 & ((1 << GENERATION_BITS) - 1),
        }
    }

    pub(crate) fn has_same_address(self, other: Slot) -> bool {
        self.0 & PLACE_MASK == other.0 & PLACE_MASK
    }

    /// When its item was last hit.
    pub(crate) fn stamp(self) -> HitStamp {
        HitStamp::of_bits(self.0 >> STAMP_SHIFT & STAMP_MASK)
    }

    pub(crate) fn with_stamp(self, stamp: HitStamp) -> Slot {
        let cleared = self.0 & !(STAMP_MASK << STAMP_SHIFT);
        Slot(cleared | stamp.bits() << STAMP_SHIFT)
    }

    /// Returns whether a read counted as a use.
    pub(crate) fn is_fetched(self) -> bool {
        self.fetch_state() == FetchState::Fetched
    }

    pub(crate) fn fetch_state(self) -> FetchState {
        match self.0 & FETCHED {
            0 => FetchState::Unfetched,
            _ => FetchState::Fetched,
        }
    }

    pub(crate) fn with_fetched(self, state: FetchState) -> Slot {
        Slot(match state {
            FetchState::Fetched => self.0 | FETCHED,
            FetchState::Unfetched => self.0 & !FETCHED,
        })
    }

    /// Returns whether a client was told the item's cas unique, which must therefore last.
    pub(crate) fn is_cas_reported(self) -> bool {
        self.0 & CAS_REPORTED != 0
    }

    pub(crate) fn with_cas_reported(self) -> Slot {
        Slot(self.0 | CAS_REPORTED)
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
            generation in any::<u32>(), stamp in 0..=STAMP_MASK, is_fetched in any::<bool>(),
        ) {
            let place = RecordAddress::new(BlockId(block), at, generation);
            let stamp = HitStamp::of_bits(stamp);
            let fetched = match is_fetched {
                true => FetchState::Fetched,
                false => FetchState::Unfetched,
            };
            let slot = Slot::new(hash, place).with_stamp(stamp).with_fetched(fetched);
            prop_assert!(slot.is_item() && slot.as_link().is_none());
            prop_assert_eq!(slot.record_address(), place);
            prop_assert!(slot.record_address().is_of(generation) && !slot.record_address().is_of(generation + 1));
            prop_assert_eq!((slot.stamp(), slot.fetch_state(), slot.is_cas_reported()), (stamp, fetched, false));
            prop_assert_eq!(slot.tag(), Slot::tag_of(hash));
            let reported = slot.with_cas_reported();
            prop_assert!(reported.is_cas_reported() && reported.has_same_address(slot) && reported.stamp() == stamp);
        }

        #[test]
        fn links_are_no_items(unit in any::<u32>()) {
            prop_assert_eq!(Slot::link(unit).as_link(), Some(unit));
            prop_assert!(!Slot::link(unit).is_item() && !Slot::link(unit).is_empty());
        }
    }
}
