//! Which places of a lease may hold what a lost write brought.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use sublet_store::FarAddress;

/// The most places that are remembered. Of more, those whose writes were lost first are forgotten: a write that comes
/// late comes soon.
const PLACES_MAX: usize = 1 << 16;

/// Places of a lease whose write was not answered before its connection ended.
///
/// The lender may still receive such a write when the place holds another page, and an honest lender then gives bytes
/// that are not those of the page. A write comes once at most, so it excuses one page. Whoever loses writes to be
/// excused must lose one for each page that it forges.
#[derive(Debug, Default)]
pub struct LostWrites(Mutex<LostPlaces>);

/// A block's index and the place in the block.
type PlaceInLease = (u32, u16);

#[derive(Debug, Default)]
struct LostPlaces {
    /// Each place with the number of its loss.
    by_place: BTreeMap<PlaceInLease, u64>,
    /// The same, by the numbers. They ascend with time.
    by_age: BTreeMap<u64, PlaceInLease>,
    next: u64,
}

impl LostWrites {
    /// Records a lost write of a page.
    pub(super) fn add(&self, address: FarAddress) {
        let places = &mut *self.0.lock();
        let (place, age) = ((address.index, address.place), places.next);
        places.next += 1;
        if let Some(before) = places.by_place.insert(place, age) {
            places.by_age.remove(&before);
        }
        places.by_age.insert(age, place);
        if places.by_age.len() > PLACES_MAX
            && let Some((_, oldest)) = places.by_age.pop_first()
        {
            places.by_place.remove(&oldest);
        }
    }

    /// Returns whether a write to this place was lost that has excused no page yet. It excuses none after that.
    pub(super) fn excuse(&self, address: FarAddress) -> bool {
        let places = &mut *self.0.lock();
        let age = places.by_place.remove(&(address.index, address.place));
        age.is_some_and(|age| places.by_age.remove(&age).is_some())
    }
}

#[cfg(test)]
mod tests {
    use sublet_store::LeaseSlot;

    use super::*;

    fn at(n: u32) -> FarAddress {
        FarAddress {
            lease: LeaseSlot(0),
            index: n / 512,
            place: (n % 512) as u16,
        }
    }

    #[test]
    fn a_lost_write_excuses_one_page() {
        let writes = LostWrites::default();
        for _ in 0..3 {
            writes.add(at(7));
        }
        assert!(!writes.excuse(at(8)));
        assert!(writes.excuse(at(7)));
        assert!(!writes.excuse(at(7)));
        writes.add(at(7));
        assert!(writes.excuse(at(7)));
    }

    /// However many writes a lender makes the borrower lose, no place is excused that lost none.
    #[test]
    fn beyond_the_bound_the_oldest_are_forgotten() {
        let (writes, max) = (LostWrites::default(), PLACES_MAX as u32);
        (0..max).for_each(|n| writes.add(at(n)));
        // Its last loss counts.
        writes.add(at(0));
        (max..max + 10).for_each(|n| writes.add(at(n)));
        assert!(!writes.excuse(at(max + 10)));
        assert!((1..11).all(|n| !writes.excuse(at(n))));
        assert!(writes.excuse(at(0)) && writes.excuse(at(11)));
        assert!((max..max + 10).all(|n| writes.excuse(at(n))));
        let places = writes.0.lock();
        assert_eq!(places.by_place.len(), PLACES_MAX - 12);
        assert_eq!(places.by_age.len(), PLACES_MAX - 12);
    }
}
