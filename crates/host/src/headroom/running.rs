//! The thread in which the arena follows the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use parking_lot::Mutex;
use sublet_frontends::tenancy::Clock;
use sublet_policy::headroom::Settings;
use sublet_store::{Store, TooManyWorkers};
use tokio::sync::oneshot;

use super::by_hand::ByHand;
use super::figures::ReadHost;
use super::follow::{Follower, HeadroomFigures, Reports, Took};
use super::holds::TooManyHolds;
use super::order::{ORDERS_MAX, Order, OrderError};
use crate::observe::events::Events;

/// Among the first to go if the kernel must kill: nothing is lost that cannot be had again. Only what the
/// owner himself puts at 1000 goes before.
pub const OOM_SCORE_ADJ: i32 = 900;

/// The thread must run when others fill the cores: it is the one that gives them memory.
const NICE: i32 = -20;

/// Why the thread could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No place for its worker.
    #[error(transparent)]
    Workers(#[from] TooManyWorkers),
    /// The system gave no thread.
    #[error("no thread to follow the host: {0}")]
    Thread(#[from] io::Error),
}

enum Message {
    Order(Order, oneshot::Sender<Result<Took, TooManyHolds>>),
    End,
}

/// The arena follows the host for as long as this lives.
pub struct Headroom {
    inbox: SyncSender<Message>,
    figures: Arc<Mutex<HeadroomFigures>>,
    by_hand: Arc<ByHand>,
    thread: Option<JoinHandle<()>>,
}

impl Headroom {
    /// Looks at the host once, so that the arena has its first limit when this returns, and then goes
    /// on in a thread of its own.
    pub fn start(
        host: impl ReadHost + Send + 'static,
        store: &Arc<Store>,
        clock: Clock,
        settings: Settings,
        events: &Events,
    ) -> Result<Headroom, StartError> {
        let began = Instant::now();
        let by_hand = Arc::new(ByHand::default());
        let reports = Reports {
            events: events.clone(),
            by_hand: Arc::clone(&by_hand),
        };
        let (sender, inbox) = sync_channel(ORDERS_MAX);
        let (ready, is_ready) = sync_channel(1);
        let store = Arc::clone(store);
        let thread = thread::Builder::new()
            .name("headroom".into())
            .spawn(move || {
                // Workers stay in the thread that made them.
                let worker = match store.worker() {
                    Ok(worker) => worker,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return;
                    }
                };
                let mut follower = Follower::new(host, worker, clock, settings).reporting(reports);
                let first = follower.turn(began.elapsed());
                let _ = ready.send(Ok(follower.figures()));
                come_first();
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

    /// What it saw and did last.
    pub fn figures(&self) -> HeadroomFigures {
        *self.figures.lock()
    }

    /// What releases by hand take of each tenant.
    pub(crate) fn by_hand(&self) -> Arc<ByHand> {
        Arc::clone(&self.by_hand)
    }

    /// Gives memory back by hand. Ready when it is given back; no thread waits for that.
    pub async fn release(&self, order: Order) -> Result<Took, OrderError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Order(order, reply))?;
        let took = answer.await.map_err(|_| OrderError::Ended)?;
        Ok(took?)
    }

    fn send(&self, message: Message) -> Result<(), OrderError> {
        self.inbox.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => OrderError::Busy,
            TrySendError::Disconnected(_) => OrderError::Ended,
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
    follower: &mut Follower<H>,
    inbox: &Receiver<Message>,
    began: Instant,
    first_wait: Duration,
) {
    let mut wait = first_wait;
    loop {
        match inbox.recv_timeout(wait) {
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Message::Order(order, reply)) => {
                // Whoever asked may have gone: the memory is given back all the same.
                let _ = reply.send(follower.order(order, || began.elapsed()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        wait = follower.turn(began.elapsed()).again_in;
    }
}

/// The process keeps pages that guests would die without: it is not to be killed before others any more.
pub(crate) fn stay_alive() {
    HOLDS_OTHERS_PAGES.store(true, Ordering::Relaxed);
    score(0);
}

/// Pages that somebody would die without are here; also before the thread below has begun.
static HOLDS_OTHERS_PAGES: AtomicBool = AtomicBool::new(false);

fn score(score: i32) {
    if let Err(error) = fs::write("/proc/self/oom_score_adj", score.to_string()) {
        tracing::warn!(%error, wanted = score, "oom_score_adj stays as it is: an out-of-memory kill may hit the wrong process");
    }
}

/// Where it is allowed: the daemon dies before any program of the host's, and this thread runs
/// before them.
fn come_first() {
    if !HOLDS_OTHERS_PAGES.load(Ordering::Relaxed) {
        score(OOM_SCORE_ADJ);
        // Between the look and the write somebody may have come.
        if HOLDS_OTHERS_PAGES.load(Ordering::Relaxed) {
            score(0);
        }
    }
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the thread that follows the host keeps its priority");
    }
}
