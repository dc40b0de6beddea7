//! Serves a disk to VMMs. One thread listens and talks to the one connected VMM. Each queue has a thread of its own.
//! The queues' threads stay while VMMs come and go.

mod listener;
mod messages;
mod socket;
mod vmm;
mod worker;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vhost::vhost_user::{BackendReqHandler, Error};

use self::listener::VmmListener;
use self::messages::Message;
use self::socket::DiskSocket;
pub use self::socket::Settings;
use self::vmm::VmmConnection;
use self::worker::Worker;
use super::metrics::VhostUserFigures;
use super::wire::device::WriteCache;
use crate::backend::Backend;
use crate::block_device::Disk;
use crate::serving::{Mailbox, StartError, WorkerThreads, spawn};
use crate::tenancy::StoreHandle;

/// How long the listener pauses when the process has no descriptor left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// The threads that serve a disk. Call [`stop`](VhostUserService::stop) to end them. Otherwise the listening thread
/// goes on until the process ends.
pub struct VhostUserService {
    listener: Arc<VmmListener>,
    figures: Arc<VhostUserFigures>,
    accept_thread: JoinHandle<()>,
    queues: WorkerThreads<Message>,
}

impl VhostUserService {
    /// The disk's figures.
    pub fn figures(&self) -> &Arc<VhostUserFigures> {
        &self.figures
    }

    /// The path of the socket file.
    pub fn path(&self) -> &Path {
        self.listener.path()
    }

    /// Stops serving. Unanswered requests stay unanswered, for the next daemon that serves the VMM. Returns after the
    /// disk has given back all its requests and all threads have ended. The socket file is gone then.
    pub fn stop(self) {
        self.listener.shut();
        let _ = self.accept_thread.join();
        self.queues.stop_and_join(|| Message::Stop);
    }
}

/// Serves a disk at a socket whose file has `mode`. It serves one VMM at a time, and the next one when that has gone.
/// It replaces a socket file that nobody listens at.
///
/// # Errors
///
/// The settings are out of range, the path is taken, or the kernel or the store refuses a thread.
pub fn start(
    disk: Arc<dyn Disk>,
    path: &Path,
    mode: u32,
    backend: &Backend,
    settings: Settings,
) -> io::Result<VhostUserService> {
    settings.check()?;
    let clock = backend.clock.monotonic();
    let listener = Arc::new(VmmListener::open(path, mode, clock)?);
    let figures = Arc::<VhostUserFigures>::default();
    let socket = Arc::new(DiskSocket {
        disk,
        settings,
        figures: Arc::clone(&figures),
        write_cache: WriteCache::default(),
    });
    let queues = start_queues(&socket, backend).map_err(|error| match error {
        StartError::Kernel(error) => error,
        error => io::Error::other(error),
    })?;
    let (for_thread, mailboxes) = (Arc::clone(&listener), queues.mailboxes().to_vec());
    let accept_all = move || {
        accept_vmms(&for_thread, &socket, &mailboxes);
        Ok(())
    };
    let accept_thread = spawn("vhost", accept_all, |_| {})?;
    Ok(VhostUserService {
        listener,
        figures,
        accept_thread,
        queues,
    })
}

/// Starts one thread per queue.
fn start_queues(
    socket: &Arc<DiskSocket>,
    backend: &Backend,
) -> Result<WorkerThreads<Message>, StartError> {
    let mut worker_threads = WorkerThreads::new(|| Message::Stop);
    for n in 0..socket.settings.queues {
        let (worker_socket, backend, served) =
            (Arc::clone(socket), backend.clone(), Arc::clone(socket));
        let make = move || make_worker(&worker_socket, &backend);
        worker_threads.start(&format!("vhost-{n}"), make, move |error| {
            tracing::error!(disk = served.disk.name(), queue = n, %error, "the thread of a guest's queue failed; nothing answers that queue's requests until the daemon is restarted");
        })?;
    }
    Ok(worker_threads)
}

fn make_worker(
    socket: &Arc<DiskSocket>,
    backend: &Backend,
) -> Result<(Worker, Arc<Mailbox<Message>>), StartError> {
    let store = StoreHandle::new(&backend.store, backend.clock, &backend.ledger)?;
    let fast_path = Arc::clone(&socket.disk).fast_path(&store);
    let clock = backend.clock.monotonic();
    Ok(Worker::new(Arc::clone(socket), fast_path, clock)?)
}

/// Serves one VMM after the other until the listener is shut.
fn accept_vmms(
    listener: &VmmListener,
    socket: &Arc<DiskSocket>,
    mailboxes: &[Arc<Mailbox<Message>>],
) {
    while !listener.is_shut() {
        match listener.accept() {
            Ok(stream) => match listener.wait_first_message(&stream, socket.settings.silence_max) {
                Ok(()) => log_end(socket, &serve(stream, socket, mailboxes)),
                Err(error) => {
                    tracing::debug!(disk = socket.disk.name(), %error, silence_max = ?socket.settings.silence_max, "the daemon disconnected a VMM before its first message and waits for the next")
                }
            },
            Err(_) if listener.is_shut() => return,
            Err(error) => {
                tracing::warn!(disk = socket.disk.name(), %error, again_in = ?PAUSE, "the daemon cannot accept a VMM and tries again; raise `ulimit -n` (LimitNOFILE=) if no file descriptor is left");
                thread::sleep(PAUSE);
            }
        }
        listener.disconnect();
    }
}

fn log_end(socket: &DiskSocket, end: &Error) {
    let disk = socket.disk.name();
    match end {
        Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_) => {
            tracing::info!(disk, "the VMM disconnected; the daemon waits for the next");
        }
        error => {
            tracing::warn!(disk, %error, "the daemon refused a message of the VMM and disconnected it; the next VMM may connect")
        }
    }
}

/// Serves a VMM, and returns how its connection ended. The disk has given back all its requests then.
fn serve(
    stream: UnixStream,
    socket: &Arc<DiskSocket>,
    mailboxes: &[Arc<Mailbox<Message>>],
) -> Error {
    let figures = &socket.figures;
    figures.connections_made.bump();
    figures.connections.bump();
    let vmm = Arc::new(Mutex::new(VmmConnection::new(
        Arc::clone(socket),
        mailboxes,
    )));
    let mut requests = BackendReqHandler::from_stream(stream, Arc::clone(&vmm));
    let end = loop {
        match requests.handle_request() {
            Ok(()) | Err(Error::SocketRetry(_)) => {}
            Err(error) => break error,
        }
    };
    drop(requests);
    if let Ok(mut vmm) = vmm.lock() {
        vmm.stop_queues();
    }
    figures.connections.decrement();
    end
}
