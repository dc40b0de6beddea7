//! Which pages of a message are meant.

use super::limits::PAGES_MAX;

/// A set of a message's pages: bit `n` stands for the page `n` in the order of the ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSet(pub u64);

impl PageSet {
    /// The set of the first `count` pages, at most all 64.
    pub fn first(count: usize) -> PageSet {
        match count {
            0 => PageSet(0),
            1..PAGES_MAX => PageSet((1 << count) - 1),
            _ => PageSet(u64::MAX),
        }
    }

    /// Adds the page `ordinal`. A message has no page beyond the 64th.
    pub fn insert(&mut self, ordinal: usize) {
        debug_assert!(ordinal < PAGES_MAX, "page {ordinal} of a message");
        self.0 |= 1u64.checked_shl(ordinal as u32).unwrap_or(0);
    }

    /// Returns whether the page `ordinal` is in the set.
    pub fn contains(self, ordinal: usize) -> bool {
        ordinal < PAGES_MAX && self.0 >> ordinal & 1 == 1
    }

    /// The number of pages in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether no page is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether every page of this set is in `other`.
    pub fn is_within(self, other: PageSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// The pages in order.
    pub fn pages(self) -> impl Iterator<Item = usize> {
        (0..PAGES_MAX).filter(move |ordinal| self.contains(*ordinal))
    }

    /// The page that comes after `before` other pages of the set.
    pub(super) fn nth(self, before: usize) -> Option<usize> {
        let mut rest = self.0;
        for _ in 0..before {
            rest &= rest.wrapping_sub(1);
        }
        (rest != 0).then(|| rest.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pages_are_counted() {
        for count in 0..=PAGES_MAX {
            let set = PageSet::first(count);
            assert_eq!(set.len(), count);
            assert!(set.pages().eq(0..count));
        }
    }

    #[test]
    fn the_nth_page_is_that_of_the_list() {
        let mut set = PageSet::default();
        for ordinal in [63, 0, 7, 8, 40] {
            set.insert(ordinal);
        }
        let listed: Vec<usize> = set.pages().collect();
        assert_eq!(listed, [0, 7, 8, 40, 63]);
        for (before, ordinal) in listed.iter().enumerate() {
            assert_eq!(set.nth(before), Some(*ordinal));
        }
        assert_eq!(set.nth(5), None);
    }

    #[test]
    fn a_set_lies_within_another() {
        assert!(PageSet(0b101).is_within(PageSet(0b111)));
        assert!(!PageSet(0b1000).is_within(PageSet(0b111)));
    }
}
