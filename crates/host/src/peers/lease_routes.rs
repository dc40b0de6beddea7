//! Where the pages of each lease are: which lender has them, how it is reached, and the key that opens them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use sublet_lend::ids::{LeaseId, PeerId};
use sublet_lend::seal::{ForgedPage, LeaseKey, PageNonce, PageTag, WriteSequence};
use sublet_lend::wire::PAGE_BYTES;
use sublet_store::{AwayTicket, FarAddress, LEASES_MAX, LeaseSlot, SealTag};

use super::lender_session::LenderSession;
use super::lost_writes::LostWrites;
use super::ticket_check::TicketCheck;

/// The way to the pages of one lease.
#[derive(Clone, Debug)]
pub struct LeaseRoute {
    /// The session in which the lender is asked. If it is over, the pages count as away until another replaces it.
    pub session: Arc<LenderSession>,
    /// The lease's number at its lender.
    pub lease: LeaseId,
    /// The key that the lease's pages are sealed with. No other lease has it. It stays when the session is replaced.
    pub key: Arc<LeaseKey>,
    /// Where the lender may have other pages than the last that were written. It stays when the session is replaced.
    pub lost_writes: Arc<LostWrites>,
    /// What knows whether a read was overtaken.
    pub tickets: TicketCheck,
}

impl LeaseRoute {
    /// Seals a page for its place at the lender. `sequence` is the number of the write.
    pub(super) fn seal(
        &self,
        address: FarAddress,
        sequence: u32,
        page: &[u8; PAGE_BYTES],
        into: &mut [u8; PAGE_BYTES],
    ) -> SealTag {
        let tag = self.key.seal(nonce(address, sequence), page, into);
        SealTag(tag.0)
    }

    /// Opens a page that the lender gave for a ticket, in place.
    ///
    /// # Errors
    ///
    /// It is not the page that was sealed.
    pub(super) fn open(
        &self,
        ticket: &AwayTicket,
        page: &mut [u8; PAGE_BYTES],
    ) -> Result<(), ForgedPage> {
        let nonce = nonce(ticket.address, ticket.seal.sequence);
        self.key.open(nonce, PageTag(ticket.seal.tag.0), page)
    }

    /// Returns whether this is the way to a lease of a lender.
    fn is_to(&self, lender: PeerId, lease: LeaseId) -> bool {
        self.session.lender() == lender && self.lease == lease
    }
}

/// The nonce of a write. The lease's key belongs to it.
fn nonce(address: FarAddress, sequence: u32) -> PageNonce {
    PageNonce {
        index: address.index,
        place: address.place,
        sequence: WriteSequence(sequence),
    }
}

/// The routes of all leases, [`LEASES_MAX`] at most. The control thread sets them, and whoever moves pages reads them.
#[derive(Debug)]
pub struct LeaseRoutes {
    slots: RwLock<RouteSlots>,
    /// Rises with each change.
    version: AtomicU64,
}

#[derive(Debug)]
struct RouteSlots {
    routes: Box<[Option<LeaseRoute>]>,
    /// The lender of the lease that had a number last.
    lenders: Box<[Option<PeerId>]>,
    /// Where the search for a free number begins. Numbers go round, so that one is not used again soon.
    next: usize,
}

impl Default for LeaseRoutes {
    fn default() -> LeaseRoutes {
        LeaseRoutes {
            slots: RwLock::new(RouteSlots {
                routes: vec![None; LEASES_MAX].into(),
                lenders: vec![None; LEASES_MAX].into(),
                next: 0,
            }),
            version: AtomicU64::new(0),
        }
    }
}

impl LeaseRoutes {
    /// Sets the route of a lease: a new one, or one whose lender came back in another session. Numbers beyond the table
    /// are ignored, as the store takes no such lease.
    pub fn set(&self, slot: LeaseSlot, route: LeaseRoute) {
        let mut slots = self.slots.write();
        slots.next = (usize::from(slot.0) + 1) % LEASES_MAX;
        self.change(&mut slots, slot, Some(route));
    }

    /// Removes the route of a lease that the store has ended. The courier then empties the lease's part of the outbox.
    pub fn remove(&self, slot: LeaseSlot) {
        self.change(&mut self.slots.write(), slot, None);
    }

