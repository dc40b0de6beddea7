//! Events: what happened in the daemon that its owner may want to know, each with an id, an object, an amount, a reason, and
//! by whose word. Whoever causes one posts it and goes on: a thread of its own gives it a number, keeps it in a ring, and writes
//! it to the log. What repeats becomes one event a second.

mod counts;
mod event;
mod id;
mod message;
mod page;
mod record;
mod repeats;
mod ring;
mod why;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use sublet_types::TenantName;
use tokio::sync::watch;

pub use self::counts::EventCount;
pub use self::event::{Actor, Amount, Cause, Detail, Event, Object};
pub use self::id::{EventId, Level, ROWS, Row};
pub use self::page::reference;
pub use self::record::{Happened, PolicyRecord};
pub use self::ring::Excerpt;
pub use self::why::Why;

use self::counts::Counts;
use self::repeats::Repeats;
use self::ring::Ring;

/// What the ring may take.
const RING_BYTES_MAX: usize = 8 << 20;

/// Causes that wait to become events.
const INBOX_MAX: usize = 1024;

/// Who follows events at once; each has a connection of the admin interface for as long as it likes.
pub(crate) const FOLLOWERS_MAX: usize = 8;

/// A handle on the daemon's events, for whoever causes or reads them. Without a `Writer` nothing is logged, and what was
/// posted becomes events when somebody reads.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

struct Shared {
    inbox: SyncSender<Posted>,
    recorder: Mutex<Recorder>,
    counts: Counts,
    /// The number of the latest event.
    latest: watch::Sender<u64>,
    followers: AtomicUsize,
    writer: OnceLock<Thread>,
    is_over: AtomicBool,
    began: Instant,
    began_millis: u64,
}

/// A cause and when it was posted, in Unix milliseconds.
type Posted = (u64, Cause);

/// Makes events of causes.
struct Recorder {
    inbox: Receiver<Posted>,
    repeats: Repeats,
    ring: Ring,
    /// Lost causes that an event was made of.
    lost_told: u64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Default for Events {
    fn default() -> Events {
        let (inbox, posted) = sync_channel(INBOX_MAX);
        Events(Arc::new(Shared {
            inbox,
            recorder: Mutex::new(Recorder {
                inbox: posted,
                repeats: Repeats::default(),
                ring: Ring::new(RING_BYTES_MAX),
                lost_told: 0,
            }),
            counts: Counts::default(),
            latest: watch::Sender::new(0),
            followers: AtomicUsize::new(0),
            writer: OnceLock::new(),
            is_over: AtomicBool::new(false),
            began: Instant::now(),
            began_millis: unix_millis(),
        }))
    }
}

impl Events {
    /// Takes a cause down. Never waits, nor for memory; where too many wait already, it is counted and lost.
    pub(crate) fn post(&self, cause: Cause) {
        let shared = &*self.0;
        shared.counts.count(&cause);
        if shared.inbox.try_send((unix_millis(), cause)).is_err() {
            shared.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(writer) = shared.writer.get() {
            writer.unpark();
        }
    }

    /// What tells this run of the daemon from others: numbers of events begin anew with each.
    pub fn run(&self) -> u64 {
        self.0.began_millis
    }

    /// What came after the event of that number, `most` events at most.
    pub fn after(&self, seq: u64, most: usize) -> Excerpt {
        self.read(|ring| ring.after(seq, most))
    }

    /// The number of the latest event; 0 before the first.
    pub fn latest(&self) -> u64 {
        self.read(Ring::latest)
    }

    /// How many events are forgotten: the number of the last one that is.
    pub fn forgotten(&self) -> u64 {
        self.read(|ring| ring.after(0, 0).lost)
    }

    /// Since when nothing was forgotten, in Unix seconds.
    pub fn since(&self) -> u64 {
        self.read(|ring| self.since_of(ring))
    }

    fn since_of(&self, ring: &Ring) -> u64 {
        let forgotten = ring.forgotten_until().map(|millis| millis / 1000 + 1);
        forgotten.unwrap_or(self.0.began_millis / 1000)
    }

    /// Tells when there are more events than before: its value is the latest one's number.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.0.latest.subscribe()
    }

    /// What a policy decided about a tenant and what that lost until `until` (Unix seconds), the latest first; and since when
    /// nothing was forgotten, in Unix seconds.
    pub fn about(&self, tenant: &TenantName, until: u64, most: usize) -> (Vec<Arc<Event>>, u64) {
        let is_told = |event: &&Arc<Event>| {
            event.policy().is_some()
                && event.object().tenant() == Some(tenant)
                && event.at_millis / 1000 <= until
        };
        self.read(|ring| {
            let told = ring.iter().rev().filter(is_told).take(most).cloned();
            (told.collect(), self.since_of(ring))
        })
    }

    /// How often each kind of event happened, by reason.
    pub fn counts(&self) -> Vec<EventCount> {
        self.0.counts.all()
    }

    /// Causes that became no event, since too many came at once.
    pub fn lost(&self) -> u64 {
        self.0.counts.lost.load(Ordering::Relaxed)
    }

