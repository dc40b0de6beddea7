//! The thread in which the arena follows the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use parking_lot::Mutex;
use sublet_frontends::tenancy::Clock;
use sublet_policy::headroom::HeadroomSettings;
use sublet_store::{Store, TooManyWorkers};
use tokio::sync::oneshot;

use super::follow::{ArenaFollower, CompletedRelease, HeadroomFigures, ReportSinks};
use super::holds::TooManyHolds;
use super::host_figures::ReadHost;
use super::manual_releases::ManualReleases;
use super::release_order::{ORDERS_MAX, ReleaseOrder, ReleaseOrderError};
use crate::observe::events::Events;

/// The daemon is among the first to go if the kernel must kill, because nothing is lost that cannot be had again. Only
/// what the owner puts at 1000 goes before it.
pub const OOM_SCORE_ADJ: i32 = 900;

/// The thread must run even if others fill the cores, because it gives them memory.
const NICE: i32 = -20;

/// Why the thread could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HeadroomStartError {
    /// The store has no worker for it.
    #[error(transparent)]
    Workers(#[from] TooManyWorkers),
    /// The system gave no thread.
    #[error("no thread to follow the host: {0}")]
    Thread(#[from] io::Error),
}

enum Message {
    Order(
        ReleaseOrder,
        oneshot::Sender<Result<CompletedRelease, TooManyHolds>>,
    ),
    End,
}

/// The arena follows the host for as long as this lives.
pub struct Headroom {
    inbox: SyncSender<Message>,
    figures: Arc<Mutex<HeadroomFigures>>,
    by_hand: Arc<ManualReleases>,
    thread: Option<JoinHandle<()>>,
}

impl Headroom {
    /// Reads the host once, so that the arena has its first limit when this returns. Then goes on in a thread of its
    /// own.
    pub fn start(
        host: impl ReadHost + Send + 'static,
        store: &Arc<Store>,
        clock: Clock,
        settings: HeadroomSettings,
        events: &Events,
    ) -> Result<Headroom, HeadroomStartError> {
        let began = Instant::now();
        let by_hand = Arc::new(ManualReleases::default());
        let reports = ReportSinks {
            events: events.clone(),
            by_hand: Arc::clone(&by_hand),
        };
        let (sender, inbox) = sync_channel(ORDERS_MAX);
        let (ready, is_ready) = sync_channel(1);
        let store = Arc::clone(store);
        let thread = thread::Builder::new()
            .name("headroom".into())
            .spawn(move || {
                // A worker stays in the thread that made it.
                let worker = match store.worker() {
                    Ok(worker) => worker,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return;
                    }
                };
                let mut follower =
                    ArenaFollower::new(host, worker, clock, settings).reporting(reports);
                let first = follower.iterate(began.elapsed());
                let _ = ready.send(Ok(follower.figures()));
                raise_priority();
                run(&mut follower, &inbox, began, first.again_in);
            })?;
        match is_ready.recv() {
            Ok(Ok(figures)) => Ok(Headroom {
                inbox: sender,
                figures,
                by_hand,
                thread: Some(thread),
            }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(io::Error::other("it ended at once").into()),
        }
    }

    /// What the loop saw and did last.
    pub fn figures(&self) -> HeadroomFigures {
        *self.figures.lock()
    }

    /// What releases by hand take from each tenant.
    pub(crate) fn manual_releases(&self) -> Arc<ManualReleases> {
        Arc::clone(&self.by_hand)
    }

    /// Gives memory back by hand. The future is ready when the memory is given back, and no thread waits for that.
    pub async fn release(
        &self,
        order: ReleaseOrder,
    ) -> Result<CompletedRelease, ReleaseOrderError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Order(order, reply))?;
        let took = answer.await.map_err(|_| ReleaseOrderError::Ended)?;
        Ok(took?)
    }

    fn send(&self, message: Message) -> Result<(), ReleaseOrderError> {
        self.inbox.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => ReleaseOrderError::Busy,
            TrySendError::Disconnected(_) => ReleaseOrderError::Ended,
        })
    }
}

impl Drop for Headroom {
    fn drop(&mut self) {
        let _ = self.inbox.send(Message::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run<H: ReadHost>(
    follower: &mut ArenaFollower<H>,
    inbox: &Receiver<Message>,
    began: Instant,
    first_wait: Duration,
) {
    let mut wait = first_wait;
    loop {
        match inbox.recv_timeout(wait) {
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Message::Order(order, reply)) => {
                // The caller may have gone. The memory is given back all the same.
                let _ = reply.send(follower.release_by_hand(order, || began.elapsed()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        wait = follower.iterate(began.elapsed()).again_in;
    }
}

/// Call this when the process keeps pages that guests would die without. The kernel must no longer kill it before
/// others.
pub(crate) fn protect_from_oom_killer() {
    HOLDS_OTHERS_PAGES.store(true, Ordering::Relaxed);
    set_oom_score(0);
}

/// The process keeps pages that others would die without. This may be set before the thread below begins.
static HOLDS_OTHERS_PAGES: AtomicBool = AtomicBool::new(false);

fn set_oom_score(score: i32) {
    if let Err(error) = fs::write("/proc/self/oom_score_adj", score.to_string()) {
        tracing::warn!(%error, wanted = score, "the daemon cannot change its oom_score_adj and serves on; an out-of-memory kill may hit the wrong process: allow it CAP_SYS_RESOURCE, or set OOMScoreAdjust=");
    }
}

/// If that is allowed, the daemon dies before any program of the host, and this thread runs before them.
fn raise_priority() {
    if !HOLDS_OTHERS_PAGES.load(Ordering::Relaxed) {
        set_oom_score(OOM_SCORE_ADJ);
        // Such pages may have come between the check and the write.
        if HOLDS_OTHERS_PAGES.load(Ordering::Relaxed) {
            set_oom_score(0);
        }
    }
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, wanted = NICE, "the thread that follows the host keeps its nice value and may run late on a busy host; raise `ulimit -e` (LimitNICE=)");
    }
}
