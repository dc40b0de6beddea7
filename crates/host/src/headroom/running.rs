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

use super::figures::ReadHost;
use super::follow::{Follower, HeadroomFigures, Took};
use super::holds::TooManyHolds;
use super::order::{EVENTS_MAX, Order, OrderError};

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

enum Event {
    Order(Order, oneshot::Sender<Result<Took, TooManyHolds>>),
    End,
}

/// The arena follows the host for as long as this lives.
pub struct Headroom {
    events: SyncSender<Event>,
    figures: Arc<Mutex<HeadroomFigures>>,
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
    ) -> Result<Headroom, StartError> {
        let began = Instant::now();
        let (events, inbox) = sync_channel(EVENTS_MAX);
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
                let mut follower = Follower::new(host, worker, clock, settings);
                let first = follower.turn(began.elapsed());
                let _ = ready.send(Ok(follower.figures()));
                come_first();
                run(&mut follower, &inbox, began, first.again_in);
            })?;
        match is_ready.recv() {
            Ok(Ok(figures)) => Ok(Headroom {
                events,
                figures,
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

    /// Gives memory back by hand. Ready when it is given back; no thread waits for that.
    pub async fn release(&self, order: Order) -> Result<Took, OrderError> {
        let (reply, answer) = oneshot::channel();
        self.send(Event::Order(order, reply))?;
        let took = answer.await.map_err(|_| OrderError::Ended)?;
        Ok(took?)
    }

    fn send(&self, event: Event) -> Result<(), OrderError> {
        self.events.try_send(event).map_err(|error| match error {
            TrySendError::Full(_) => OrderError::Busy,
            TrySendError::Disconnected(_) => OrderError::Ended,
        })
    }
}

impl Drop for Headroom {
    fn drop(&mut self) {
        let _ = self.events.send(Event::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run<H: ReadHost>(
    follower: &mut Follower<H>,
    inbox: &Receiver<Event>,
    began: Instant,
    first_wait: Duration,
) {
    let mut wait = first_wait;
    loop {
        match inbox.recv_timeout(wait) {
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Event::Order(order, reply)) => {
                // Whoever asked may have gone: the memory is given back all the same.
                let _ = reply.send(follower.order(order, || began.elapsed()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        wait = follower.turn(began.elapsed()).again_in;
    }
}

/// The process keeps pages that guests would die without: it is not to be killed before others any more.
pub fn stay_alive() {
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
