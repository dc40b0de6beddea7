//! Which page slots of a ring are in use, for a client with many requests under way.

/// The free page slots of a ring.
#[derive(Debug)]
pub(super) struct SlotAllocator {
    used: Vec<bool>,
    /// Where the search for a run begins: after the last run that was found.
    next: usize,
}

impl SlotAllocator {
    pub(super) fn new(count: u32) -> SlotAllocator {
        SlotAllocator {
            used: vec![false; count as usize],
            next: 0,
        }
    }

    /// Allocates `count` consecutive slots. Returns the first.
    pub(super) fn allocate(&mut self, count: u32) -> Option<u32> {
        let count = count as usize;
        let first = self
            .run_from(self.next, count)
            .or_else(|| self.run_from(0, count))?;
        self.used[first..first + count].fill(true);
        self.next = first + count;
        u32::try_from(first).ok()
    }

    pub(super) fn free(&mut self, first: u32, count: u32) {
        let first = first as usize;
        self.used[first..first + count as usize].fill(false);
    }

    fn run_from(&self, start: usize, count: usize) -> Option<usize> {
        let mut first = start;
        while first + count <= self.used.len() {
            match self.used[first..first + count]
                .iter()
                .rposition(|used| *used)
            {
                None => return Some(first),
                Some(taken) => first += taken + 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_and_given_back() {
        let mut slots = SlotAllocator::new(8);
        assert_eq!(slots.allocate(3), Some(0));
        assert_eq!(slots.allocate(3), Some(3));
        assert_eq!(slots.allocate(3), None);
        assert_eq!(slots.allocate(2), Some(6));
        slots.free(1, 2);
        slots.free(3, 1);
        assert_eq!(slots.allocate(3), Some(1));
        assert_eq!(slots.allocate(1), None);
        slots.free(7, 1);
        assert_eq!(slots.allocate(1), Some(7));
        assert_eq!(slots.allocate(9), None);
        assert_eq!(slots.allocate(0), Some(8));
    }
}
