//! Finds the blocks of a list that have least of something, as far as a bounded number of looks can tell.
//!
//! Heat changes with every read, and what lives in a block with every write. An order of all blocks would have to be
//! kept in that hot path. Instead, the list remembers some candidates. Each search looks at a few more blocks, round
//! and round the list, and keeps those that have least. A list that is no longer than one look is known exactly.

use arrayvec::ArrayVec;

/// No block: the end of a list, or a free candidate place.
pub(super) const NONE: u32 = u32::MAX;

/// The measure of a block that must not be chosen.
pub(super) const NO_CANDIDATE: u64 = u64::MAX;

/// Candidates that are remembered.
pub(super) const CANDIDATES: usize = 8;

/// The most blocks that one search looks at beside the candidates. That takes some microseconds if they are in no
/// cache.
pub(super) const LOOKS: u32 = 32;

/// The blocks that have least of all that were seen, and where the next look starts.
#[derive(Debug)]
pub(super) struct LeastBlocks {
    candidates: [u32; CANDIDATES],
    cursor: u32,
}

/// A list to look at: which block follows another, and the measure of each.
pub(super) trait MeasuredList {
    fn first(&self) -> u32;
    fn after(&self, block: u32) -> u32;
    fn measure(&self, block: u32) -> u64;
}

/// A block and its measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MeasuredBlock {
    pub(super) measure: u64,
    pub(super) block: u32,
}

impl Default for LeastBlocks {
    fn default() -> LeastBlocks {
        LeastBlocks {
            candidates: [NONE; CANDIDATES],
            cursor: NONE,
        }
    }
}

impl LeastBlocks {
    /// Removes a block that leaves the list. `next` is the block after it.
    pub(super) fn remove(&mut self, block: u32, next: u32) {
        if self.cursor == block {
            self.cursor = next;
        }
        let candidates = self.candidates.iter_mut();
        candidates
            .filter(|candidate| **candidate == block)
            .for_each(|candidate| *candidate = NONE);
    }

    /// Looks at some more blocks of the `len` in the list. Returns the known blocks that have least, least first.
    pub(super) fn search(
        &mut self,
        len: u32,
        list: &impl MeasuredList,
    ) -> ArrayVec<MeasuredBlock, CANDIDATES> {
        for _ in 0..len.min(LOOKS) {
            if self.cursor == NONE {
                self.cursor = list.first();
            }
            if self.cursor == NONE {
                break;
            }
            self.offer(self.cursor, list);
            self.cursor = list.after(self.cursor);
        }
        let known = self.candidates.iter().filter(|block| **block != NONE);
        let measured = known.map(|block| MeasuredBlock {
            measure: list.measure(*block),
            block: *block,
        });
        let mut measured: ArrayVec<MeasuredBlock, CANDIDATES> = measured
            .filter(|known| known.measure != NO_CANDIDATE)
            .collect();
        measured.sort_unstable();
        measured
    }

    /// Remembers a block in place of the candidate that has most, if that one has more.
    pub(super) fn offer(&mut self, block: u32, list: &impl MeasuredList) {
        if self.candidates.contains(&block) {
            return;
        }
        let measure = |block: u32| match block {
            NONE => NO_CANDIDATE,
            block => list.measure(block),
        };
        let most = self
            .candidates
            .iter_mut()
            .max_by_key(|block| measure(**block));
        if let Some(most) = most
            && measure(*most) > measure(block)
        {
            *most = block;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Blocks in the order of their numbers. It counts how many were visited.
    struct TestList {
        heats: Vec<u32>,
        gone_to: Cell<u32>,
    }

    impl TestList {
        fn of(heats: impl Iterator<Item = u32>) -> TestList {
            TestList {
                heats: heats.collect(),
                gone_to: Cell::new(0),
            }
        }

        fn len(&self) -> u32 {
            self.heats.len() as u32
        }

        /// The measures of the blocks that have least, in order.
        fn least(&self) -> Vec<u64> {
            let mut least: Vec<u64> = self.heats.iter().map(|heat| (*heat).into()).collect();
            least.sort_unstable();
            least.truncate(CANDIDATES);
            least
        }
    }

    impl MeasuredList for TestList {
        fn first(&self) -> u32 {
            self.gone_to.set(self.gone_to.get() + 1);
            if self.heats.is_empty() { NONE } else { 0 }
        }

        fn after(&self, block: u32) -> u32 {
            self.gone_to.set(self.gone_to.get() + 1);
            let next = block + 1;
            if next < self.len() { next } else { NONE }
        }

        fn measure(&self, block: u32) -> u64 {
            self.heats[block as usize].into()
        }
    }

    fn measures(known: &[MeasuredBlock]) -> Vec<u64> {
        known.iter().map(|known| known.measure).collect()
    }

    fn scattered(len: u32) -> impl Iterator<Item = u32> {
        (0..len).map(|n| 10 + n.wrapping_mul(2_654_435_761) % 1000)
    }

    #[test]
    fn a_short_list_is_known_exactly_whatever_changes() {
        let mut least = LeastBlocks::default();
        assert!(
            least
                .search(0, &TestList::of(std::iter::empty()))
                .is_empty()
        );
        let mut row = TestList::of(scattered(LOOKS));
        for changed in 0..LOOKS as usize {
            assert_eq!(measures(&least.search(row.len(), &row)), row.least());
            row.heats[changed] = row.heats[changed].wrapping_mul(31) % 700;
        }
    }

    #[test]
    fn a_long_list_is_known_after_a_round_and_no_question_goes_far() {
        let mut least = LeastBlocks::default();
        let row = TestList::of(scattered(10_000));
        for _ in 0..row.len().div_ceil(LOOKS) {
            let before = row.gone_to.get();
            least.search(row.len(), &row);
            assert!(row.gone_to.get() - before <= LOOKS + 1);
        }
        assert_eq!(measures(&least.search(row.len(), &row)), row.least());
    }

    #[test]
    fn what_comes_is_known_at_once_and_what_goes_is_forgotten() {
        let mut least = LeastBlocks::default();
        let mut row = TestList::of(scattered(1000));
        least.search(row.len(), &row);
        row.heats[900] = 0;
        least.offer(900, &row);
        assert_eq!(measures(&least.search(row.len(), &row))[0], 0);
        least.remove(900, 901);
        row.heats[900] = u32::MAX;
        assert!(measures(&least.search(row.len(), &row))[0] > 0);
    }
}
