//! Snapshots of the whole daemon's status. A thread of its own makes them, and all callers within a second share one.
//! So no caller of the admin thread waits for a snapshot, however many callers and however large the status.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use sublet_client::messages::Status;
use tokio::sync::oneshot;

use super::http_error::HttpError;
use super::listeners::CONNECTIONS_MAX;
use super::replies::daemon_ending;
use crate::daemon::Daemon;

/// No caller gets an older status.
const AGE_MAX: Duration = Duration::from_secs(1);

/// As many as can ask at once: the connections of all three listeners. A caller that went away meanwhile counts until
/// its turn.
const ASKS_MAX: usize = 3 * CONNECTIONS_MAX;

/// Where callers ask for a status.
#[derive(Clone)]
pub(super) struct StatusSnapshots {
    asks: SyncSender<StatusRequest>,
    changed: Arc<LastChange>,
}

/// A request for a status.
struct StatusRequest {
    /// A status that was begun before this is too old.
    from: Instant,
    show: RenderStatus,
}

/// Writes the answer in the form in which it is sent, and sends it.
type RenderStatus = Box<dyn FnOnce(&Daemon, &Arc<Status>) + Send>;

impl StatusSnapshots {
    /// The handle for callers, and the thread that answers. The thread ends when the last handle is gone.
    pub(super) fn start(daemon: Arc<Daemon>) -> io::Result<(StatusSnapshots, JoinHandle<()>)> {
        let (asks, asked) = sync_channel(ASKS_MAX);
        let thread = thread::Builder::new()
            .name("looks".to_owned())
            .spawn(move || serve_requests(&asked, &daemon))?;
        let changed = Arc::default();
        Ok((StatusSnapshots { asks, changed }, thread))
    }

    /// What `show` makes of a status. The status is a fresh one if `headers` ask for that.
    ///
    /// # Errors
    ///
    /// 503 if the daemon ends, or if too many callers wait.
    pub(super) async fn render<T: Send + 'static>(
        &self,
        headers: &HeaderMap,
        show: impl FnOnce(&Daemon, &Arc<Status>) -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let (tell, told) = oneshot::channel();
        let show: RenderStatus = Box::new(move |daemon, status| {
            // The caller may have gone.
            let _ = tell.send(show(daemon, status));
        });
        let from = self
            .changed
            .oldest_acceptable(Instant::now(), freshness(headers));
        self.asks
            .try_send(StatusRequest { from, show })
            .map_err(|unsent| match unsent {
                TrySendError::Full(_) => HttpError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format_args!("{ASKS_MAX} callers wait for the daemon's status already"),
                    "try again; without `Cache-Control: no-cache` all callers within a second share a status",
                ),
                TrySendError::Disconnected(_) => daemon_ending(),
            })?;
        told.await.map_err(|_| daemon_ending())
    }

    /// Records a change. What is shown from now on was made after it.
    pub(super) fn record_change(&self) {
        self.changed.record(Instant::now());
    }
}

fn serve_requests(asked: &Receiver<StatusRequest>, daemon: &Daemon) {
    let mut last = LatestSnapshot::default();
    for StatusRequest { from, show } in asked {
        let status = last.made_since(from, || Arc::new(daemon.status()));
        show(daemon, status);
    }
}

/// How old a snapshot the caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    /// Any snapshot of the last second will do.
    Shared,
    /// Only a snapshot that was begun after the request will do.
    Fresh,
}

/// Reads from the headers how old a snapshot the caller accepts.
fn freshness(headers: &HeaderMap) -> Freshness {
    let mut values = headers.get_all(header::CACHE_CONTROL).iter();
    let is_fresh = values.any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.split(',').any(|word| word.trim() == "no-cache"))
    });
    match is_fresh {
        true => Freshness::Fresh,
        false => Freshness::Shared,
    }
}

/// When something was last changed by hand.
#[derive(Default)]
struct LastChange(Mutex<Option<Instant>>);

impl LastChange {
    fn record(&self, now: Instant) {
        let mut last = self.0.lock();
        *last = (*last).max(Some(now));
    }

    /// A status that was begun before this is too old for a caller that asks now.
    fn oldest_acceptable(&self, now: Instant, freshness: Freshness) -> Instant {
        if freshness == Freshness::Fresh {
            return now;
        }
        let young = now.checked_sub(AGE_MAX);
        young.max(*self.0.lock()).unwrap_or(now)
    }
}

/// The last snapshot, and when it was begun.
struct LatestSnapshot<T>(Option<(Instant, T)>);

impl<T> Default for LatestSnapshot<T> {
    fn default() -> LatestSnapshot<T> {
        LatestSnapshot(None)
    }
}

impl<T> LatestSnapshot<T> {
    /// The last snapshot if it was begun at `from` or later. Otherwise makes a new one.
    fn made_since(&mut self, from: Instant, make: impl FnOnce() -> T) -> &T {
        let last = self.0.take().filter(|(began, _)| *began >= from);
        let (_, made) = self.0.insert(last.unwrap_or_else(|| {
            let began = Instant::now();
            (began, make())
        }));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_within_a_second_shares_what_was_made() {
        let (mut shared, changed) = (LatestSnapshot::default(), LastChange::default());
        let mut made = 0;
        let mut look = |from| {
            *shared.made_since(from, || {
                made += 1;
                made
            })
        };
        let start = Instant::now();
        assert_eq!(look(changed.oldest_acceptable(start, Freshness::Shared)), 1);
        let soon = Instant::now() + AGE_MAX / 2;
        assert_eq!(look(changed.oldest_acceptable(soon, Freshness::Shared)), 1);
        let late = Instant::now() + 2 * AGE_MAX;
        assert_eq!(look(changed.oldest_acceptable(late, Freshness::Shared)), 2);
    }

    #[test]
    fn who_asked_before_a_look_began_shares_it_whatever_they_want() {
        let mut shared = LatestSnapshot::default();
        let changed = LastChange::default();
        let asked = [(); 3].map(|()| changed.oldest_acceptable(Instant::now(), Freshness::Fresh));
        let shown = asked.map(|from| *shared.made_since(from, Instant::now));
        assert_eq!(shown, [shown[0]; 3]);
        let now = changed.oldest_acceptable(Instant::now(), Freshness::Fresh);
        assert!(*shared.made_since(now, Instant::now) > shown[0]);
    }

    #[test]
    fn nobody_is_shown_what_was_made_before_a_change() {
        let (mut shared, changed) = (LatestSnapshot::default(), LastChange::default());
        for round in 0..3 {
            changed.record(Instant::now());
            let from = changed.oldest_acceptable(Instant::now(), Freshness::Shared);
            assert_eq!(*shared.made_since(from, || round), round);
            let from = changed.oldest_acceptable(Instant::now(), Freshness::Shared);
            assert_eq!(*shared.made_since(from, || 9), round);
        }
    }

    #[test]
    fn a_caller_says_that_it_wants_what_is_now() {
        let says = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, value.parse().expect("a header"));
            freshness(&headers)
        };
        assert_eq!(says("no-cache"), Freshness::Fresh);
        assert_eq!(says("max-age=0, no-cache"), Freshness::Fresh);
        assert_eq!(says("no-store"), Freshness::Shared);
        assert_eq!(freshness(&HeaderMap::new()), Freshness::Shared);
    }
}
