//! Indices of a lease: ranges as they travel, and sets of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most ranges of one message. Their line has at most a third of the bytes that a line may have.
pub const RANGES_MAX: usize = 1024;

/// Why ranges of indices are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexRangeError {
    /// A range is empty.
    #[error("the range at index {first} is empty; a range has at least one index")]
    Empty {
        /// Its first index.
        first: u32,
    },
    /// A range goes beyond the largest index.
    #[error("the range at index {first} has {count} indices and goes beyond the largest index")]
    Beyond {
        /// Its first index.
        first: u32,
        /// Its indices.
        count: u32,
    },
    /// Two ranges overlap, or are in the wrong order.
    #[error("the range at index {first} begins before the end of the one before it; ranges rise")]
    Order {
        /// The first index of the later one.
        first: u32,
    },
    /// A message has too many ranges.
    #[error("{ranges} ranges in a message; {RANGES_MAX} are the most")]
    Many {
        /// How many it has.
        ranges: usize,
    },
}

/// A run of indices of one lease. It travels as `[first,count]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "[u32; 2]", into = "[u32; 2]")]
pub struct IndexRange {
    first: u32,
    count: u32,
}

impl IndexRange {
    /// A run of `count` indices from `first` on. The error names an empty run, and one beyond the largest index.
    pub fn new(first: u32, count: u32) -> Result<IndexRange, IndexRangeError> {
        if count == 0 {
            return Err(IndexRangeError::Empty { first });
        }
        match first.checked_add(count) {
            None => Err(IndexRangeError::Beyond { first, count }),
            Some(_) => Ok(IndexRange { first, count }),
        }
    }

    /// The first index.
    pub fn first(self) -> u32 {
        self.first
    }

    /// How many indices there are, 1 at least.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The index after the last.
    pub fn end(self) -> u32 {
        self.first + self.count
    }
}

impl TryFrom<[u32; 2]> for IndexRange {
    type Error = IndexRangeError;

    fn try_from([first, count]: [u32; 2]) -> Result<IndexRange, IndexRangeError> {
        IndexRange::new(first, count)
    }
}

impl From<IndexRange> for [u32; 2] {
    fn from(range: IndexRange) -> [u32; 2] {
        [range.first, range.count]
    }
}

/// Ranges of one message: they rise, do not overlap, and are [`RANGES_MAX`] at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<IndexRange>", into = "Vec<IndexRange>")]
pub struct IndexRanges(Vec<IndexRange>);

impl IndexRanges {
    /// The ranges.
    pub fn as_slice(&self) -> &[IndexRange] {
        &self.0
    }

    /// How many indices they have together.
    pub fn count(&self) -> u32 {
        // They do not overlap, so that the sum is an index.
        self.0.iter().map(|range| range.count).sum()
    }
}

impl TryFrom<Vec<IndexRange>> for IndexRanges {
    type Error = IndexRangeError;

    fn try_from(ranges: Vec<IndexRange>) -> Result<IndexRanges, IndexRangeError> {
        if ranges.len() > RANGES_MAX {
            return Err(IndexRangeError::Many {
                ranges: ranges.len(),
            });
        }
        let wrong = ranges.windows(2).find(|pair| pair[1].first < pair[0].end());
        match wrong {
            Some(pair) => Err(IndexRangeError::Order {
                first: pair[1].first,
            }),
            None => Ok(IndexRanges(ranges)),
        }
    }
}

impl From<IndexRanges> for Vec<IndexRange> {
    fn from(ranges: IndexRanges) -> Vec<IndexRange> {
        ranges.0
    }
}

/// A set of indices of one lease, kept as runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSet {
    /// The first index of each run, and the index after its last.
    runs: BTreeMap<u32, u32>,
    count: u32,
}

impl IndexSet {
    /// How many indices there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether the set has no index.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether the set has this index.
    pub fn contains(&self, index: u32) -> bool {
        self.run_at(index).is_some()
    }

    /// Returns whether the set has every index of a range.
    pub fn contains_range(&self, range: IndexRange) -> bool {
        self.run_at(range.first)
            .is_some_and(|(_, end)| range.end() <= end)
    }

    fn run_at(&self, index: u32) -> Option<(u32, u32)> {
        let (&first, &end) = self.runs.range(..=index).next_back()?;
        (index < end).then_some((first, end))
    }