    /// A place for one who follows events; `None` where all are taken.
    pub fn follow(&self) -> Option<Following> {
        let followers = &self.0.followers;
        let room = |now| (now < FOLLOWERS_MAX).then_some(now + 1);
        let entered = followers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        entered.ok().map(|_| Following(Arc::clone(&self.0)))
    }

    /// Reads the ring once what was posted before is in it.
    fn read<T>(&self, read: impl FnOnce(&Ring) -> T) -> T {
        let mut recorder = self.0.recorder.lock();
        let new = self.0.record(&mut recorder, Which::Due);
        let answer = read(&recorder.ring);
        drop(recorder);
        self.0.announce(&new);
        answer
    }
}

/// Which of the causes that repeat become events.
#[derive(Clone, Copy)]
enum Which {
    /// Those that were gathered for long enough.
    Due,
    /// All.
    All,
}

impl Shared {
    /// Makes events of what was posted.
    fn record(&self, recorder: &mut Recorder, which: Which) -> Vec<Arc<Event>> {
        let now = self.began.elapsed();
        let lost = self.counts.lost.load(Ordering::Relaxed);
        let more_lost = lost - recorder.lost_told;
        let Recorder {
            inbox,
            repeats,
            ring,
            lost_told,
        } = recorder;
        let due = match which {
            Which::Due => repeats.due(now),
            Which::All => Vec::new(),
        };
        let mut new: Vec<Arc<Event>> = due
            .into_iter()
            .map(|(at, cause)| ring.push(at, cause))
            .collect();
        for (at, cause) in inbox.try_iter().take(INBOX_MAX) {
            new.extend(
                repeats
                    .admit(now, at, cause)
                    .map(|cause| ring.push(at, cause)),
            );
        }
        if more_lost > 0 {
            *lost_told = lost;
            let cause =
                Cause::new(EventId::EventsLost, Why::Overflow).of(Amount::Events(more_lost));
            self.counts.count(&cause);
            let told = repeats.admit(now, unix_millis(), cause);
            new.extend(told.map(|cause| ring.push(unix_millis(), cause)));
        }
        if matches!(which, Which::All) {
            let rest = repeats.all(now).into_iter();
            new.extend(rest.map(|(at, cause)| ring.push(at, cause)));
        }
        new
    }

    /// Writes new events to the log, and wakes who follows.
    fn announce(&self, new: &[Arc<Event>]) {
        let Some(last) = new.last() else {
            return;
        };
        if self.writer.get().is_some() {
            new.iter().for_each(|event| event.log());
        }
        self.latest.send_if_modified(|latest| {
            let is_news = last.seq > *latest;
            *latest = last.seq.max(*latest);
            is_news
        });
    }

    /// Makes events until the end, and sleeps while there is nothing to be made.
    fn write(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let mut recorder = self.recorder.lock();
            let new = self.record(&mut recorder, Which::Due);
            let due_in = recorder.repeats.due_in(self.began.elapsed());
            drop(recorder);
            self.announce(&new);
            if !new.is_empty() {
                continue; // more than one turn's may have been posted
            }
            match due_in {
                Some(due_in) => thread::park_timeout(due_in.max(SOON)),
                None => thread::park(),
            }
        }
        let new = self.record(&mut self.recorder.lock(), Which::All);
        self.announce(&new);
    }
}

/// The least that the writer sleeps: what is due within it can wait as long.
const SOON: Duration = Duration::from_millis(10);

/// The thread that makes events and logs them. Dropped, it makes the last ones and ends.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Has what is posted from now on become events at once, and logged.
    pub(crate) fn start(events: &Events) -> io::Result<Writer> {
        let shared = Arc::clone(&events.0);
        let thread = thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || shared.write())?;
        let _ = events.0.writer.set(thread.thread().clone());
        // What was posted meanwhile woke nobody.
        thread.thread().unpark();
        Ok(Writer {
            shared: Arc::clone(&events.0),
            thread: Some(thread),
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A place of one who follows events.
pub struct Following(Arc<Shared>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Event {
    /// Writes it to the log.
    fn log(&self) {
        let Cause {
            id,
            why,
            object,
            amount,
            actor,
            detail,
            count,
        } = &self.cause;
        let row = id.row();
        let amount = amount.map(|amount| amount.to_string());
        let (by, count) = (actor.to_string(), (*count > 1).then_some(*count));
        let detail = detail.to_string();
        let detail = Some(detail.as_str()).filter(|detail| !detail.is_empty());
        let tenant = object.tenant().map(TenantName::as_str);
        let (disk, listener) = match object {
            Object::Disk { name, .. } => (Some(name.as_str()), None),
            Object::Listener { place, .. } => (None, Some(&**place)),
            Object::None | Object::Tenant(_) => (None, None),
        };
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    event = row.name,
                    tenant,
                    disk,
                    listener,
                    amount,
                    reason = why.name(),
                    by = by.as_str(),
                    count,
                    detail,
                    "{}",
                    row.says
                )
            };
        }
        match row.level {
            Level::Debug => line!(debug),
            Level::Info => line!(info),
            Level::Warn => line!(warn),
            Level::Error => line!(error),
        }
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
