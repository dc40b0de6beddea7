//! Starts and ends the courier.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use sublet_lend::ids::PeerId;
use sublet_store::{Store, TooManyWorkers};

use super::carry_loop::CarryLoop;
use super::courier_figures::{CourierCounters, CourierFigures};
use crate::peers::lease_routes::LeaseRoutes;
use crate::peers::page_faults::PageFaults;

/// Why the courier could not start.
#[derive(Debug, thiserror::Error)]
pub enum CourierError {
    /// The store has no worker for it.
    #[error(transparent)]
    Workers(#[from] TooManyWorkers),
    /// The kernel gave no thread.
    #[error("cannot start the thread that carries pages to lenders: {0}")]
    Thread(#[from] io::Error),
}

/// The thread that carries evicted pages to lenders. Dropping it ends the thread and its connections; what was not
/// answered is lost.
pub struct Courier {
    is_stopped: Arc<AtomicBool>,
    counters: Arc<CourierCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Courier {
    /// Starts the thread. It carries the pages of all leases that have a route, and reports what lenders do wrong.
    ///
    /// # Errors
    ///
    /// The kernel or the store refused the thread.
    pub fn start(
        store: &Arc<Store>,
        routes: &Arc<LeaseRoutes>,
        faults: &Arc<PageFaults>,
    ) -> Result<Courier, CourierError> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(CourierCounters::new(Arc::clone(faults)));
        let (ready, is_ready) = sync_channel(1);
        let in_thread = (Arc::clone(store), Arc::clone(routes));
        let (stop, count) = (Arc::clone(&is_stopped), Arc::clone(&counters));
        let body = move || {
            let (store, routes) = in_thread;
            // A worker stays in the thread that made it.
            let (worker, began) = match store.worker() {
                Ok(worker) => (Some(worker), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Whoever started it waits for this.
            let _ = ready.send(began);
            let mut carrying = worker.map(|worker| CarryLoop::new(worker, routes, count, stop));
            if let Some(Err(error)) = carrying.as_mut().map(CarryLoop::run) {
                tracing::error!(%error, "the thread that carries pages to lenders ended: no page goes there until the daemon restarts");
            }
        };
        let thread = thread::Builder::new()
            .name("courier".to_owned())
            .spawn(body)?;
        is_ready
            .recv()
            .map_err(|_| io::Error::other("the thread ended before it began"))??;
        Ok(Courier {
            is_stopped,
            counters,
            thread: Some(thread),
        })
    }

    /// What the courier has done.
    pub fn figures(&self) -> CourierFigures {
        self.counters.figures()
    }

    /// What the courier has done for one lender.
    pub fn figures_of(&self, lender: PeerId) -> CourierFigures {
        self.counters.of(lender).figures()
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}
