//! The loop: sockets to sessions and back. One thread accepts; each worker has one epoll and many connections, and
//! serves the listeners of all disks.

mod connection;
mod letters;
mod worker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::SocketAddrAny;

use self::letters::{Message, Newcomer, Parting};
use self::worker::{PARTING_MAX, Worker};
use super::metrics::Figures;
use super::{Exports, Settings};
use crate::backend::Backend;
use crate::doors::{Acceptor, Bell, Door, Lobby, Tls, WhenFull};
pub use crate::doors::{Endpoint, ListenError, Listener};
pub use crate::serving::StartError;
use crate::serving::{Admissions, Admits, Crew, Mailbox, Permit, RoundRobin, spawn};
use crate::tenancy::Doorman;

/// Connections that wait to be accepted; the kernel lowers it to `net.core.somaxconn`. As memcached's: after a restart
/// all guests of a host come at once.
pub const BACKLOG: u32 = 1024;

/// What a busy worker may take longer than it should for seeing connections off.
const PARTING_SLACK: Duration = Duration::from_secs(5);

/// A listener's disks, and what its connections share.
pub struct Group {
    /// What may be asked for.
    pub exports: Arc<Exports>,
    /// What its connections are granted.
    pub settings: Settings,
    /// Where there is some, nothing is told without it.
    pub tls: Option<Arc<Tls>>,
    /// What they count.
    pub figures: Figures,
    lobby: Arc<Lobby>,
}

impl Group {
    /// Connections to these disks, none yet.
    pub fn new(exports: Arc<Exports>, settings: Settings, tls: Option<Arc<Tls>>) -> Group {
        Group {
            lobby: Lobby::new(
                settings.connections_max as usize,
                settings.silence_max,
                WhenFull::Waits,
            ),
            exports,
            settings,
            tls,
            figures: Figures::default(),
        }
    }
}

impl Admits for Group {
    fn lobby(&self) -> &Arc<Lobby> {
        &self.lobby
    }

    fn admissions(&self) -> Admissions<'_> {
        Admissions {
            open: &self.figures.connections,
            made: &self.figures.connections_made,
            refused: &self.figures.refused_full,
            gave_way: Some(&self.figures.ended_late),
        }
    }
}

/// Hears that serving failed and cannot go on. Must not block.
pub type Failed = dyn Fn() + Send + Sync;

/// A listener, whom it serves, and the workers behind it.
struct NbdDoor {
    listener: Listener,
    group: Arc<Group>,
    workers: Arc<RoundRobin<Message>>,
}

impl Door for NbdDoor {
    fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Who finds no seat, nor anybody who gives way, is hung up on: before a greeting there is nothing that it could be told by.
    fn welcome(&mut self, socket: OwnedFd, _from: Option<SocketAddrAny>) {
        let socket = Arc::new(socket);
        if let Some(permit) = Permit::take(&self.group, &socket) {
            let newcomer = Newcomer { socket, permit };
            self.workers.next().send(Message::Newcomer(newcomer));
        }
    }

    fn is_full_for_now(&self, now: Instant) -> bool {
        self.group.lobby.is_full_for_now(now)
    }
}

/// Threads that serve. Stop them, or they go on until the process ends.
pub struct Running {
    bell: Arc<Bell<NbdDoor>>,
    workers: Arc<RoundRobin<Message>>,
    acceptor: JoinHandle<()>,
    crew: Crew<Message>,
    open: Mutex<Vec<(String, Arc<Group>)>>,
}

impl Running {
    /// Serves one more listener.
    ///
    /// # Errors
    ///
    /// The kernel does not let it be waited for.
    pub fn add(&self, listener: Listener, group: Arc<Group>) -> io::Result<()> {
        let address = listener.address().to_owned();
        self.bell.open(NbdDoor {
            listener,
            group: Arc::clone(&group),
            workers: Arc::clone(&self.workers),
        })?;
        self.open.lock().push((address, group));
        Ok(())
    }

    /// Closes the listener of that address, and its connections once what is under way is answered, within a few
    /// seconds. Says whether there was one. Returns when all that is done.
    pub fn close(&self, address: &str) -> bool {
        let mut open = self.open.lock();
        let Some(place) = open.iter().position(|(known, _)| known == address) else {
            return false;
        };
        let (_, group) = open.swap_remove(place);
        drop(open);
        let shut = self.bell.shut(address);
        part(&self.workers, || Parting::Group(Arc::clone(&group)));
        shut
    }

    /// Takes a disk off all listeners, and closes its connections once what is under way is answered, within a few
    /// seconds. Returns when all that is done: no worker uses the disk any more then.
    pub fn remove_disk(&self, name: &str) {
        for (_, group) in self.open.lock().iter() {
            group.exports.remove(name);
        }
        part(&self.workers, || Parting::Disk(name.to_owned()));
    }

    /// Stops accepting, then serving, once what is under way is answered, within a few seconds. Returns when all
    /// threads have ended.
    pub fn stop(self) {
        self.bell.stop();
        let _ = self.acceptor.join();
        self.crew.end_by(end);
    }
}

/// Ends connections, and returns when they are gone.
fn part(workers: &RoundRobin<Message>, whose: impl Fn() -> Parting) {
    let (gone, all_gone) = mpsc::channel();
    for mailbox in workers.all() {
        mailbox.send(Message::Part(whose(), gone.clone()));
    }
    drop(gone);
    // Nothing is ever sent: each worker lets go of its end when it is done.
    let _ = all_gone.recv_timeout(PARTING_MAX + PARTING_SLACK);
}

/// Starts `threads` worker threads, which serve nothing yet.
///
/// # Errors
///
/// The kernel or the store refuses a worker.
pub fn start(
    threads: usize,
    backend: &Backend,
    failed: Arc<Failed>,
) -> Result<Running, StartError> {
    let (mut acceptor, bell) = Acceptor::new()?;
    let mut crew = Crew::new(end);
    for n in 0..threads.max(1) {
        let (backend, failed) = (backend.clone(), Arc::clone(&failed));
        let make = move || make_worker(&backend);
        crew.start(&format!("nbd-{n}"), make, move |error| {
            tracing::error!(%error, "serving NBD failed");
            failed();
        })?;
    }
    let acceptor = spawn(
        "nbd-accept",
        move || acceptor.run(),
        move |error| {
            tracing::error!(%error, "accepting NBD connections failed");
            failed();
        },
    )?;
    Ok(Running {
        bell,
        acceptor,
        workers: Arc::new(RoundRobin::new(crew.mailboxes().to_vec())),
        crew,
        open: Mutex::default(),
    })
}

/// The letter by which a worker ends.
fn end() -> Message {
    let (gone, _) = mpsc::channel();
    Message::Part(Parting::All, gone)
}

fn make_worker(backend: &Backend) -> Result<(Worker, Arc<Mailbox<Message>>), StartError> {
    let doorman = Doorman::new(&backend.store, backend.clock, &backend.ledger)?;
    Ok(Worker::new(doorman)?)
}
