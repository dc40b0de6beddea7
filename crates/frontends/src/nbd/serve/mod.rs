//! The loop: sockets to sessions and back. One thread accepts; each worker has one epoll and many connections, and
//! serves the listeners of all disks.

mod connection;
mod door;
mod group;
mod letters;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use self::door::NbdDoor;
pub use self::group::Group;
use self::letters::{Message, Parting};
use self::worker::{PARTING_MAX, Worker};
use crate::backend::Backend;
use crate::doors::{Acceptor, Bell};
pub use crate::doors::{Endpoint, ListenError, Listener};
pub use crate::serving::StartError;
use crate::serving::{Crew, Mailbox, RoundRobin, spawn};
use crate::tenancy::Doorman;

/// Connections that wait to be accepted; the kernel lowers it to `net.core.somaxconn`. As memcached's: after a restart
/// all guests of a host come at once.
pub const BACKLOG: u32 = 1024;

/// What a busy worker may take longer than it should for seeing connections off.
const PARTING_SLACK: Duration = Duration::from_secs(5);

/// Hears that serving failed and cannot go on. Must not block.
pub type Failed = dyn Fn() + Send + Sync;

/// Threads that serve. Stop them: where this is only dropped the workers end, and the thread that accepts goes on until the
/// process ends.
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
