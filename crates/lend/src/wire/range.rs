//! Ranges: runs of pages of lent blocks.
//!
//! ```text
//! 0      4      6      8
//! | index | place | count |
//! ```

use super::fields::{field, put};
use super::limits::{BLOCK_PAGES, PAGES_MAX, RANGE_BYTES, RANGES_MAX};

const PLACE_AT: usize = 4;
const COUNT_AT: usize = 6;

/// A run of pages of one lent block. It has at least one page, and lies within the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    index: u32,
    place: u16,
    count: u16,
}

/// A page of a lent block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentPage {
    /// The number of the block in its lease.
    pub index: u32,
    /// The number of the page in the block, below 512.
    pub place: u16,
}

/// Why pages cannot be a range of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The range has no page.
    #[error("the range at page {place} of block {index} has no page; leave it out")]
    Empty {
        /// The number of the block in its lease.
        index: u32,
        /// The page at which the range begins.
        place: u16,
    },
    /// The range does not lie within its block.
    #[error(
        "{count} pages from page {place} of block {index} end behind the block's {BLOCK_PAGES} pages; \
         split the range at the block's end"
    )]
    BeyondBlock {
        /// The number of the block in its lease.
        index: u32,
        /// The page at which the range begins.
        place: u16,
        /// The pages of the range.
        count: u16,
    },
    /// The ranges have too many pages together.
    #[error("the message has more than {PAGES_MAX} pages; send the rest in another")]
    TooManyPages,
}

impl PageRange {
    /// The `count` pages from page `place` of block `index`.
    ///
    /// # Errors
    ///
    /// The range is empty, or ends behind its block.
    pub fn new(index: u32, place: u16, count: u16) -> Result<PageRange, RangeError> {
        if count == 0 {
            return Err(RangeError::Empty { index, place });
        }
        if place.checked_add(count).is_none_or(|end| end > BLOCK_PAGES) {
            return Err(RangeError::BeyondBlock {
                index,
                place,
                count,
            });
        }
        Ok(PageRange {
            index,
            place,
            count,
        })
    }

    /// The number of the block in its lease.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The page at which the range begins.
    pub fn place(&self) -> u16 {
        self.place
    }

    /// The number of its pages.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The bytes of the range.
    pub fn encode(&self) -> [u8; RANGE_BYTES] {
        let mut bytes = [0; RANGE_BYTES];
        put(&mut bytes, 0, self.index.to_le_bytes());
        put(&mut bytes, PLACE_AT, self.place.to_le_bytes());
        put(&mut bytes, COUNT_AT, self.count.to_le_bytes());
        bytes
    }

    /// Reads a range.
    ///
    /// # Errors
    ///
    /// The range is empty, or ends behind its block.
    pub fn decode(bytes: &[u8; RANGE_BYTES]) -> Result<PageRange, RangeError> {
        PageRange::new(
            u32::from_le_bytes(field(bytes, 0)),
            u16::from_le_bytes(field(bytes, PLACE_AT)),
            u16::from_le_bytes(field(bytes, COUNT_AT)),
        )
    }

    fn page(&self, nth: u16) -> LentPage {
        LentPage {
            index: self.index,
            place: self.place + nth,
        }
    }
}

/// The ranges of a message: at most 64, of at most 64 pages together.
#[derive(Clone, Debug)]
pub struct RangeList {
    ranges: [PageRange; RANGES_MAX],
    count: usize,
    pages: usize,
}

impl Default for RangeList {
    fn default() -> RangeList {
        let unused = PageRange {
            index: 0,
            place: 0,
            count: 1,
        };
        RangeList {
            ranges: [unused; RANGES_MAX],
            count: 0,
            pages: 0,
        }
    }
}

impl RangeList {
    /// Appends a range.
    ///
    /// # Errors
    ///
    /// The message would have more than 64 pages. The list stays as it is.
    pub fn push(&mut self, range: PageRange) -> Result<(), RangeError> {
        let pages = self.pages + usize::from(range.count);
        // Each range has a page, so the list is full no later than the message.
        if pages > PAGES_MAX {
            return Err(RangeError::TooManyPages);
        }
        self.ranges[self.count] = range;
        self.count += 1;
        self.pages = pages;
        Ok(())
    }

    /// Removes all ranges.
    pub fn clear(&mut self) {
        (self.count, self.pages) = (0, 0);
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[PageRange] {
        &self.ranges[..self.count]
    }

    /// The number of pages of all ranges.
    pub fn page_count(&self) -> usize {
        self.pages
    }

    /// The pages of all ranges in order.
    pub fn pages(&self) -> impl Iterator<Item = LentPage> {
        let pages_of = |range: &PageRange| {
            let range = *range;
            (0..range.count).map(move |nth| range.page(nth))
        };
        self.ranges().iter().flat_map(pages_of)
    }

    /// The page `ordinal` of the message. `None` if it has fewer.
    pub fn page_at(&self, ordinal: usize) -> Option<LentPage> {
        let mut before = ordinal;
        for range in self.ranges() {
            match before.checked_sub(usize::from(range.count)) {
                Some(rest) => before = rest,
                None => return Some(range.page(before as u16)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(index: u32, place: u16, count: u16) -> PageRange {
        PageRange::new(index, place, count).expect("a range within its block")
    }

    #[test]
    fn a_range_lies_within_its_block() {
        assert!(PageRange::new(9, 0, 512).is_ok());
        assert!(PageRange::new(9, 511, 1).is_ok());
        let (index, place) = (9, 511);
        let empty = RangeError::Empty { index, place };
        assert_eq!(PageRange::new(9, 511, 0), Err(empty));
        for (place, count) in [(511, 2), (512, 1), (0, 513), (u16::MAX, 1), (1, u16::MAX)] {
            let beyond = RangeError::BeyondBlock {
                index,
                place,
                count,
            };
            assert_eq!(PageRange::new(9, place, count), Err(beyond));
        }
    }

    #[test]
    fn a_list_takes_64_pages() {
        let mut list = RangeList::default();
        for index in 0..64 {
            list.push(range(index, 3, 1)).expect("room for 64 ranges");
        }
        assert_eq!(list.push(range(64, 0, 1)), Err(RangeError::TooManyPages));
        assert_eq!((list.ranges().len(), list.page_count()), (64, 64));
        list.clear();
        list.push(range(1, 0, 60)).expect("room for 60 pages");
        assert_eq!(list.push(range(1, 60, 5)), Err(RangeError::TooManyPages));
        list.push(range(1, 60, 4)).expect("room for 4 pages");
        assert_eq!(list.page_count(), 64);
    }

    proptest! {
        #[test]
        fn a_page_is_found_as_in_the_list_of_all(
            ranges in prop::collection::vec((any::<u32>(), 0u16..448, 1u16..=9), 0..=7),
        ) {
            let mut list = RangeList::default();
            for (index, place, count) in ranges {
                list.push(range(index, place, count)).expect("63 pages at most");
            }
            let all: Vec<LentPage> = list.pages().collect();
            prop_assert_eq!(all.len(), list.page_count());
            for ordinal in 0..=PAGES_MAX {
                prop_assert_eq!(list.page_at(ordinal), all.get(ordinal).copied());
            }
        }
    }
}
