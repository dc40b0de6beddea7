//! A thread's operations on pages that lenders have.

use sublet_types::{Second, TenantId};

use super::{Pin, Worker};
use crate::api::{GetOutcome, PageKey};
use crate::borrowing::{AwayTicket, LeaseSlot, OutboundPage, SendOutcome};

impl Worker {
    /// Ends a get that was answered with a ticket, when its page has come and its seal was checked.
    ///
    /// The get is a hit if the page is still the version that the ticket names. Otherwise this is another get of the
    /// page, which may bring another ticket. `visit` sees the page, once, if the outcome is a hit. It must not wait for
    /// anything.
    pub fn arrived(
        &self,
        tenant: TenantId,
        key: PageKey,
        ticket: &AwayTicket,
        page: &[u8],
        now: Second,
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        let visit = |page: &[u8]| self.with_borrow(|| visit(page));
        self.with_page_access(tenant, now, |access| {
            access.arrived(key, ticket, page, visit)
        })
        .unwrap_or(GetOutcome::NoPool)
    }

    /// Ends a get that was answered with a ticket, when no lender has the page any more: it came late, its seal was
    /// wrong, or it did not come.
    ///
    /// The get is a miss, and no later get finds this version of the page (R-G4). If the page has changed meanwhile,
    /// this is another get of it.
    pub fn gone(
        &self,
        tenant: TenantId,
        key: PageKey,
        ticket: &AwayTicket,
        now: Second,
        visit: impl FnOnce(&[u8]),
    ) -> GetOutcome {
        let visit = |page: &[u8]| self.with_borrow(|| visit(page));
        self.with_page_access(tenant, now, |access| access.gone(key, ticket, visit))
            .unwrap_or(GetOutcome::NoPool)
    }

    /// Takes pages that wait for a lease out of the outbox, oldest first and at most this many. `send` gets each with
    /// its bytes, which it must seal or copy. It must not wait for anything. Returns how many it got.
    ///
    /// Each page that was taken must come back by [`settle`](Worker::settle).
    pub fn take_outbound(
        &self,
        lease: LeaseSlot,
        most: usize,
        send: impl FnMut(OutboundPage, &[u8]),
    ) -> usize {
        self.store().pages.take_outbound(lease, most, send)
    }

    /// Records what became of a page that was sent. No request that writes it may be under way any more.
    pub fn settle(&self, page: OutboundPage, outcome: SendOutcome) {
        let _pin = Pin::new(self);
        self.store().pages.settle(page, outcome);
    }

    /// Keeps far blocks ready for tenants that fill them. Returns whether a tenant wanted one.
    pub(crate) fn keep_far_blocks_ready(&self) -> bool {
        self.store().divide_targets();
        self.pinned(|| self.store().pages.keep_far_blocks_ready())
    }
}
