//! A large value on its way in, and the bound on all of them together.

use std::sync::atomic::{AtomicUsize, Ordering};

use sublet_types::Bytes;

use super::face::Face;

/// Memory for values on their way in and for long lines, of all connections together: at least this, and two items of the largest
/// size. Bytes.
pub(super) const GATHERING_MIN: Bytes = Bytes::mib(64);

/// What a gathering value takes of the bound at first, bytes; then twice what it has.
const FIRST_STEP: usize = 64 << 10;

/// Room for a value up to this size is asked of the allocator at once, bytes: it is not copied as it
/// grows. What has not come is address space only, and not taken of the bound.
const WHOLE_MAX: usize = 1 << 20;

/// A request's head and the part of its value that has come.
pub(super) struct Gather {
    head: Vec<u8>,
    body: Vec<u8>,
    needed: usize,
    share: usize,
}

impl Gather {
    /// A request whose value is still to come, `needed` bytes of it.
    pub(super) fn new(head: &[u8], needed: usize) -> Gather {
        Gather {
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
    pub(super) fn take(&mut self, face: &Face, input: &[u8]) -> Option<usize> {
        let taken = input.len().min(self.missing());
        let len = self.body.len() + taken;
        if len > self.share {
            let share = len.max(2 * self.share).max(FIRST_STEP).min(self.needed);
            if !face.memory.take(share - self.share) {
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
    pub(super) fn give_back(&self, face: &Face) {
        face.memory.give_back(self.share);
    }
}

/// A bound on memory that connections share.
#[derive(Debug)]
pub(super) struct Memory {
    taken: AtomicUsize,
    bound: usize,
}

impl Memory {
    /// A bound of that many bytes.
    pub(super) fn new(bound: usize) -> Memory {
        Memory {
            taken: AtomicUsize::new(0),
            bound,
        }
    }

    /// Takes `bytes`, unless that is beyond the bound.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let update = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= self.bound);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .is_ok()
    }

    /// Gives `bytes` back that were taken.
    pub(super) fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// So much is taken that others may soon get none.
    pub(super) fn is_short(&self) -> bool {
        self.taken() > self.bound / 2
    }

    /// Bytes that are taken now.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}
