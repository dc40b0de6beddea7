//! The threads that carry bytes between sockets and sessions. One thread accepts connections. Each worker has one epoll
//! and many connections, and serves the listeners of all disks.

mod connection;
mod group;
mod listener;
mod messages;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

pub use self::group::Group;
use self::listener::NbdListener;
use self::messages::{Message, ShutdownScope};
use self::worker::{SHUTDOWN_TIME_MAX, Worker};
use crate::backend::Backend;
use crate::clock::MonotonicClock;
use crate::listeners::{Acceptor, AcceptorHandle};
pub use crate::listeners::{Endpoint, ListenError, Listener};
use crate::serving::{Mailbox, RoundRobin, WorkerThreads, spawn};
pub use crate::serving::{OnFailure, StartError};
use crate::tenancy::StoreHandle;

/// How many connections may wait to be accepted. The kernel lowers it to `net.core.somaxconn`. It is as large as
/// memcached's, because after a restart all guests of a host connect at once.
pub const BACKLOG: u32 = 1024;

/// How much longer than [`SHUTDOWN_TIME_MAX`] a busy worker may take to close connections.
const SHUTDOWN_SLACK: Duration = Duration::from_secs(5);

/// The threads that serve NBD. Call [`stop`](NbdService::stop) to end them. If you only drop the service, the workers
/// end, but the accepting thread goes on until the process ends.
pub struct NbdService {
    acceptor_handle: Arc<AcceptorHandle<NbdListener>>,
    workers: Arc<RoundRobin<Message>>,
    acceptor: JoinHandle<()>,
    worker_threads: WorkerThreads<Message>,
    listeners: Mutex<Vec<(String, Arc<Group>)>>,
    clock: MonotonicClock,
}

impl NbdService {
    /// Serves one more listener.
    ///
    /// # Errors
    ///
    /// The kernel refuses to watch the listener.
    pub fn add(&self, listener: Listener, group: Arc<Group>) -> io::Result<()> {
        let address = listener.address().to_owned();
        self.acceptor_handle.add(NbdListener {
            listener,
            group: Arc::clone(&group),
            workers: Arc::clone(&self.workers),
            clock: self.clock,
        })?;
        self.listeners.lock().push((address, group));
        Ok(())
    }

    /// Closes the listener of that address and its connections. Each connection first finishes what is under way,
    /// within a few seconds. Returns after everything is closed, and says whether there was such a listener.
    pub fn close(&self, address: &str) -> bool {
        let mut open = self.listeners.lock();
        let Some(place) = open.iter().position(|(known, _)| known == address) else {
            return false;
        };
        let (_, group) = open.swap_remove(place);
        drop(open);
        let shut = self.acceptor_handle.remove(address);
        shut_down_connections(&self.workers, || ShutdownScope::Group(Arc::clone(&group)));
        shut
    }

    /// Removes a disk from all listeners and closes its connections. Each connection first finishes what is under way,
    /// within a few seconds. When this returns, no worker uses the disk any more.
    pub fn remove_disk(&self, name: &str) {
        for (_, group) in self.listeners.lock().iter() {
            group.exports.remove(name);
        }
        shut_down_connections(&self.workers, || ShutdownScope::Disk(name.to_owned()));
    }

    /// Stops accepting, then serving. Each connection first finishes what is under way, within a few seconds. Returns
    /// after all threads have ended.
    pub fn stop(self) {
        self.acceptor_handle.stop();
        let _ = self.acceptor.join();
        self.worker_threads.stop_and_join(shutdown_message);
    }
}

/// Closes connections, and returns after they are closed.
fn shut_down_connections(workers: &RoundRobin<Message>, scope: impl Fn() -> ShutdownScope) {
    let (gone, all_gone) = mpsc::channel();
    for mailbox in workers.all() {
        mailbox.send(Message::Shutdown(scope(), gone.clone()));
    }
    drop(gone);
    // Nobody ever sends on this channel. Each worker drops its sender when it is done.
    let _ = all_gone.recv_timeout(SHUTDOWN_TIME_MAX + SHUTDOWN_SLACK);
}

/// Starts `threads` worker threads, which serve no listener yet.
///
/// # Errors
///
/// The kernel or the store refuses to make a worker.
pub fn start(
    threads: usize,
    backend: &Backend,
    failed: Arc<OnFailure>,
) -> Result<NbdService, StartError> {
    let (mut acceptor, acceptor_handle) = Acceptor::new(backend.clock.monotonic())?;
    let mut worker_threads = WorkerThreads::new(shutdown_message);
    for n in 0..threads.max(1) {
        let (backend, failed) = (backend.clone(), Arc::clone(&failed));
        let make = move || make_worker(&backend);
        worker_threads.start(&format!("nbd-{n}"), make, move |error| {
            tracing::error!(worker = n, %error, "an NBD worker failed; the daemon ends in good order, and has to be started again");
            failed();
        })?;
    }
    let acceptor = spawn(
        "nbd-accept",
        move || acceptor.run(),
        move |error| {
            tracing::error!(%error, "no NBD listener accepts connections any more; the daemon ends in good order, and has to be started again");
            failed();
        },
    )?;
    Ok(NbdService {
        acceptor_handle,
        acceptor,
        workers: Arc::new(RoundRobin::new(worker_threads.mailboxes().to_vec())),
        worker_threads,
        listeners: Mutex::default(),
        clock: backend.clock.monotonic(),
    })
}

/// The message that ends a worker.
fn shutdown_message() -> Message {
    let (gone, _) = mpsc::channel();
    Message::Shutdown(ShutdownScope::All, gone)
}

fn make_worker(backend: &Backend) -> Result<(Worker, Arc<Mailbox<Message>>), StartError> {
    let store = StoreHandle::new(&backend.store, backend.clock, &backend.ledger)?;
    Ok(Worker::new(store, backend.clock.monotonic())?)
}
