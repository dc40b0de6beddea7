//! A large value on its way in.

use super::memory_bound::MemoryBound;

/// The bytes that a value reserves of the memory bound at first. Later it doubles its reservation.
const FIRST_STEP: usize = 64 << 10;

/// The largest value, in bytes, for which the allocator is asked for all room at once, so that the value is not copied
/// as it grows. Room for bytes that have not come is address space only and is not reserved of the memory bound.
const WHOLE_MAX: usize = 1 << 20;

/// The head of a request and the part of its value that has come.
pub(super) struct LargeValue {
    head: Vec<u8>,
    body: Vec<u8>,
    needed: usize,
    reserved: usize,
}

impl LargeValue {
    /// Begins a request that still needs `needed` bytes of its value.
    pub(super) fn new(head: &[u8], needed: usize) -> LargeValue {
        LargeValue {
            head: head.to_vec(),
            body: Vec::new(),
            needed,
            reserved: 0,
        }
    }

    /// Returns the head of the request.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the part of the value that has come.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns how many bytes have not come.
    pub(super) fn missing(&self) -> usize {
        self.needed - self.body.len()
    }

    /// Moves the input that belongs to the value into it. Returns the number of bytes moved, or `None` if there is no
    /// memory for them.
    pub(super) fn receive(&mut self, memory: &MemoryBound, input: &[u8]) -> Option<usize> {
        let taken = input.len().min(self.missing());
        let len = self.body.len() + taken;
        if len > self.reserved {
            let share = len.max(2 * self.reserved).max(FIRST_STEP).min(self.needed);
            if !memory.try_reserve(share - self.reserved) {
                return None;
            }
            self.reserved = share;
            let room = share.max(WHOLE_MAX.min(self.needed));
            let more = room - self.body.len();
            self.body.try_reserve_exact(more).ok()?;
        }
        self.body.extend_from_slice(&input[..taken]);
        Some(taken)
    }

    /// Returns the reserved bytes to the memory bound, because the value is done with.
    pub(super) fn give_back(&self, memory: &MemoryBound) {
        memory.give_back(self.reserved);
    }
}
