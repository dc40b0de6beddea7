//! The loop: sockets to sessions and back. One thread accepts; each worker has one epoll and many
//! connections, and serves the listeners of all tenants.

mod connection;
mod door;
mod endpoints;
mod group;
mod guesses;
mod ports;
mod seat;
mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;

use self::door::GroupDoor;
pub use self::endpoints::{EndpointsError, parse_endpoints};
pub use self::group::Group;
pub use self::ports::write_ports;
pub use self::worker::HELD_MAX;
use self::worker::{Message, Worker};
use crate::backend::Backend;
use crate::doors::{Acceptor, Bell};
pub use crate::doors::{Endpoint, ListenError, Listener, Tls, TlsError, Transport, bind};
pub use crate::serving::{Asked, StartError, Stop};
use crate::serving::{Crew, Mailbox, RoundRobin, Tenancies, spawn};
use crate::tenancy::Doorman;

/// Threads that serve. Stop them: where this is only dropped the workers end, and the thread that accepts goes on until the
/// process ends.
pub struct Running {
    bell: Arc<Bell<GroupDoor>>,
    acceptor: JoinHandle<()>,
    crew: Crew<Message>,
}

impl Running {
    /// Stops accepting, then serving; returns when all threads have ended.
    pub fn stop(self, stop: Stop) {
        self.bell.stop();
        let _ = self.acceptor.join();
        self.crew.end_by(|| Message::Stop(stop));
    }
}

/// Serves all groups' listeners with `threads` worker threads.
pub fn start(
    groups: Vec<(Group, Vec<Listener>)>,
    threads: usize,
    backend: &Backend,
    asked: Arc<Asked>,
) -> Result<Running, StartError> {
    let mut crew = Crew::new(|| Message::Stop(Stop::Now));
    for n in 0..threads.max(1) {
        let (backend, hears, failed) = (backend.clone(), Arc::clone(&asked), Arc::clone(&asked));
        let make = move || make_worker(&backend, hears);
        crew.start(&format!("serve-{n}"), make, move |error| {
            tracing::error!(%error, "serving connections failed");
            failed(Stop::Now);
        })?;
    }
    for (group, _) in &groups {
        let read = group.tls.as_ref().map_or(0, |tls| tls.read_unix());
        let figures = &group.instance.figures;
        figures.ssl_certs_read_unix.set(read);
    }
    let workers = Arc::new(RoundRobin::new(crew.mailboxes().to_vec()));
    let (mut acceptor, bell) = Acceptor::new()?;
    for (group, listeners) in groups {
        for door in GroupDoor::each(group, listeners, &workers, backend.clock) {
            acceptor.open(door)?;
        }
    }
    let acceptor = spawn(
        "accept",
        move || acceptor.run(),
        move |error| {
            tracing::error!(%error, "accepting connections failed");
            asked(Stop::Now);
        },
    )?;
    Ok(Running {
        bell,
        acceptor,
        crew,
    })
}

fn make_worker(
    backend: &Backend,
    asked: Arc<Asked>,
) -> Result<(Worker, Arc<Mailbox<Message>>), StartError> {
    let doorman = Doorman::new(&backend.store, backend.clock, &backend.ledger)?;
    let tenancies = Tenancies::new(move |tenant| doorman.open(tenant));
    Ok(Worker::new(tenancies, asked)?)
}
