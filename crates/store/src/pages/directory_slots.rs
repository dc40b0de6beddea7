//! An array of 8-byte slots, found by the hash of what they stand for.
//!
//! A look-up probes one slot after the other from `tag × length ÷ 2³²` on. The array is at most 70 % full and grows by
//! a quarter. So a slot costs 11.4 to 14.3 bytes, and growing is one pass in order. A removal closes the gap.

use crate::arena::PrefetchAddress;

/// The most tenths of the slots that are full.
const FULL_TENTHS: usize = 7;

/// The array grows by this fraction.
const GROWTH: usize = 4;

/// Smaller arrays do not grow by fractions.
const GROWTH_MIN: usize = 16;

/// A slot: what it leads to, which is never zero, and the tag by which it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectorySlot(u64);

impl DirectorySlot {
    const EMPTY: DirectorySlot = DirectorySlot(0);

    pub(super) fn new(to: u32, tag: u32) -> DirectorySlot {
        debug_assert!(to != 0);
        DirectorySlot(u64::from(to) << 32 | u64::from(tag))
    }

    pub(super) fn to(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn tag(self) -> u32 {
        self.0 as u32
    }
}

/// The slots.
#[derive(Debug, Default)]
pub(super) struct DirectorySlots {
    slots: Vec<DirectorySlot>,
    full: usize,
}

impl DirectorySlots {
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.slots.len() as u64) >> 32) as usize
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The index of the first slot of that tag for which `tells` returns something, and what it returns.
    #[inline]
    pub(super) fn find<T>(
        &self,
        tag: u32,
        mut tells: impl FnMut(u32) -> Option<T>,
    ) -> Option<(usize, T)> {
        let mut at = self.home(tag);
        while let Some(slot) = self
            .slots
            .get(at)
            .filter(|slot| **slot != DirectorySlot::EMPTY)
        {
            if slot.tag() == tag
                && let Some(fact) = tells(slot.to())
            {
                return Some((at, fact));
            }
            at = self.after(at);
        }
        None
    }

    /// Where a search for a tag starts.
    pub(super) fn line(&self, tag: u32) -> Option<PrefetchAddress> {
        self.slots.get(self.home(tag)).map(PrefetchAddress::of)
    }

    fn after(&self, at: usize) -> usize {
        match at + 1 == self.slots.len() {
            true => 0,
            false => at + 1,
        }
    }

    pub(super) fn get(&self, at: usize) -> DirectorySlot {
        self.slots[at]
    }

    pub(super) fn set(&mut self, at: usize, to: u32) {
        self.slots[at] = DirectorySlot::new(to, self.slots[at].tag());
    }

    pub(super) fn insert(&mut self, slot: DirectorySlot) {
        let len = self.slots.len();
        if (self.full + 1) * 10 > len * FULL_TENTHS {
            self.resize(len + (len / GROWTH).max(GROWTH_MIN));
        } else if self.full * FULL_TENTHS < len && len > GROWTH_MIN * GROWTH {
            self.resize(len / 2);
        }
        self.full += 1;
        self.place(slot);
    }

    fn place(&mut self, slot: DirectorySlot) {
        let mut at = self.home(slot.tag());
        while self.slots[at] != DirectorySlot::EMPTY {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    fn resize(&mut self, len: usize) {
        let mut slots = Vec::new();
        slots.reserve_exact(len);
        slots.resize(len, DirectorySlot::EMPTY);
        let old = std::mem::replace(&mut self.slots, slots);
        let full = old.into_iter().filter(|slot| *slot != DirectorySlot::EMPTY);
        full.for_each(|slot| self.place(slot));
    }

    /// Empties a slot and closes the gap, so that every other slot is still found from its home. It needs no memory.
    /// The next insert gives back what is left over.
    pub(super) fn remove(&mut self, mut gap: usize) {
        self.full -= 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot == DirectorySlot::EMPTY {
                break;
            }
            let len = self.slots.len();
            let home = self.home(slot.tag());
            if (at + len - home) % len >= (at + len - gap) % len {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = DirectorySlot::EMPTY;
    }

    /// Every slot that is in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = DirectorySlot> + '_ {
        self.slots
            .iter()
            .copied()
            .filter(|slot| *slot != DirectorySlot::EMPTY)
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<DirectorySlot>()
    }
}
