//! The threads that move bytes between sockets and sessions.
//!
//! One thread accepts. Each worker has one epoll and many connections, and serves the listeners of all tenants.

mod admitted_peer;
mod connection;
mod endpoints;
mod group;
mod listener;
mod ports;
mod speculative_reads;
mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;

pub use self::endpoints::{EndpointsError, parse_endpoints};
pub use self::group::Group;
use self::listener::MemcachedListener;
pub use self::ports::write_ports;
pub use self::worker::HELD_MAX;
use self::worker::{Message, Worker};
use crate::backend::Backend;
use crate::listeners::{Acceptor, AcceptorHandle};
pub use crate::listeners::{
    Endpoint, ListenError, Listener, TlsCertificates, TlsError, Transport, bind,
};
use crate::serving::{Mailbox, RoundRobin, Tenancies, WorkerThreads, spawn};
pub use crate::serving::{OnShutdown, StartError, StopMode};
use crate::tenancy::StoreHandle;

/// The threads that serve memcached. Call [`stop`](MemcachedService::stop) on it. If it is only dropped, the workers
/// end, but the accepting thread goes on until the process ends.
pub struct MemcachedService {
    acceptor_handle: Arc<AcceptorHandle<MemcachedListener>>,
    acceptor: JoinHandle<()>,
    workers: WorkerThreads<Message>,
}

impl MemcachedService {
    /// Stops accepting, then serving. Returns when all threads have ended.
    pub fn stop(self, stop: StopMode) {
        self.acceptor_handle.stop();
        let _ = self.acceptor.join();
        self.workers.stop_and_join(|| Message::Stop(stop));
    }
}

/// Serves the listeners of all groups with `threads` worker threads.
pub fn start(
    groups: Vec<(Group, Vec<Listener>)>,
    threads: usize,
    backend: &Backend,
    on_shutdown: Arc<OnShutdown>,
) -> Result<MemcachedService, StartError> {
    let mut worker_threads = WorkerThreads::new(|| Message::Stop(StopMode::Now));
    for n in 0..threads.max(1) {
        let (backend, on_stop, failed) = (
            backend.clone(),
            Arc::clone(&on_shutdown),
            Arc::clone(&on_shutdown),
        );
        let make = move || make_worker(&backend, on_stop);
        worker_threads.start(&format!("serve-{n}"), make, move |error| {
            tracing::error!(worker = n, %error, "a memcached worker failed; the process shuts down and has to be started again");
            failed(StopMode::Now);
        })?;
    }
    for (group, _) in &groups {
        let read = group.tls.as_ref().map_or(0, |tls| tls.read_unix());
        let figures = &group.instance.figures;
        figures.ssl_certs_read_unix.set(read);
    }
    let workers = Arc::new(RoundRobin::new(worker_threads.mailboxes().to_vec()));
    let (mut acceptor, acceptor_handle) = Acceptor::new(backend.clock.monotonic())?;
    for (group, listeners) in groups {
        for listener in MemcachedListener::for_listeners(group, listeners, &workers, backend) {
            acceptor.add(listener)?;
        }
    }
    let acceptor = spawn(
        "accept",
        move || acceptor.run(),
        move |error| {
            tracing::error!(%error, "no memcached listener accepts connections any more; the process shuts down and has to be started again");
            on_shutdown(StopMode::Now);
        },
    )?;
    Ok(MemcachedService {
        acceptor_handle,
        acceptor,
        workers: worker_threads,
    })
}

fn make_worker(
    backend: &Backend,
    on_shutdown: Arc<OnShutdown>,
) -> Result<(Worker, Arc<Mailbox<Message>>), StartError> {
    let store_handle = StoreHandle::new(&backend.store, backend.clock, &backend.ledger)?;
    let tenancies = Tenancies::new(move |tenant| store_handle.open(tenant));
    let clock = backend.clock.monotonic();
    Ok(Worker::new(tenancies, on_shutdown, clock)?)
}
