//! The loop: rings to tenancies and back. One thread accepts; each worker has one epoll and many rings, and
//! serves the listeners of all tenants.

mod connection;
mod door;
mod group;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use self::door::RingDoor;
pub use self::group::Group;
use self::worker::{Message, Worker};
use super::pages::Desk;
use crate::backend::Backend;
use crate::doors::{self, Acceptor, Bell, Endpoint};
pub use crate::doors::{ListenError, Listener};
pub use crate::serving::StartError;
use crate::serving::{Crew, RoundRobin, spawn};
use crate::tenancy::Doorman;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// Listens for rings at `path`. The file has `mode`; who may connect is checked besides.
///
/// # Errors
///
/// The path is taken, or the kernel refuses.
pub fn bind(path: &Path, mode: u32) -> Result<Listener, ListenError> {
    let path = path.to_owned();
    doors::bind_one(&Endpoint::Unix { path, mode }, BACKLOG)
}

/// A listener and whom it serves.
pub type Door = (Arc<Group>, Listener);

/// Hears that serving failed and cannot go on. Must not block.
pub type Failed = dyn Fn() + Send + Sync;

/// Threads that serve. Stop them: where this is only dropped the workers end, and the thread that accepts goes on until the
/// process ends.
pub struct Running {
    bell: Arc<Bell<RingDoor>>,
    acceptor: JoinHandle<()>,
    crew: Crew<Message>,
}

impl Running {
    /// Stops accepting, then serving; tells clients so. Returns when all threads have ended.
    pub fn stop(self) {
        self.bell.stop();
        let _ = self.acceptor.join();
        self.crew.end_by(|| Message::Stop);
    }
}

/// Serves all listeners with `threads` worker threads.
///
/// # Errors
///
/// The kernel or the store refuses a worker.
pub fn start(
    doors: Vec<Door>,
    threads: usize,
    backend: &Backend,
    failed: Arc<Failed>,
) -> Result<Running, StartError> {
    let backend = backend.clone();
    let doorman = move || {
        let Backend {
            store,
            clock,
            ledger,
        } = &backend;
        Ok(Doorman::new(store, *clock, ledger)?)
    };
    start_at(doors, threads, doorman, failed)
}

/// The same, where each worker makes a desk of its own.
pub(super) fn start_at<D: Desk + 'static>(
    doors: Vec<Door>,
    threads: usize,
    desk: impl Fn() -> Result<D, StartError> + Clone + Send + 'static,
    failed: Arc<Failed>,
) -> Result<Running, StartError> {
    let mut crew = Crew::new(|| Message::Stop);
    for n in 0..threads.max(1) {
        let (desk, failed) = (desk.clone(), Arc::clone(&failed));
        let make = move || Ok(Worker::new(desk()?)?);
        crew.start(&format!("ring-{n}"), make, move |error| {
            tracing::error!(%error, "serving rings failed");
            failed();
        })?;
    }
    let workers = Arc::new(RoundRobin::new(crew.mailboxes().to_vec()));
    let (mut acceptor, bell) = Acceptor::new()?;
    for (group, listener) in doors {
        acceptor.open(RingDoor {
            group,
            listener,
            workers: Arc::clone(&workers),
        })?;
    }
    let acceptor = spawn(
        "ring-accept",
        move || acceptor.run(),
        move |error| {
            tracing::error!(%error, "accepting ring connections failed");
            failed();
        },
    )?;
    Ok(Running {
        bell,
        acceptor,
        crew,
    })
}
