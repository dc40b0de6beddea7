//! Starts and ends the threads of the page server.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use parking_lot::Mutex;
use sublet_frontends::tenancy::Clock;
use sublet_lend::ids::{PeerId, SessionId};
use sublet_store::{Store, TooManyWorkers};

use super::control_queries::{AdmitConnections, FindLentBlocks};
use super::inbox::{ThreadInbox, ThreadMessage};
use super::page_service::PageService;
use super::server_figures::{PageServerFigures, ServedPages, ServerCounters};
use super::serving_budget::{CpuShare, ServingBudget, ServingRate};
use super::serving_thread::{INBOX, ServingThread, SharedService};
use crate::peers::page_faults::{FaultParty, PageFault};

/// The most threads of a page server (`lend.threads`).
pub const PAGE_SERVER_THREADS_MAX: usize = 4;

/// How a page server is made.
#[derive(Clone, Copy, Debug)]
pub struct PageServerSettings {
    /// Threads, 1 to [`PAGE_SERVER_THREADS_MAX`].
    pub threads: usize,
    /// Processor time that they may use together.
    pub cpu: CpuShare,
    /// Bytes of pages that may come and go.
    pub rate: ServingRate,
    /// This host's incarnation.
    pub incarnation: u64,
}

/// Why a page server could not start.
#[derive(Debug, thiserror::Error)]
pub enum PageServerError {
    /// The store has no worker for a thread.
    #[error(transparent)]
    Workers(#[from] TooManyWorkers),
    /// The kernel gave no thread or no epoll.
    #[error("cannot start the threads that serve lent blocks: {0}")]
    Kernel(#[from] io::Error),
}

/// The threads that serve lent blocks. Dropping it ends them and their connections.
pub struct PageServer {
    inboxes: Vec<Arc<ThreadInbox>>,
    threads: Vec<JoinHandle<()>>,
    counters: Arc<ServerCounters>,
    sessions: Arc<dyn AdmitConnections>,
    next: AtomicUsize,
}

/// What a thread is made of.
struct ThreadParts {
    poll: Poll,
    inbox: Arc<ThreadInbox>,
    store: Arc<Store>,
    clock: Clock,
    blocks: Arc<dyn FindLentBlocks>,
    counters: Arc<ServerCounters>,
    shared: SharedService,
}

impl PageServer {
    /// Starts the threads. They serve the connections that [`adopt`](PageServer::adopt) gets.
    ///
    /// # Errors
    ///
    /// The kernel or the store refused a thread.
    pub fn start(
        store: &Arc<Store>,
        clock: Clock,
        sessions: Arc<dyn AdmitConnections>,
        blocks: Arc<dyn FindLentBlocks>,
        settings: PageServerSettings,
    ) -> Result<PageServer, PageServerError> {
        let (polls, inboxes) = polls(settings.threads.clamp(1, PAGE_SERVER_THREADS_MAX))?;
        let budget = ServingBudget::new(settings.cpu, settings.rate, Duration::ZERO);
        let shared = SharedService {
            sessions,
            budget: Arc::new(Mutex::new(budget)),
            cpu: settings.cpu,
            origin: Instant::now(),
            incarnation: settings.incarnation,
        };
        let mut server = PageServer {
            inboxes: inboxes.clone(),
            threads: Vec::new(),
            counters: Arc::default(),
            sessions: Arc::clone(&shared.sessions),
            next: AtomicUsize::new(0),
        };
        for (poll, inbox) in polls.into_iter().zip(inboxes) {
            let parts = ThreadParts {
                poll,
                inbox,
                store: Arc::clone(store),
                clock,
                blocks: Arc::clone(&blocks),
                counters: Arc::clone(&server.counters),
                shared: shared.clone(),
            };
            server.threads.push(spawn(parts)?);
        }
        Ok(server)
    }

    /// Serves a connection that somebody else accepted. None of its bytes may have been read.
    pub fn adopt(&self, socket: TcpStream) {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        if let Some(unsent) = self.inboxes[next].send(ThreadMessage::Serve(socket)) {
            ServerCounters::add(&self.counters.connections_refused, 1);
            if let Ok(address) = unsent.peer_addr() {
                let party = FaultParty::Address(address.ip());
                self.sessions.report(party, PageFault::NoRoom);
            }
        }
    }

    /// Ends the connections of a session that is over.
    pub fn end_session(&self, session: SessionId) {
        for inbox in &self.inboxes {
            inbox.send(ThreadMessage::EndSession(session));
        }
    }

    /// What the threads have done.
    pub fn figures(&self) -> PageServerFigures {
        self.counters.figures()
    }

    /// What the threads have done for one borrower.
    pub fn served(&self, borrower: PeerId) -> ServedPages {
        self.counters.of(borrower).figures()
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        for inbox in &self.inboxes {
            inbox.send(ThreadMessage::Stop);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

type PolledInboxes = (Vec<Poll>, Vec<Arc<ThreadInbox>>);

fn polls(threads: usize) -> io::Result<PolledInboxes> {
    let (mut polls, mut inboxes) = (Vec::new(), Vec::new());
    for _ in 0..threads {
        let poll = Poll::new()?;
        inboxes.push(ThreadInbox::new(Waker::new(poll.registry(), INBOX)?));
        polls.push(poll);
    }
    Ok((polls, inboxes))
}

/// Starts a thread, and waits until it serves.
fn spawn(parts: ThreadParts) -> Result<JoinHandle<()>, PageServerError> {
    let (ready, is_ready) = sync_channel(1);
    let thread = thread::Builder::new()
        .name("lender".to_owned())
        .spawn(move || serve(parts, &ready))?;
    match is_ready.recv() {
        Ok(began) => began.map(|()| thread),
        Err(_) => Err(io::Error::other("the thread ended before it began").into()),
    }
}

fn serve(parts: ThreadParts, ready: &SyncSender<Result<(), PageServerError>>) {
    // A worker stays in the thread that made it.
    let made = parts.store.worker().map_err(PageServerError::from);
    let made = made.map(|worker| {
        let service = PageService::new(worker, parts.clock, parts.blocks, parts.counters);
        let (poll, inbox) = (parts.poll, parts.inbox);
        ServingThread::new(poll, inbox, service, parts.shared)
    });
    let (mut thread, began) = match made {
        Ok(thread) => (Some(thread), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Whoever started it waits for this.
    let _ = ready.send(began);
    if let Some(Err(error)) = thread.as_mut().map(ServingThread::run) {
        tracing::error!(%error, "a thread that serves lent blocks ended: borrowers miss their pages until the daemon restarts");
    }
}
