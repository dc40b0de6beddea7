//! What is shown of the whole daemon. A thread of its own makes it, and all who ask within a second share it: however many look, and
//! however much there is to see, nobody who comes to the admin's thread waits for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use sublet_client::messages::Status;
use tokio::sync::oneshot;

use super::doors::CONNECTIONS_MAX;
use super::http_error::HttpError;
use super::replies::ending;
use crate::daemon::Daemon;

/// A status that is older is shown to nobody.
const AGE_MAX: Duration = Duration::from_secs(1);

/// As many as can ask at once: the connections of all three doors. Whoever went away meanwhile is counted until its turn.
const ASKS_MAX: usize = 3 * CONNECTIONS_MAX;

/// Where a status is asked for.
#[derive(Clone)]
pub(super) struct Looks {
    asks: SyncSender<Ask>,
    changed: Arc<Changed>,
}

/// Somebody asks.
struct Ask {
    /// What began to be made before is too old.
    from: Instant,
    show: Show,
}

/// Writes what is asked for as it is to be sent, and sends it.
type Show = Box<dyn FnOnce(&Daemon, &Arc<Status>) + Send>;

impl Looks {
    /// Where to ask, and the thread that answers. It ends when the last of those who can ask is gone.
    pub(super) fn start(daemon: Arc<Daemon>) -> io::Result<(Looks, JoinHandle<()>)> {
        let (asks, asked) = sync_channel(ASKS_MAX);
        let thread = thread::Builder::new()
            .name("looks".to_owned())
            .spawn(move || answer(&asked, &daemon))?;
        let changed = Arc::default();
        Ok((Looks { asks, changed }, thread))
    }

    /// What `show` makes of a status, which is one of now where `headers` ask for that.
    ///
    /// # Errors
    ///
    /// 503 where the daemon ends, or where too many wait.
    pub(super) async fn show<T: Send + 'static>(
        &self,
        headers: &HeaderMap,
        show: impl FnOnce(&Daemon, &Arc<Status>) -> T + Send + 'static,
    ) -> Result<T, HttpError> {
        let (tell, told) = oneshot::channel();
        let show: Show = Box::new(move |daemon, status| {
            // Whoever asked may have gone.
            let _ = tell.send(show(daemon, status));
        });
        let from = self.changed.oldest(Instant::now(), wants_now(headers));
        self.asks
            .try_send(Ask { from, show })
            .map_err(|unsent| match unsent {
                TrySendError::Full(_) => HttpError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format_args!("{ASKS_MAX} callers wait for a look at the daemon already"),
                    "try again; without `Cache-Control: no-cache` all who ask within a second share a look",
                ),
                TrySendError::Disconnected(_) => ending(),
            })?;
        told.await.map_err(|_| ending())
    }

    /// Somebody changed something: what is shown from now on was made after it.
    pub(super) fn change(&self) {
        self.changed.note(Instant::now());
    }
}

fn answer(asked: &Receiver<Ask>, daemon: &Daemon) {
    let mut last = Shared::default();
    for Ask { from, show } in asked {
        let status = last.made_since(from, || Arc::new(daemon.status()));
        show(daemon, status);
    }
}

/// Whether a caller takes nothing that was made for others before it asked.
fn wants_now(headers: &HeaderMap) -> bool {
    let mut said = headers.get_all(header::CACHE_CONTROL).iter();
    said.any(|said| {
        said.to_str()
            .is_ok_and(|said| said.split(',').any(|word| word.trim() == "no-cache"))
    })
}

/// When something was changed by hand last.
#[derive(Default)]
struct Changed(Mutex<Option<Instant>>);

impl Changed {
    fn note(&self, now: Instant) {
        let mut last = self.0.lock();
        *last = (*last).max(Some(now));
    }

    /// What began to be made before is too old for somebody who asks now.
    fn oldest(&self, now: Instant, wants_now: bool) -> Instant {
        if wants_now {
            return now;
        }
        let young = now.checked_sub(AGE_MAX);
        young.max(*self.0.lock()).unwrap_or(now)
    }
}

/// What was made last, and when that was begun.
struct Shared<T>(Option<(Instant, T)>);

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared(None)
    }
}

impl<T> Shared<T> {
    /// What was made last if that was begun at `from` or later; else it is made anew.
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
        let (mut shared, changed) = (Shared::default(), Changed::default());
        let mut made = 0;
        let mut look = |from| {
            *shared.made_since(from, || {
                made += 1;
                made
            })
        };
        let start = Instant::now();
        assert_eq!(look(changed.oldest(start, false)), 1);
        let soon = Instant::now() + AGE_MAX / 2;
        assert_eq!(look(changed.oldest(soon, false)), 1);
        let late = Instant::now() + 2 * AGE_MAX;
        assert_eq!(look(changed.oldest(late, false)), 2);
    }

    #[test]
    fn who_asked_before_a_look_began_shares_it_whatever_they_want() {
        let mut shared = Shared::default();
        let changed = Changed::default();
        let asked = [(); 3].map(|()| changed.oldest(Instant::now(), true));
        let shown = asked.map(|from| *shared.made_since(from, Instant::now));
        assert_eq!(shown, [shown[0]; 3]);
        let now = changed.oldest(Instant::now(), true);
        assert!(*shared.made_since(now, Instant::now) > shown[0]);
    }

    #[test]
    fn nobody_is_shown_what_was_made_before_a_change() {
        let (mut shared, changed) = (Shared::default(), Changed::default());
        for round in 0..3 {
            changed.note(Instant::now());
            let from = changed.oldest(Instant::now(), false);
            assert_eq!(*shared.made_since(from, || round), round);
            let from = changed.oldest(Instant::now(), false);
            assert_eq!(*shared.made_since(from, || 9), round);
        }
    }

    #[test]
    fn a_caller_says_that_it_wants_what_is_now() {
        let says = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, value.parse().expect("a header"));
            wants_now(&headers)
        };
        assert!(says("no-cache") && says("max-age=0, no-cache"));
        assert!(!says("no-store") && !wants_now(&HeaderMap::new()));
    }
}
