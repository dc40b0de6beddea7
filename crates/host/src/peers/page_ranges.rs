//! The ranges of a request.

use sublet_lend::wire::{PageRange, RangeList};
use sublet_store::FarAddress;

/// The ranges of pages in this order. Neighbours share one.
pub(super) fn page_ranges(pages: impl Iterator<Item = FarAddress>) -> RangeList {
    let mut ranges = RangeList::default();
    let mut run: Option<(u32, u16, u16)> = None;
    let mut push = |(index, place, count)| {
        let range = PageRange::new(index, place, count);
        let pushed = range.and_then(|range| ranges.push(range));
        pushed.expect("a page lies within its block, and a message has no more pages than may be");
    };
    for page in pages {
        run = match run {
            Some((index, place, count)) if index == page.index && place + count == page.place => {
                Some((index, place, count + 1))
            }
            other => {
                other.into_iter().for_each(&mut push);
                Some((page.index, page.place, 1))
            }
        };
    }
    run.into_iter().for_each(&mut push);
    ranges
}

#[cfg(test)]
mod tests {
    use sublet_store::LeaseSlot;

    use super::*;

    #[test]
    fn ranges_name_the_pages_in_their_order() {
        let address = |index, place| FarAddress {
            lease: LeaseSlot(0),
            index,
            place,
        };
        let pages = [
            address(1, 3),
            address(1, 4),
            address(2, 5),
            address(2, 4),
            address(2, 4),
            address(0, 511),
            address(1, 0),
        ];
        let ranges = page_ranges(pages.into_iter());
        assert_eq!(ranges.ranges().len(), 6);
        let named = ranges.pages().map(|page| address(page.index, page.place));
        assert!(named.eq(pages));
    }
}
