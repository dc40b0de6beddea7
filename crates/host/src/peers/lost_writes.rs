//! Which places of a lease may hold what a lost write brought.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use sublet_store::FarAddress;

/// The most places that are remembered. Beyond it, any place of the lease counts as one of them.
const PLACES_MAX: usize = 1 << 16;

/// Places of a lease whose write was not answered before its connection ended.
///
/// The lender may still receive such a write when the place holds another page, and an honest lender then gives bytes
/// that are not those of the page. So no page that comes from such a place says anything about the lender.
#[derive(Debug, Default)]
pub struct LostWrites(Mutex<BTreeSet<(u32, u16)>>);

impl LostWrites {
    /// Records a lost write of a page.
    pub(super) fn add(&self, address: FarAddress) {
        let mut places = self.0.lock();
        if places.len() < PLACES_MAX {
            places.insert((address.index, address.place));
        }
    }

    /// Returns whether a write to this place was lost.
    pub(super) fn has(&self, address: FarAddress) -> bool {
        let places = self.0.lock();
        places.len() >= PLACES_MAX || places.contains(&(address.index, address.place))
    }
}

#[cfg(test)]
mod tests {
    use sublet_store::LeaseSlot;

    use super::*;

    #[test]
    fn beyond_the_bound_any_place_counts() {
        let (writes, lease) = (LostWrites::default(), LeaseSlot(0));
        let at = |index, place| FarAddress {
            lease,
            index,
            place,
        };
        for n in 0..PLACES_MAX as u32 - 1 {
            writes.add(at(n / 512, (n % 512) as u16));
        }
        assert!(writes.has(at(3, 9)) && !writes.has(at(1000, 0)));
        writes.add(at(999, 0));
        assert!(writes.has(at(1000, 0)));
        writes.add(at(1001, 0));
        assert_eq!(writes.0.lock().len(), PLACES_MAX);
    }
}
