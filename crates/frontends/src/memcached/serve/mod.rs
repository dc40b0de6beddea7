//! The loop: sockets to sessions and back. One thread accepts; each worker has one epoll and many
//! connections, and serves the listeners of all tenants.

mod buffers;
mod connection;
mod door;
mod end;
mod endpoints;
mod floor;
mod group;
mod guesses;
mod ports;
mod seat;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use sublet_store::TooManyWorkers;

use self::door::GroupDoor;
pub use self::end::{Asked, Stop};
pub use self::endpoints::{EndpointsError, parse_endpoints};
use self::floor::Floor;
pub use self::group::Group;
pub use self::ports::write_ports;
pub use self::worker::HELD_MAX;
use self::worker::{Message, Post, Worker};
use crate::backend::Backend;
use crate::doors::{Acceptor, Bell, Rota};
pub use crate::doors::{Endpoint, ListenError, Listener, Tls, TlsError, Transport, bind};
use crate::tenancy::Doorman;

/// Why serving could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel refused a thread or an epoll.
    #[error("cannot start the threads that serve: {0}")]
    Kernel(#[from] io::Error),
    /// More workers than the store takes.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

/// Threads that serve. Stop them, or they go on until the process ends.
pub struct Running {
    bell: Arc<Bell<GroupDoor>>,
    workers: Arc<Rota<Post>>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Stops accepting, then serving; returns when all threads have ended.
    pub fn stop(self, stop: Stop) {
        self.bell.stop();
        for worker in self.workers.all() {
            worker.send(Message::Stop(stop));
        }
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Serves all groups' listeners with `threads` worker threads.
pub fn start(
    groups: Vec<(Group, Vec<Listener>)>,
    threads: usize,
    backend: &Backend,
    asked: Arc<Asked>,
) -> Result<Running, StartError> {
    let mut running = Vec::new();
    let mut workers = Vec::new();
    for n in 0..threads.max(1) {
        let (post, thread) = start_worker(n, backend.clone(), Arc::clone(&asked))?;
        workers.push(post);
        running.push(thread);
    }
    for (group, _) in &groups {
        let read = group.tls.as_ref().map_or(0, |tls| tls.read_unix());
        let figures = &group.instance.figures;
        figures.ssl_certs_read_unix.store(read, Ordering::Relaxed);
    }
    let workers = Arc::new(Rota::new(workers));
    let (mut acceptor, bell) = Acceptor::new()?;
    for (group, listeners) in groups {
        for door in GroupDoor::each(group, listeners, &workers, backend.clock) {
            acceptor.open(door)?;
        }
    }
    running.push(spawn("accept".to_owned(), move || {
        if let Err(error) = acceptor.run() {
            tracing::error!(%error, "accepting connections failed");
            asked(Stop::Now);
        }
    })?);
    Ok(Running {
        bell,
        workers,
        threads: running,
    })
}

/// A worker belongs to its thread, so it is made there.
fn start_worker(
    n: usize,
    backend: Backend,
    asked: Arc<Asked>,
) -> Result<(Arc<Post>, JoinHandle<()>), StartError> {
    let (ready, made) = mpsc::channel();
    let thread = spawn(format!("serve-{n}"), move || {
        let worker = make_worker(&backend, Arc::clone(&asked));
        let (mut worker, made) = match worker {
            Ok((worker, post)) => (Some(worker), Ok(post)),
            Err(error) => (None, Err(error)),
        };
        let _ = ready.send(made);
        if let Some(Err(error)) = worker.as_mut().map(Worker::run) {
            tracing::error!(%error, "serving connections failed");
            asked(Stop::Now);
        }
    })?;
    let post = made.recv().map_err(io::Error::other)??;
    Ok((post, thread))
}

fn make_worker(backend: &Backend, asked: Arc<Asked>) -> Result<(Worker, Arc<Post>), StartError> {
    let doorman = Doorman::new(&backend.store, backend.clock, &backend.ledger)?;
    Ok(Worker::new(Floor::new(doorman), asked)?)
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(body)
}
