//! The lenders with what they have left, the largest first, in all and by rack.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::report::{NodeNumber, NodeReport, RackNumber};

/// A lender, by its place in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LenderPlace(usize);

/// Lenders by what they have left. Of equals the one with the lesser number counts as larger.
type BySize = BTreeSet<(u32, Reverse<LenderPlace>)>;

/// A lender with what it has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct PooledLender {
    pub(super) place: LenderPlace,
    pub(super) node: NodeNumber,
    pub(super) rack: Option<RackNumber>,
    /// In blocks.
    pub(super) left: u32,
}

/// All lenders that have something left. Each operation takes logarithmic time.
#[derive(Debug)]
pub(super) struct LenderPool {
    lenders: Vec<PooledLender>,
    by_size: BySize,
    by_rack: BTreeMap<RackNumber, BySize>,
    left: u64,
    /// How many operations there were. Tests bound them.
    operations: u64,
}

impl LenderPool {
    /// The nodes that want nothing and can lend more than `reserve`.
    pub(super) fn new(reports: &[NodeReport], reserve: u32) -> LenderPool {
        let lends = |report: &&NodeReport| report.wanted == 0 && report.lendable > reserve;
        let mut reports: Vec<&NodeReport> = reports.iter().filter(lends).collect();
        reports.sort_by_key(|report| report.node);
        let lender = |(place, report): (usize, &&NodeReport)| PooledLender {
            place: LenderPlace(place),
            node: report.node,
            rack: report.rack,
            left: report.lendable - reserve,
        };
        let lenders: Vec<PooledLender> = reports.iter().enumerate().map(lender).collect();
        let mut pool = LenderPool {
            lenders: lenders.clone(),
            by_size: BySize::new(),
            by_rack: BTreeMap::new(),
            left: 0,
            operations: 0,
        };
        lenders.iter().for_each(|lender| pool.insert(lender));
        pool
    }

    fn insert(&mut self, lender: &PooledLender) {
        self.operations += 1;
        let entry = (lender.left, Reverse(lender.place));
        self.left += u64::from(lender.left);
        self.by_size.insert(entry);
        if let Some(rack) = lender.rack {
            self.by_rack.entry(rack).or_default().insert(entry);
        }
    }

    fn remove(&mut self, lender: &PooledLender) {
        self.operations += 1;
        let entry = (lender.left, Reverse(lender.place));
        self.left -= u64::from(lender.left);
        self.by_size.remove(&entry);
        if let Some(of_rack) = lender.rack.and_then(|rack| self.by_rack.get_mut(&rack)) {
            of_rack.remove(&entry);
        }
    }

    /// What all lenders have left that are in the pool, in blocks.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// How many operations there were.
    #[cfg(test)]
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// All lenders in the pool, by rising number.
    pub(super) fn places(&self) -> Vec<LenderPlace> {
        let places = self.by_size.iter().map(|(_, Reverse(place))| *place);
        let mut places: Vec<LenderPlace> = places.collect();
        places.sort();
        places
    }

    /// A lender, whether it has something left or not.
    pub(super) fn lender(&mut self, place: LenderPlace) -> PooledLender {
        self.operations += 1;
        self.lenders[place.0]
    }

    /// The lender that has most left.
    pub(super) fn largest(&mut self) -> Option<PooledLender> {
        self.operations += 1;
        let (_, Reverse(place)) = self.by_size.last()?;
        Some(self.lenders[place.0])
    }

    /// The lender that has most left of those that have less than `left`.
    pub(super) fn largest_below(&mut self, left: u32) -> Option<PooledLender> {
        self.operations += 1;
        let least_of_that_size = (left, Reverse(LenderPlace(usize::MAX)));
        let (_, Reverse(place)) = self.by_size.range(..least_of_that_size).next_back()?;
        Some(self.lenders[place.0])
    }

    /// The lender of a rack that has most left.
    pub(super) fn largest_in(&mut self, rack: RackNumber) -> Option<PooledLender> {
        self.operations += 1;
        let (_, Reverse(place)) = self.by_rack.get(&rack)?.last()?;
        Some(self.lenders[place.0])
    }

    /// Takes blocks of a lender in the pool, at most what it has left. A lender without any leaves the pool.
    pub(super) fn take(&mut self, place: LenderPlace, blocks: u32) {
        let before = self.lenders[place.0];
        self.remove(&before);
        let left = before.left.saturating_sub(blocks);
        self.lenders[place.0].left = left;
        if left > 0 {
            self.insert(&PooledLender { left, ..before });
        }
    }

    /// Takes a lender out of the pool until it is put back.
    pub(super) fn set_aside(&mut self, place: LenderPlace) {
        let lender = self.lenders[place.0];
        self.remove(&lender);
    }

    /// Puts a lender back that was set aside. One without blocks stays out.
    pub(super) fn put_back(&mut self, place: LenderPlace) {
        let lender = self.lenders[place.0];
        if lender.left > 0 {
            self.insert(&lender);
        }
    }

    /// Takes blocks of a lender that is set aside.
    pub(super) fn take_aside(&mut self, place: LenderPlace, blocks: u32) {
        let lender = &mut self.lenders[place.0];
        lender.left = lender.left.saturating_sub(blocks);
    }
}
