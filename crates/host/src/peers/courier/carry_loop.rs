//! The courier's loop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use sublet_lend::ids::PeerId;
use sublet_store::{LeaseSlot, Worker};

use super::carried_lender::{CarriedLender, lose_outbound};
use super::courier_figures::CourierCounters;
use super::gather_pace::{CarryOutcome, GatherPace};
use crate::peers::lease_routes::LeaseRoutes;
use crate::peers::outgoing_socket::poll_sockets;

/// How long the courier sleeps when there is no lease.
const LEASELESS_PAUSE: Duration = Duration::from_millis(50);

/// The courier's loop, in its thread.
pub(super) struct CarryLoop {
    worker: Worker,
    routes: Arc<LeaseRoutes>,
    counters: Arc<CourierCounters>,
    is_stopped: Arc<AtomicBool>,
    lenders: Vec<CarriedLender>,
    /// The version of the routes that `lenders` stands for.
    version: Option<u64>,
    /// Leases that have ended, and their lenders. Pages that still wait for them are lost.
    ended: Vec<(LeaseSlot, PeerId)>,
    pace: GatherPace,
    looks_at: Instant,
}

impl CarryLoop {
    /// A loop in the worker's thread. It ends when `is_stopped` is set.
    pub(super) fn new(
        worker: Worker,
        routes: Arc<LeaseRoutes>,
        counters: Arc<CourierCounters>,
        is_stopped: Arc<AtomicBool>,
    ) -> CarryLoop {
        CarryLoop {
            worker,
            routes,
            counters,
            is_stopped,
            lenders: Vec::new(),
            version: None,
            ended: Vec::new(),
            pace: GatherPace::default(),
            looks_at: Instant::now(),
        }
    }

    /// Carries pages until it is stopped. Then all that is not answered is lost.
    ///
    /// # Errors
    ///
    /// The kernel's poll failed.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        while outcome.is_ok() && !self.is_stopped.load(Ordering::Acquire) {
            self.follow_routes();
            self.carry(Instant::now());
            let now = Instant::now();
            for lender in &mut self.lenders {
                lender.exchange(&self.worker, &self.counters, now);
            }
            outcome = self.sleep();
        }
        for lender in &mut self.lenders {
            lender.disconnect(&self.worker, &self.counters);
        }
        outcome
    }

    /// Takes over changes of the routes.
    fn follow_routes(&mut self) {
        let version = self.routes.version();
        if self.version == Some(version) {
            return;
        }
        self.version = Some(version);
        for lender in &mut self.lenders {
            lender.leases.clear();
        }
        self.ended = self.routes.ended();
        for (lease, route) in self.routes.all() {
            let is_same = |lender: &CarriedLender| Arc::ptr_eq(&lender.session, &route.session);
            let at = self.lenders.iter().position(is_same).unwrap_or_else(|| {
                let session = Arc::clone(&route.session);
                self.lenders
                    .push(CarriedLender::new(session, Instant::now()));
                self.lenders.len() - 1
            });
            self.lenders[at].leases.push((lease, route));
        }
        for lender in &mut self.lenders {
            if lender.leases.is_empty() {
                lender.disconnect(&self.worker, &self.counters);
            }
        }
        self.lenders.retain(|lender| !lender.leases.is_empty());
    }

    /// Looks for pages, if pages have gathered for long enough.
    fn carry(&mut self, now: Instant) {
        if now < self.looks_at {
            return;
        }
        let (worker, counters) = (&self.worker, &self.counters);
        let outcomes = self.lenders.iter_mut();
        let outcomes = outcomes.map(|lender| lender.carry(worker, counters, now));
        let outcome = outcomes.max().unwrap_or(CarryOutcome::Nothing);
        self.lose_of_ended();
        self.looks_at = now + self.pace.after(outcome);
    }

    /// Settles pages that wait for leases that have ended.
    fn lose_of_ended(&self) {
        for (lease, lender) in &self.ended {
            lose_outbound(&self.worker, *lease, self.counters.of(*lender));
        }
    }

    /// Sleeps until a socket has something or takes something, or until it is time to look for pages.
    fn sleep(&self) -> io::Result<()> {
        let longest = match self.lenders.is_empty() {
            true => LEASELESS_PAUSE,
            false => self.looks_at.saturating_duration_since(Instant::now()),
        };
        let connections = self.lenders.iter().flat_map(|lender| &lender.connection);
        let mut sockets: Vec<PollFd<'_>> = connections
            .map(|connection| {
                let (socket, events) = connection.awaited();
                PollFd::from_borrowed_fd(socket, events | PollFlags::ERR)
            })
            .collect();
        poll_sockets(&mut sockets, Some(longest))
    }
}
