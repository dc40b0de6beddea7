//! Which page slots of a ring are in use, for a client that has many requests under way.

/// The free page slots of a ring.
#[derive(Debug)]
pub(super) struct Slots {
    used: Vec<bool>,
    /// Where the search for a run begins: behind the last one found.
    next: usize,
}

impl Slots {
    pub(super) fn new(count: u32) -> Slots {
        Slots {
            used: vec![false; count as usize],
            next: 0,
        }
    }

    /// Takes `count` free slots that follow each other; says where they begin.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        let count = count as usize;
        let first = self
            .run_from(self.next, count)
            .or_else(|| self.run_from(0, count))?;
        self.used[first..first + count].fill(true);
        self.next = first + count;
        u32::try_from(first).ok()
    }

    pub(super) fn give_back(&mut self, first: u32, count: u32) {
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
        let mut slots = Slots::new(8);
        assert_eq!(slots.take(3), Some(0));
        assert_eq!(slots.take(3), Some(3));
        assert_eq!(slots.take(3), None);
        assert_eq!(slots.take(2), Some(6));
        slots.give_back(1, 2);
        slots.give_back(3, 1);
        assert_eq!(slots.take(3), Some(1));
        assert_eq!(slots.take(1), None);
        slots.give_back(7, 1);
        assert_eq!(slots.take(1), Some(7));
        assert_eq!(slots.take(9), None);
        assert_eq!(slots.take(0), Some(8));
    }
}
