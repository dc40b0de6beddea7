//! A lender, as the courier sees it: its leases, and the connection to it.

use std::sync::Arc;
use std::time::Instant;

use sublet_store::{LeaseSlot, SendOutcome, Worker};

use super::courier_figures::{CarriedCounters, CourierCounters};
use super::gather_pace::CarryOutcome;
use super::write_connection::{WriteConnection, WriteConnectionEnd};
use super::write_message::BATCH_PAGES_MAX;
use crate::peers::lease_routes::LeaseRoute;
use crate::peers::lender_session::LenderSession;
use crate::peers::outgoing_socket::RECONNECT_PAUSE;
use crate::peers::page_faults::{LIES_IN_A_ROW_MAX, PageFault};

/// A session with a lender, whose leases are carried to.
pub(super) struct CarriedLender {
    pub(super) session: Arc<LenderSession>,
    pub(super) leases: Vec<(LeaseSlot, LeaseRoute)>,
    pub(super) connection: Option<WriteConnection>,
    connects_at: Instant,
    breaks: ProtocolBreaks,
    /// The lease whose turn it is.
    next: usize,
}

/// How often a lender broke the protocol since it last took a page.
#[derive(Clone, Copy, Debug, Default)]
struct ProtocolBreaks {
    in_a_row: u64,
    /// The pages that it had taken at the last break.
    pages_taken: u64,
}

impl ProtocolBreaks {
    /// Counts one more. Returns whether there were so many in a row that others must hear it.
    fn count(&mut self, pages_taken: u64) -> bool {
        if self.pages_taken != pages_taken {
            self.in_a_row = 0;
        }
        self.pages_taken = pages_taken;
        self.in_a_row += 1;
        self.in_a_row >= LIES_IN_A_ROW_MAX
    }
}

impl CarriedLender {
    /// A lender without a connection.
    pub(super) fn new(session: Arc<LenderSession>, now: Instant) -> CarriedLender {
        CarriedLender {
            session,
            leases: Vec::new(),
            connection: None,
            connects_at: now,
            breaks: ProtocolBreaks::default(),
            next: 0,
        }
    }

    /// Connects if there is no connection, and takes pages of its leases out of the outbox, a message of each.
    pub(super) fn carry(
        &mut self,
        worker: &Worker,
        counters: &CourierCounters,
        now: Instant,
    ) -> CarryOutcome {
        let all = counters;
        let counters = all.of(self.session.lender());
        let mut outcome = CarryOutcome::Nothing;
        if self.session.is_over() {
            self.lose_waiting(worker, counters);
            return outcome;
        }
        if self.connection.is_none() && now >= self.connects_at {
            match WriteConnection::open(&self.session, now) {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => self.count_end(&error.into(), all, now),
            }
        }
        let Some(connection) = &mut self.connection else {
            return outcome;
        };
        for _ in 0..self.leases.len() {
            if !connection.has_room() {
                break;
            }
            self.next = (self.next + 1) % self.leases.len();
            let (lease, route) = &self.leases[self.next];
            let pages = connection.take(worker, *lease, route, now);
            outcome = outcome.max(CarryOutcome::of_pages(pages));
        }
        outcome
    }

    /// Sends and settles. If the connection is at its end, all that is not answered is lost.
    pub(super) fn exchange(&mut self, worker: &Worker, counters: &CourierCounters, now: Instant) {
        let of_lender = counters.of(self.session.lender());
        let Some(connection) = &mut self.connection else {
            return;
        };
        if let Err(end) = connection.exchange(worker, of_lender, now) {
            self.count_end(&end, counters, now);
            self.disconnect(worker, counters);
        }
    }

    /// Ends the connection, if there is one.
    pub(super) fn disconnect(&mut self, worker: &Worker, counters: &CourierCounters) {
        if let Some(connection) = self.connection.take() {
            connection.disconnect(worker, counters.of(self.session.lender()));
        }
    }

    /// Settles the pages that wait in the outbox as lost, because the lender cannot be reached and others need the room.
    fn lose_waiting(&self, worker: &Worker, counters: &CarriedCounters) {
        for (lease, _) in &self.leases {
            lose_outbound(worker, *lease, counters);
        }
    }

    fn count_end(&mut self, end: &WriteConnectionEnd, counters: &CourierCounters, now: Instant) {
        let lender = self.session.lender();
        match end {
            // The network or the lender closed it. The control connection tells whether the lender is there.
            WriteConnectionEnd::Socket(_) => {}
            WriteConnectionEnd::Wire(_) => {
                counters.report(lender, PageFault::BrokenProtocol);
                if self.breaks.count(counters.of(lender).figures().pages_taken) {
                    counters.report_liar(lender);
                }
            }
            WriteConnectionEnd::Silent => counters.report(lender, PageFault::Silent),
        }
        let address = self.session.address();
        tracing::debug!(%address, %end, "the connection that carries pages to a lender ended");
        CarriedCounters::bump(&counters.of(lender).connections_lost);
        self.connects_at = now + RECONNECT_PAUSE;
    }
}

/// Takes pages of a lease out of the outbox, a message of them at most, and settles them as lost.
pub(super) fn lose_outbound(worker: &Worker, lease: LeaseSlot, counters: &CarriedCounters) {
    let mut lost = Vec::new();
    worker.take_outbound(lease, BATCH_PAGES_MAX, |page, _| lost.push(page));
    for page in lost {
        CarriedCounters::bump(&counters.pages_lost);
        worker.settle(page, SendOutcome::Lost);
    }
}