    /// Adds the indices of a range. Those that are there stay.
    pub fn insert(&mut self, range: IndexRange) {
        self.remove(range);
        self.count += range.count;
        let (mut first, mut end) = (range.first, range.end());
        if let Some(after) = self.runs.remove(&end) {
            end = after;
        }
        let before = self.runs.range(..first).next_back();
        if let Some((&before, &before_end)) = before
            && before_end == first
        {
            first = before;
        }
        self.runs.insert(first, end);
    }

    /// Takes out the indices of a range. Returns how many of them were there.
    pub fn remove(&mut self, range: IndexRange) -> u32 {
        let mut removed = 0;
        let (first, end) = (range.first, range.end());
        if let Some((run, run_end)) = self.run_at(first)
            && run < first
        {
            self.runs.insert(run, first);
            self.runs.insert(first, run_end);
        }
        while let Some((&run, &run_end)) = self.runs.range(first..end).next() {
            self.runs.remove(&run);
            if run_end > end {
                self.runs.insert(end, run_end);
            }
            removed += run_end.min(end) - run;
        }
        self.count -= removed;
        removed
    }

    /// The runs, rising.
    pub fn runs(&self) -> impl Iterator<Item = IndexRange> + '_ {
        let range = |(&first, &end): (&u32, &u32)| IndexRange {
            first,
            count: end - first,
        };
        self.runs.iter().map(range)
    }

    /// The part of the set that lies in a range.
    pub fn within(&self, range: IndexRange) -> Vec<IndexRange> {
        let mut parts = Vec::new();
        let first = self
            .run_at(range.first)
            .map_or(range.first, |(first, _)| first);
        for (&run, &end) in self.runs.range(first..range.end()) {
            let run = run.max(range.first);
            parts.push(IndexRange {
                first: run,
                count: end.min(range.end()) - run,
            });
        }
        parts
    }

    /// The set in messages of at most [`RANGES_MAX`] ranges each.
    pub fn messages(&self) -> Vec<IndexRanges> {
        let runs: Vec<IndexRange> = self.runs().collect();
        runs.chunks(RANGES_MAX)
            .map(|runs| IndexRanges(runs.to_vec()))
            .collect()
    }
}

impl FromIterator<u32> for IndexSet {
    /// The set of these indices. The largest of all numbers is no index, and is left out.
    fn from_iter<I: IntoIterator<Item = u32>>(indices: I) -> IndexSet {
        let mut set = IndexSet::default();
        for index in indices {
            if let Ok(range) = IndexRange::new(index, 1) {
                set.insert(range);
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn range(first: u32, count: u32) -> IndexRange {
        IndexRange::new(first, count).expect("a range")
    }

    #[test]
    fn ranges_rise_and_are_never_empty() {
        assert!(IndexRange::new(u32::MAX, 1).is_err());
        assert!(IndexRange::new(3, 0).is_err());
        assert!(IndexRanges::try_from(vec![range(1, 2), range(3, 1)]).is_ok());
        let wrong = IndexRanges::try_from(vec![range(1, 2), range(2, 1)]);
        assert_eq!(wrong, Err(IndexRangeError::Order { first: 2 }));
        let many: Vec<IndexRange> = (0..1025).map(|n| range(2 * n, 1)).collect();
        assert_eq!(
            IndexRanges::try_from(many),
            Err(IndexRangeError::Many { ranges: 1025 })
        );
    }

    proptest! {
        #[test]
        fn a_set_is_what_a_plain_set_is(
            changes in proptest::collection::vec((0u32..60, 1u32..20, any::<bool>()), 1..40),
        ) {
            let mut set = IndexSet::default();
            let mut plain = BTreeSet::new();
            for (first, count, adds) in changes {
                let range = range(first, count);
                let within: Vec<u32> = set.within(range).iter().flat_map(|run| run.first()..run.end()).collect();
                let expected: Vec<u32> = plain.range(range.first()..range.end()).copied().collect();
                prop_assert_eq!(within, expected);
                if adds {
                    set.insert(range);
                    plain.extend(range.first()..range.end());
                } else {
                    let before = plain.len();
                    plain.retain(|index| !(range.first()..range.end()).contains(index));
                    prop_assert_eq!(set.remove(range) as usize, before - plain.len());
                }
                prop_assert_eq!(set.count() as usize, plain.len());
                let runs: Vec<IndexRange> = set.runs().collect();
                prop_assert!(runs.windows(2).all(|pair| pair[0].end() < pair[1].first()));
                let shown: BTreeSet<u32> = runs.iter().flat_map(|run| run.first()..run.end()).collect();
                prop_assert_eq!(&shown, &plain);
            }
        }
    }
}
