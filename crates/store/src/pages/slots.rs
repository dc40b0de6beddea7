//! An array of 8-byte slots, found by the hash of what they stand for.
//!
//! Probed one slot after the other from `tag × length ÷ 2³²` on, at most 70 % full, and grown by a
//! quarter: so a slot costs 11.4 to 14.3 bytes, and growing is one pass in order. Removing closes the gap.

use crate::arena::Line;

/// At most so many parts in ten are full.
const FULL_TENTHS: usize = 7;

/// Growth: one part in so many.
const GROWTH: usize = 4;

/// Fewer slots are not worth growing by parts.
const GROWTH_MIN: usize = 16;

/// A slot: what it leads to, never zero, and the tag by which it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u64);

impl Slot {
    const EMPTY: Slot = Slot(0);

    pub(super) fn new(to: u32, tag: u32) -> Slot {
        debug_assert!(to != 0);
        Slot(u64::from(to) << 32 | u64::from(tag))
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
pub(super) struct Slots {
    slots: Vec<Slot>,
    full: usize,
}

impl Slots {
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.slots.len() as u64) >> 32) as usize
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The place of the first slot of that tag of which `tells` has something to tell, and what that is.
    #[inline]
    pub(super) fn find<T>(
        &self,
        tag: u32,
        mut tells: impl FnMut(u32) -> Option<T>,
    ) -> Option<(usize, T)> {
        let mut at = self.home(tag);
        while let Some(slot) = self.slots.get(at).filter(|slot| **slot != Slot::EMPTY) {
            if slot.tag() == tag
                && let Some(told) = tells(slot.to())
            {
                return Some((at, told));
            }
            at = self.after(at);
        }
        None
    }

    /// Where looking for a tag begins.
    pub(super) fn line(&self, tag: u32) -> Option<Line> {
        self.slots.get(self.home(tag)).map(Line::of)
    }

    fn after(&self, at: usize) -> usize {
        match at + 1 == self.slots.len() {
            true => 0,
            false => at + 1,
        }
    }

    pub(super) fn get(&self, at: usize) -> Slot {
        self.slots[at]
    }

    pub(super) fn set(&mut self, at: usize, to: u32) {
        self.slots[at] = Slot::new(to, self.slots[at].tag());
    }

    pub(super) fn insert(&mut self, slot: Slot) {
        let len = self.slots.len();
        if (self.full + 1) * 10 > len * FULL_TENTHS {
            self.resize(len + (len / GROWTH).max(GROWTH_MIN));
        } else if self.full * FULL_TENTHS < len && len > GROWTH_MIN * GROWTH {
            self.resize(len / 2);
        }
        self.full += 1;
        self.place(slot);
    }

    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.tag());
        while self.slots[at] != Slot::EMPTY {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    fn resize(&mut self, len: usize) {
        let mut slots = Vec::new();
        slots.reserve_exact(len);
        slots.resize(len, Slot::EMPTY);
        let old = std::mem::replace(&mut self.slots, slots);
        let full = old.into_iter().filter(|slot| *slot != Slot::EMPTY);
        full.for_each(|slot| self.place(slot));
    }

    /// Empties a slot, and closes the gap so that every other is still found from its home. Needs no memory: what is left
    /// over then is given back by the next that is inserted.
    pub(super) fn remove(&mut self, mut gap: usize) {
        self.full -= 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot == Slot::EMPTY {
                break;
            }
            let len = self.slots.len();
            let home = self.home(slot.tag());
            if (at + len - home) % len >= (at + len - gap) % len {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = Slot::EMPTY;
    }

    /// Every slot that is full.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots
            .iter()
            .copied()
            .filter(|slot| *slot != Slot::EMPTY)
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}
