//! A large value on its way in.

use super::bound::MemoryBound;

/// What a gathering value takes of the bound at first, bytes; then twice what it has.
const FIRST_STEP: usize = 64 << 10;

/// Room for a value up to this size is asked of the allocator at once, bytes: it is not copied as it
/// grows. What has not come is address space only, and not taken of the bound.
const WHOLE_MAX: usize = 1 << 20;

/// A request's head and the part of its value that has come.
pub(super) struct LargeValue {
    head: Vec<u8>,
    body: Vec<u8>,
    needed: usize,
    share: usize,
}

impl LargeValue {
    /// A request whose value is still to come, `needed` bytes of it.
    pub(super) fn new(head: &[u8], needed: usize) -> LargeValue {
        LargeValue {
            head: head.to_vec(),
            body: Vec::new(),
            needed,
            share: 0,
        }
    }

    /// The request's head.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// What has come of the value.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Bytes that have not come.
    pub(super) fn missing(&self) -> usize {
        self.needed - self.body.len()
    }

    /// Takes from the input what belongs to the value; says how much. Nothing is taken where there is no memory for it.
    pub(super) fn take(&mut self, memory: &MemoryBound, input: &[u8]) -> Option<usize> {
        let taken = input.len().min(self.missing());
        let len = self.body.len() + taken;
        if len > self.share {
            let share = len.max(2 * self.share).max(FIRST_STEP).min(self.needed);
            if !memory.take(share - self.share) {
                return None;
            }
            self.share = share;
            let room = share.max(WHOLE_MAX.min(self.needed));
            let more = room - self.body.len();
            self.body.try_reserve_exact(more).ok()?;
        }
        self.body.extend_from_slice(&input[..taken]);
        Some(taken)
    }

    /// Gives its share of the bound back; the value is done with.
    pub(super) fn give_back(&self, memory: &MemoryBound) {
        memory.give_back(self.share);
    }
}