    /// Replaces the session in the routes to a lender's leases, because the lender is back.
    pub fn follow(&self, session: &Arc<LenderSession>) {
        let mut slots = self.slots.write();
        let routes = slots.routes.iter_mut().flatten();
        for route in routes.filter(|route| route.session.lender() == session.lender()) {
            route.session = Arc::clone(session);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The route of a lease.
    pub fn find(&self, slot: LeaseSlot) -> Option<LeaseRoute> {
        self.slots.read().routes.get(usize::from(slot.0))?.clone()
    }

    /// The store's number of a lease of a lender.
    pub fn slot_of(&self, lender: PeerId, lease: LeaseId) -> Option<LeaseSlot> {
        let slots = self.slots.read();
        let is_it = |route: &Option<LeaseRoute>| {
            let route = route.as_ref();
            route.is_some_and(|route| route.is_to(lender, lease))
        };
        let place = slots.routes.iter().position(is_it)?;
        Some(LeaseSlot(place as u16))
    }

    /// The routes of all leases.
    pub fn all(&self) -> Vec<(LeaseSlot, LeaseRoute)> {
        let slots = self.slots.read();
        let numbered = (0..).map(LeaseSlot).zip(slots.routes.iter());
        numbered
            .filter_map(|(slot, route)| Some((slot, route.clone()?)))
            .collect()
    }

    /// Numbers of leases that have ended, each with the lender of the last one. A lease may begin and end while nobody
    /// looks.
    pub fn ended(&self) -> Vec<(LeaseSlot, PeerId)> {
        let slots = self.slots.read();
        let numbered = (0..).map(LeaseSlot).zip(&slots.routes).zip(&slots.lenders);
        let ended = numbered.filter(|((_, route), _)| route.is_none());
        ended
            .filter_map(|((slot, _), lender)| Some((slot, (*lender)?)))
            .collect()
    }

    /// Numbers that no lease has, those that were used least lately first.
    pub fn vacant(&self) -> Vec<LeaseSlot> {
        let slots = self.slots.read();
        let places = (slots.next..LEASES_MAX).chain(0..slots.next);
        let vacant = places.filter(|place| slots.routes[*place].is_none());
        vacant.map(|place| LeaseSlot(place as u16)).collect()
    }

    /// A number that rises with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn change(&self, slots: &mut RouteSlots, slot: LeaseSlot, route: Option<LeaseRoute>) {
        let place = usize::from(slot.0);
        if let Some(of_lease) = slots.routes.get_mut(place) {
            if let Some(route) = &route {
                slots.lenders[place] = Some(route.session.lender());
            }
            *of_lease = route;
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use sublet_lend::seal::Cipher;
    use sublet_types::Bytes;

    use super::*;
    use crate::peers::tests::{session_with, store};

    fn route(tickets: &TicketCheck, lender: u16, lease: u32) -> LeaseRoute {
        LeaseRoute {
            session: session_with(PeerId(lender)),
            lease: LeaseId(lease),
            key: Arc::new(LeaseKey::new(Cipher::Aes128Gcm, &[7; 32])),
            lost_writes: Arc::default(),
            tickets: tickets.clone(),
        }
    }

    #[test]
    fn a_number_is_used_again_after_all_others() {
        let routes = LeaseRoutes::default();
        let tickets = TicketCheck::new(store(Bytes::mib(12), 0));
        for lease in 0..2 * LEASES_MAX as u32 {
            let slot = routes.vacant()[0];
            assert_eq!(usize::from(slot.0), lease as usize % LEASES_MAX);
            routes.set(slot, route(&tickets, 1, lease));
            assert_eq!(routes.slot_of(PeerId(1), LeaseId(lease)), Some(slot));
            assert_eq!(routes.slot_of(PeerId(0), LeaseId(lease)), None);
            routes.remove(slot);
            assert!(routes.find(slot).is_none());
        }
    }

    #[test]
    fn a_lease_that_nobody_saw_has_ended_all_the_same() {
        let routes = LeaseRoutes::default();
        let tickets = TicketCheck::new(store(Bytes::mib(12), 0));
        assert!(routes.ended().is_empty());
        routes.set(LeaseSlot(3), route(&tickets, 1, 7));
        assert!(routes.ended().is_empty());
        routes.remove(LeaseSlot(3));
        assert_eq!(routes.ended(), [(LeaseSlot(3), PeerId(1))]);
        routes.set(LeaseSlot(3), route(&tickets, 2, 8));
        assert!(routes.ended().is_empty());
    }

    #[test]
    fn the_routes_to_a_lender_follow_its_session_together() {
        let routes = LeaseRoutes::default();
        let tickets = TicketCheck::new(store(Bytes::mib(12), 0));
        for (slot, lender) in [(4, 1), (5, 2), (6, 1)] {
            routes.set(LeaseSlot(slot), route(&tickets, lender, slot.into()));
        }
        let before = routes.version();
        let session = session_with(PeerId(1));
        routes.follow(&session);
        let is_in = |slot| {
            let route = routes.find(LeaseSlot(slot)).expect("a route");
            Arc::ptr_eq(&route.session, &session)
        };
        assert_eq!([4, 5, 6].map(is_in), [true, false, true]);
        assert_ne!(routes.version(), before);
    }
}
