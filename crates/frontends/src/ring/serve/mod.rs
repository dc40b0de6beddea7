//! The loop: rings to tenancies and back. One thread accepts; each worker has one epoll and many rings, and
//! serves the listeners of all tenants.

mod connection;
mod door;
mod worker;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use sublet_store::TooManyWorkers;
use sublet_types::TenantId;

use self::door::RingDoor;
use self::worker::{Message, Post, Worker};
use super::metrics::Figures;
use super::pages::Desk;
use super::{Names, Restored, Settings};
use crate::backend::Backend;
use crate::doors::{self, Acceptor, Bell, Endpoint, Lobby, Rota, WhenFull};
pub use crate::doors::{ListenError, Listener};
use crate::tenancy::Doorman;

/// A listener's tenant, and what its connections share.
#[derive(Debug)]
pub struct Group {
    /// For whom they act.
    pub tenant: TenantId,
    /// What they are granted.
    pub settings: Settings,
    /// What they count.
    pub figures: Figures,
    /// The shared pools that they have joined.
    pub names: Names,
    /// Pools from a save file that wait for their program.
    pub restored: Restored,
    lobby: Arc<Lobby>,
}

impl Group {
    /// Connections that act for `tenant`, none yet.
    pub fn new(tenant: TenantId, settings: Settings) -> Group {
        Group {
            lobby: Lobby::new(
                settings.connections_max as usize,
                settings.silence_max,
                WhenFull::Waits,
            ),
            tenant,
            settings,
            figures: Figures::default(),
            names: Names::default(),
            restored: Restored::default(),
        }
    }
}

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

/// Why serving could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel refused a thread or an epoll.
    #[error("cannot start the threads that serve rings: {0}")]
    Kernel(#[from] io::Error),
    /// More workers than the store takes.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

/// Threads that serve. Stop them, or they go on until the process ends.
pub struct Running {
    bell: Arc<Bell<RingDoor>>,
    workers: Arc<Rota<Post>>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Stops accepting, then serving; tells clients so. Returns when all threads have ended.
    pub fn stop(self) {
        self.bell.stop();
        for worker in self.workers.all() {
            worker.send(Message::Stop);
        }
        for thread in self.threads {
            let _ = thread.join();
        }
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
    let mut running = Vec::new();
    let mut workers = Vec::new();
    for n in 0..threads.max(1) {
        let (post, thread) = start_worker(n, desk.clone(), Arc::clone(&failed))?;
        workers.push(post);
        running.push(thread);
    }
    let workers = Arc::new(Rota::new(workers));
    let (mut acceptor, bell) = Acceptor::new()?;
    for (group, listener) in doors {
        acceptor.open(RingDoor {
            group,
            listener,
            workers: Arc::clone(&workers),
        })?;
    }
    running.push(spawn("ring-accept".to_owned(), move || {
        if let Err(error) = acceptor.run() {
            tracing::error!(%error, "accepting ring connections failed");
            failed();
        }
    })?);
    Ok(Running {
        bell,
        workers,
        threads: running,
    })
}

/// A worker belongs to its thread, so it is made there.
fn start_worker<D: Desk + 'static>(
    n: usize,
    desk: impl FnOnce() -> Result<D, StartError> + Send + 'static,
    failed: Arc<Failed>,
) -> Result<(Arc<Post>, JoinHandle<()>), StartError> {
    let (ready, made) = mpsc::channel();
    let thread = spawn(format!("ring-{n}"), move || {
        let worker = desk().and_then(|desk| Ok(Worker::new(desk)?));
        let (mut worker, made) = match worker {
            Ok((worker, post)) => (Some(worker), Ok(post)),
            Err(error) => (None, Err(error)),
        };
        let _ = ready.send(made);
        if let Some(Err(error)) = worker.as_mut().map(Worker::run) {
            tracing::error!(%error, "serving rings failed");
            failed();
        }
    })?;
    let post = made.recv().map_err(io::Error::other)??;
    Ok((post, thread))
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(body)
}
