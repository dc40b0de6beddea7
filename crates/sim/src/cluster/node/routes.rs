//! The way to the pages of each borrowed lease: its lender, its key, and the writes into it that were lost.

use std::collections::{BTreeMap, BTreeSet};

use sublet_lend::ids::{LeaseId, PeerId};
use sublet_store::{FarAddress, LEASES_MAX, LeaseSlot};

use crate::cluster::seal::FakeKey;

/// The way to the pages of one lease.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct LeaseRoute {
    pub(in crate::cluster) lender: PeerId,
    pub(in crate::cluster) lease: LeaseId,
    pub(in crate::cluster) key: FakeKey,
    /// Places whose last write was not answered. The lender may have it, and may get it later. Each excuses one page.
    lost_writes: BTreeSet<(u32, u16)>,
}

impl LeaseRoute {
    /// The way to a new lease.
    pub(in crate::cluster) fn new(lender: PeerId, lease: LeaseId, key: FakeKey) -> LeaseRoute {
        LeaseRoute {
            lender,
            lease,
            key,
            lost_writes: BTreeSet::new(),
        }
    }

    /// Records that a write was not answered.
    pub(in crate::cluster) fn lost_write(&mut self, address: FarAddress) {
        self.lost_writes.insert((address.index, address.place));
    }

    /// Returns whether a lost write excuses bytes that do not open. It excuses no others after that.
    pub(in crate::cluster) fn excuses(&mut self, address: FarAddress) -> bool {
        self.lost_writes.remove(&(address.index, address.place))
    }
}

/// The routes of all leases.
#[derive(Clone, Debug, Default)]
pub(in crate::cluster) struct LeaseRoutes {
    by_slot: BTreeMap<u16, LeaseRoute>,
    /// Numbers of leases that have ended, whose pages may still wait in the outbox.
    ended: BTreeSet<u16>,
    next: u16,
}

impl LeaseRoutes {
    /// Sets the route of a new lease.
    pub(in crate::cluster) fn set(&mut self, slot: LeaseSlot, route: LeaseRoute) {
        self.next = (slot.0 + 1) % LEASES_MAX as u16;
        self.ended.remove(&slot.0);
        self.by_slot.insert(slot.0, route);
    }

    /// Removes the route of a lease that has ended.
    pub(in crate::cluster) fn remove(&mut self, slot: LeaseSlot) -> Option<LeaseRoute> {
        self.ended.insert(slot.0);
        self.by_slot.remove(&slot.0)
    }

    /// The route of a lease.
    pub(in crate::cluster) fn find(&self, slot: LeaseSlot) -> Option<&LeaseRoute> {
        self.by_slot.get(&slot.0)
    }

    /// The route of a lease, to change it.
    pub(in crate::cluster) fn find_mut(&mut self, slot: LeaseSlot) -> Option<&mut LeaseRoute> {
        self.by_slot.get_mut(&slot.0)
    }

    /// The store's number of a lease.
    pub(in crate::cluster) fn slot_of(&self, lender: PeerId, lease: LeaseId) -> Option<LeaseSlot> {
        let is_it = |route: &LeaseRoute| route.lender == lender && route.lease == lease;
        let found = self.by_slot.iter().find(|(_, route)| is_it(route));
        found.map(|(slot, _)| LeaseSlot(*slot))
    }

    /// The leases of a lender.
    pub(in crate::cluster) fn of(&self, lender: PeerId) -> Vec<LeaseSlot> {
        let of_lender = self.by_slot.iter();
        let of_lender = of_lender.filter(|(_, route)| route.lender == lender);
        of_lender.map(|(slot, _)| LeaseSlot(*slot)).collect()
    }

    /// All leases.
    pub(in crate::cluster) fn all(&self) -> Vec<LeaseSlot> {
        self.by_slot.keys().copied().map(LeaseSlot).collect()
    }

    /// Numbers of leases that have ended and whose pages may still wait in the outbox.
    pub(in crate::cluster) fn ended(&self) -> Vec<LeaseSlot> {
        self.ended.iter().copied().map(LeaseSlot).collect()
    }

    /// Returns whether there are such numbers.
    pub(in crate::cluster) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Forgets a lease that has ended, because nothing of it waits in the outbox.
    pub(in crate::cluster) fn forget_ended(&mut self, slot: LeaseSlot) {
        self.ended.remove(&slot.0);
    }

    /// Numbers that no lease has, those that were used least lately first.
    pub(in crate::cluster) fn vacant(&self) -> impl Iterator<Item = LeaseSlot> {
        let most = LEASES_MAX as u16;
        let places = (self.next..most).chain(0..self.next);
        let is_vacant = |place: &u16| !self.by_slot.contains_key(place);
        places.filter(is_vacant).map(LeaseSlot)
    }
}
