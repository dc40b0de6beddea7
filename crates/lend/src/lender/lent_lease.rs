//! One lease as its lender keeps it: which block each index stands for.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ids::LentBlock;
use crate::index_set::{IndexRange, IndexSet};

/// The most indices from the oldest that is lent to the newest: blocks of 256 GiB.
pub const LEASE_WINDOW_MAX: usize = 1 << 17;

/// What an index of a lease stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexLookup {
    /// A block.
    Lent(LentBlock),
    /// A block that was there once.
    Gone,
    /// No block yet. Who names such an index lies.
    Never,
}

/// A question to the borrower, as far as it is not answered. The parts of an answer come in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenAudit {
    /// The first index of the next part.
    pub(crate) next: u32,
    /// The index after the last in question.
    pub(crate) end: u32,
}

/// The table of one lease. Its indices rise, and an index that is gone never comes back.
#[derive(Debug, Default)]
pub(crate) struct LentLease {
    /// The index of the first entry. All before it are gone.
    base: u32,
    entries: VecDeque<Option<LentBlock>>,
    lent: u32,
    /// Since when the borrower seems not to know of blocks of this lease.
    pub(crate) mismatch_since: Option<Duration>,
    /// What the borrower has still to answer.
    pub(crate) open_audit: Option<OpenAudit>,
}

impl LentLease {
    /// How many blocks are lent.
    pub(crate) fn lent(&self) -> u32 {
        self.lent
    }

    /// The index that the next block gets.
    pub(crate) fn next_index(&self) -> u32 {
        // `append` keeps the sum within the numbers of indices.
        self.base + self.entries.len() as u32
    }

    /// How many more blocks the lease may get.
    pub(crate) fn room(&self) -> usize {
        let window = LEASE_WINDOW_MAX - self.entries.len();
        window.min((u32::MAX - self.next_index()) as usize)
    }

    /// Begins a question about all indices. Returns the index after the last.
    pub(crate) fn open_audit(&mut self) -> u32 {
        let end = self.next_index();
        self.open_audit = Some(OpenAudit { next: 0, end });
        end
    }

    /// Appends a block. The caller has looked at [`LentLease::room`].
    pub(crate) fn append(&mut self, block: LentBlock) -> u32 {
        let index = self.next_index();
        self.entries.push_back(Some(block));
        self.lent += 1;
        index
    }

    /// What an index stands for. It takes constant time and allocates nothing.
    pub(crate) fn find(&self, index: u32) -> IndexLookup {
        let Some(slot) = index.checked_sub(self.base) else {
            return IndexLookup::Gone;
        };
        match self.entries.get(slot as usize) {
            Some(Some(block)) => IndexLookup::Lent(*block),
            Some(None) => IndexLookup::Gone,
            None => IndexLookup::Never,
        }
    }

    /// Takes the block of an index out. The index is gone from now on.
    pub(crate) fn take(&mut self, index: u32) -> Option<LentBlock> {
        let slot = index.checked_sub(self.base)? as usize;
        let block = self.entries.get_mut(slot)?.take()?;
        self.lent -= 1;
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.base += 1;
        }
        Some(block)
    }

    /// Takes the blocks of a range out.
    pub(crate) fn take_range(&mut self, range: IndexRange) -> Vec<LentBlock> {
        let (first, end) = self.within_window(range.first(), range.end());
        (first..end).filter_map(|index| self.take(index)).collect()
    }

    /// The part of a run of indices that has entries. It bounds the work for a range that a peer names.
    pub(crate) fn within_window(&self, first: u32, end: u32) -> (u32, u32) {
        (first.max(self.base), end.min(self.next_index()))
    }

    /// Each index that is lent within a run, with its block.
    pub(crate) fn lent_within(
        &self,
        first: u32,
        end: u32,
    ) -> impl Iterator<Item = (u32, LentBlock)> + '_ {
        let (first, end) = self.within_window(first, end);
        (first..end).filter_map(|index| match self.find(index) {
            IndexLookup::Lent(block) => Some((index, block)),
            IndexLookup::Gone | IndexLookup::Never => None,
        })
    }

    /// Each index that is lent, with its block.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, LentBlock)> + '_ {
        self.lent_within(0, u32::MAX)
    }

    /// The indices of these ranges that are gone.
    pub(crate) fn gone_of(&self, claimed: &[IndexRange]) -> IndexSet {
        let mut gone = IndexSet::default();
        for range in claimed {
            let before_window = range.end().min(self.base).saturating_sub(range.first());
            let before_window = IndexRange::new(range.first(), before_window).ok();
            let (first, end) = self.within_window(range.first(), range.end());
            let within = (first..end).filter(|index| self.find(*index) == IndexLookup::Gone);
            let within = within.filter_map(|index| IndexRange::new(index, 1).ok());
            for range in before_window.into_iter().chain(within) {
                gone.insert(range);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(block: u32) -> LentBlock {
        LentBlock { block, opening: 1 }
    }

    #[test]
    fn an_index_never_comes_back() {
        let mut lease = LentLease::default();
        assert_eq!(
            [
                lease.append(block(5)),
                lease.append(block(6)),
                lease.append(block(7))
            ],
            [0, 1, 2]
        );
        assert_eq!(lease.find(1), IndexLookup::Lent(block(6)));
        assert_eq!(lease.take(1), Some(block(6)));
        assert_eq!(lease.take(1), None);
        assert_eq!(lease.find(1), IndexLookup::Gone);
        assert_eq!(lease.find(3), IndexLookup::Never);
        assert_eq!(lease.take(3), None);
        assert_eq!(lease.append(block(6)), 3);
        let all = IndexRange::new(0, u32::MAX).expect("a range");
        assert_eq!(lease.take_range(all), [block(5), block(7), block(6)]);
        assert_eq!(
            (lease.lent(), lease.next_index(), lease.find(0)),
            (0, 4, IndexLookup::Gone)
        );
        assert_eq!(lease.append(block(1)), 4);
    }

    #[test]
    fn the_window_has_an_end() {
        let mut lease = LentLease::default();
        for n in 0..LEASE_WINDOW_MAX as u32 {
            lease.append(block(n));
        }
        assert_eq!(lease.room(), 0);
        lease.take(1);
        assert_eq!(lease.room(), 0);
        lease.take(0);
        assert_eq!(lease.room(), 2);
    }
}
