//! Serving a disk to VMMs: a thread that listens and talks to the one VMM that is connected, and a thread for each queue.
//! The queues' threads stay while VMMs come and go.

mod letters;
mod listen;
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

use self::letters::Message;
use self::listen::Door;
pub use self::socket::Settings;
use self::socket::Socket;
use self::vmm::Vmm;
use self::worker::Worker;
use super::metrics::Figures;
use super::wire::device::Caching;
use crate::backend::Backend;
use crate::block::Disk;
use crate::serving::{Crew, Mailbox, StartError, spawn};
use crate::tenancy::Doorman;

/// How long accepting stops when the process has no descriptor left for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Threads that serve a disk. Stop them, or the one that listens goes on until the process ends.
pub struct Running {
    door: Arc<Door>,
    figures: Arc<Figures>,
    listening: JoinHandle<()>,
    queues: Crew<Message>,
}

impl Running {
    /// What was counted.
    pub fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// The socket's file.
    pub fn path(&self) -> &Path {
        self.door.path()
    }

    /// Stops serving. Requests that are unanswered stay so, for whoever serves the VMM next. Returns when the disk has given
    /// back all its requests and all threads have ended; the socket's file is gone then.
    pub fn stop(self) {
        self.door.shut();
        let _ = self.listening.join();
        self.queues.end_by(|| Message::Stop);
    }
}

/// Serves a disk at a socket whose file has `mode`: to one VMM at a time, and to the next when that has gone. A socket file
/// that nobody listens at makes way.
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
) -> io::Result<Running> {
    settings.check()?;
    let door = Arc::new(Door::open(path, mode)?);
    let figures = Arc::<Figures>::default();
    let socket = Arc::new(Socket {
        disk,
        settings,
        figures: Arc::clone(&figures),
        caching: Caching::default(),
    });
    let queues = start_queues(&socket, backend).map_err(|error| match error {
        StartError::Kernel(error) => error,
        error => io::Error::other(error),
    })?;
    let (at, mailboxes) = (Arc::clone(&door), queues.mailboxes().to_vec());
    let listening = move || {
        listen(&at, &socket, &mailboxes);
        Ok(())
    };
    let listening = spawn("vhost", listening, |_| {})?;
    Ok(Running {
        door,
        figures,
        listening,
        queues,
    })
}

/// A thread for each queue.
fn start_queues(socket: &Arc<Socket>, backend: &Backend) -> Result<Crew<Message>, StartError> {
    let mut crew = Crew::new(|| Message::Stop);
    for n in 0..socket.settings.queues {
        let (made_for, backend, served) = (Arc::clone(socket), backend.clone(), Arc::clone(socket));
        let make = move || make_worker(&made_for, &backend);
        crew.start(&format!("vhost-{n}"), make, move |error| {
            tracing::error!(disk = served.disk.name(), %error, "serving a guest's queue failed");
        })?;
    }
    Ok(crew)
}

fn make_worker(
    socket: &Arc<Socket>,
    backend: &Backend,
) -> Result<(Worker, Arc<Mailbox<Message>>), StartError> {
    let doorman = Doorman::new(&backend.store, backend.clock, &backend.ledger)?;
    let desk = Arc::clone(&socket.disk).desk(&doorman);
    Ok(Worker::new(Arc::clone(socket), desk)?)
}

/// Serves one VMM after the other until the door is shut.
fn listen(door: &Door, socket: &Arc<Socket>, mailboxes: &[Arc<Mailbox<Message>>]) {
    while !door.is_shut() {
        match door.accept() {
            Ok(stream) => match door.hears(&stream, socket.settings.silence_max) {
                Ok(()) => tell(socket, &serve(stream, socket, mailboxes)),
                Err(error) => tracing::debug!(disk = socket.disk.name(), %error, "a VMM left"),
            },
            Err(_) if door.is_shut() => return,
            Err(error) => {
                tracing::warn!(disk = socket.disk.name(), %error, "accepting a VMM failed");
                thread::sleep(PAUSE);
            }
        }
        door.dismiss();
    }
}

fn tell(socket: &Socket, end: &Error) {
    let disk = socket.disk.name();
    match end {
        Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_) => {
            tracing::info!(disk, "the VMM has gone");
        }
        error => tracing::warn!(disk, %error, "the VMM is turned away"),
    }
}

/// Serves a VMM; says how it ended. The disk has given back all its requests then.
fn serve(stream: UnixStream, socket: &Arc<Socket>, mailboxes: &[Arc<Mailbox<Message>>]) -> Error {
    let figures = &socket.figures;
    figures.connections_made.bump();
    figures.connections.bump();
    let vmm = Arc::new(Mutex::new(Vmm::new(Arc::clone(socket), mailboxes)));
    let mut requests = BackendReqHandler::from_stream(stream, Arc::clone(&vmm));
    let end = loop {
        match requests.handle_request() {
            Ok(()) | Err(Error::SocketRetry(_)) => {}
            Err(error) => break error,
        }
    };
    drop(requests);
    if let Ok(mut vmm) = vmm.lock() {
        vmm.leave();
    }
    figures.connections.drop_one();
    end
}
