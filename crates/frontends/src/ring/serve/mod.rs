//! The threads that carry requests between rings and tenancies. One thread accepts connections. Each worker has one
//! epoll and many rings, and serves the listeners of all tenants.

mod connection;
mod group;
mod listener;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use self::group::Group;
use self::listener::RingListener;
use self::worker::{Message, Worker};
use super::page_operations::TenancyFactory;
use crate::backend::Backend;
use crate::clock::MonotonicClock;
use crate::far_pages::FarPagesFactory;
use crate::listeners::{self, Acceptor, AcceptorHandle, Endpoint};
pub use crate::listeners::{ListenError, Listener};
pub use crate::serving::{OnFailure, StartError};
use crate::serving::{RoundRobin, WorkerThreads, spawn};
use crate::tenancy::StoreHandle;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 128;

/// Listens for rings at `path`. The socket file has `mode`. The daemon checks besides who may connect.
///
/// # Errors
///
/// The path is taken, or the kernel refuses.
pub fn bind(path: &Path, mode: u32) -> Result<Listener, ListenError> {
    let path = path.to_owned();
    listeners::bind_one(&Endpoint::Unix { path, mode }, BACKLOG)
}

/// A listener and its group.
pub type GroupListener = (Arc<Group>, Listener);

/// The threads that serve rings. Call [`stop`](RingService::stop) to end them. If you only drop the service, the
/// workers end, but the accepting thread goes on until the process ends.
pub struct RingService {
    acceptor_handle: Arc<AcceptorHandle<RingListener>>,
    acceptor: JoinHandle<()>,
    worker_threads: WorkerThreads<Message>,
}

impl RingService {
    /// Stops accepting, then serving, and tells clients so. Returns after all threads have ended.
    pub fn stop(self) {
        self.acceptor_handle.stop();
        let _ = self.acceptor.join();
        self.worker_threads.stop_and_join(|| Message::Stop);
    }
}

/// Serves all listeners with `threads` worker threads. Each fetches pages of lenders by what `far` makes.
///
/// # Errors
///
/// The kernel or the store refuses to make a worker.
pub fn start(
    listeners: Vec<GroupListener>,
    threads: usize,
    backend: &Backend,
    far: Option<FarPagesFactory>,
    failed: Arc<OnFailure>,
) -> Result<RingService, StartError> {
    let (backend, deadline_clock) = (backend.clone(), backend.clock.monotonic());
    let open_store = move || {
        let Backend {
            store,
            clock,
            ledger,
            ..
        } = &backend;
        let store_handle = StoreHandle::new(store, *clock, ledger)?;
        Ok(match &far {
            Some(far) => store_handle.with_far_pages(far()),
            None => store_handle,
        })
    };
    start_with(listeners, threads, open_store, &deadline_clock, failed)
}

/// The same, but each worker opens a factory of its own.
pub(super) fn start_with<D: TenancyFactory + 'static>(
    listeners: Vec<GroupListener>,
    threads: usize,
    open_factory: impl Fn() -> Result<D, StartError> + Clone + Send + 'static,
    clock: &MonotonicClock,
    failed: Arc<OnFailure>,
) -> Result<RingService, StartError> {
    let mut worker_threads = WorkerThreads::new(|| Message::Stop);
    for n in 0..threads.max(1) {
        let (open_factory, clock) = (open_factory.clone(), *clock);
        let failed = Arc::clone(&failed);
        let make = move || Ok(Worker::new(open_factory()?, clock)?);
        worker_threads.start(&format!("ring-{n}"), make, move |error| {
            tracing::error!(worker = n, %error, "a worker of page rings failed; the daemon ends in good order, and has to be started again");
            failed();
        })?;
    }
    let workers = Arc::new(RoundRobin::new(worker_threads.mailboxes().to_vec()));
    let (mut acceptor, acceptor_handle) = Acceptor::new(*clock)?;
    for (group, listener) in listeners {
        acceptor.add(RingListener {
            group,
            listener,
            workers: Arc::clone(&workers),
            clock: *clock,
        })?;
    }
    let acceptor = spawn(
        "ring-accept",
        move || acceptor.run(),
        move |error| {
            tracing::error!(%error, "no ring listener accepts connections any more; the daemon ends in good order, and has to be started again");
            failed();
        },
    )?;
    Ok(RingService {
        acceptor_handle,
        acceptor,
        worker_threads,
    })
}
