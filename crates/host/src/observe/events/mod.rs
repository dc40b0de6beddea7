//! Events: what happened in the daemon that its owner may want to know. Each has an id, an object, an amount, a reason,
//! and an actor.
//!
//! Code that causes an event posts it and goes on. A thread of its own gives the event a number, keeps it in a buffer,
//! and writes it to the log. A cause that repeats becomes one event per second.

mod buffer;
mod coalescer;
mod counts;
mod event;
mod id;
mod message;
mod reason;
mod record;
mod reference;

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

pub use self::buffer::Excerpt;
pub use self::counts::EventCount;
pub use self::event::{Actor, Event, EventAmount, EventDetail, EventSubject, PostedEvent};
pub use self::id::{EventDescription, EventId, EventLevel, ROWS};
pub use self::reason::EventReason;
pub use self::record::{PolicyOutcome, PolicyRecord};
pub use self::reference::reference;

use self::buffer::EventBuffer;
use self::coalescer::RepeatCoalescer;
use self::counts::EventCounters;

/// The most bytes that the buffer may take.
const RING_BYTES_MAX: usize = 8 << 20;

/// The most causes that wait to become events.
const INBOX_MAX: usize = 1024;

/// The most followers of events at once. Each holds a connection of the admin interface for as long as it likes.
pub(crate) const FOLLOWERS_MAX: usize = 8;

/// A handle on the daemon's events, for code that posts or reads them. Without an `EventWriter` nothing is logged, and
/// posted causes become events when somebody reads.
#[derive(Clone)]
pub struct Events(Arc<EventsInner>);

struct EventsInner {
    inbox: SyncSender<QueuedEvent>,
    recorder: Mutex<EventRecorder>,
    counts: EventCounters,
    /// The number of the latest event.
    latest: watch::Sender<u64>,
    followers: AtomicUsize,
    writer: OnceLock<Thread>,
    is_over: AtomicBool,
    began: Instant,
    began_millis: u64,
}

/// A cause and when it was posted, in Unix milliseconds.
type QueuedEvent = (u64, PostedEvent);

/// Makes events of causes.
struct EventRecorder {
    inbox: Receiver<QueuedEvent>,
    repeats: RepeatCoalescer,
    ring: EventBuffer,
    /// Lost causes that an event has reported.
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
        Events(Arc::new(EventsInner {
            inbox,
            recorder: Mutex::new(EventRecorder {
                inbox: posted,
                repeats: RepeatCoalescer::default(),
                ring: EventBuffer::new(RING_BYTES_MAX),
                lost_told: 0,
            }),
            counts: EventCounters::default(),
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
    /// Posts a cause. Never waits, not even for memory. If too many causes wait already, this one is counted and lost.
    pub(crate) fn post(&self, cause: PostedEvent) {
        let shared = &*self.0;
        shared.counts.count(&cause);
        if shared.inbox.try_send((unix_millis(), cause)).is_err() {
            shared.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(writer) = shared.writer.get() {
            writer.unpark();
        }
    }

    /// Identifies this run of the daemon. The numbers of events begin anew with each run.
    pub fn run(&self) -> u64 {
        self.0.began_millis
    }

    /// The events after that number, at most `most` of them.
    pub fn after(&self, seq: u64, most: usize) -> Excerpt {
        self.read(|ring| ring.after(seq, most))
    }

    /// The number of the latest event, 0 before the first.
    pub fn latest(&self) -> u64 {
        self.read(EventBuffer::latest)
    }

    /// The number of the last event that was dropped, which is also how many were dropped.
    pub fn forgotten(&self) -> u64 {
        self.read(|ring| ring.after(0, 0).lost)
    }

    /// Since when nothing was dropped, in Unix seconds.
    pub fn since(&self) -> u64 {
        self.read(|ring| self.since_of(ring))
    }

    fn since_of(&self, ring: &EventBuffer) -> u64 {
        let forgotten = ring.forgotten_until().map(|millis| millis / 1000 + 1);
        forgotten.unwrap_or(self.0.began_millis / 1000)
    }

    /// Notifies when there are more events than before. The value is the number of the latest event.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.latest.subscribe()
    }

    /// What a policy decided about a tenant and what that tenant lost until `until` (Unix seconds), the latest first.
    /// Also since when nothing was dropped, in Unix seconds.
    pub fn policy_events(
        &self,
        tenant: &TenantName,
        until: u64,
        most: usize,
    ) -> (Vec<Arc<Event>>, u64) {
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

    /// Causes that became no event, because too many came at once.
    pub fn lost(&self) -> u64 {
        self.0.counts.lost.load(Ordering::Relaxed)
    }

    /// A permit to follow events, or `None` if all are taken.
    pub fn follow(&self) -> Option<FollowerPermit> {
        let followers = &self.0.followers;
        let room = |now| (now < FOLLOWERS_MAX).then_some(now + 1);
        let entered = followers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        entered.ok().map(|_| FollowerPermit(Arc::clone(&self.0)))
    }

    /// Reads the buffer once it contains what was posted before.
    fn read<T>(&self, read: impl FnOnce(&EventBuffer) -> T) -> T {
        let mut recorder = self.0.recorder.lock();
        let new = self.0.record(&mut recorder, RepeatFlush::Due);
        let answer = read(&recorder.ring);
        drop(recorder);
        self.0.announce(&new);
        answer
    }
}

/// Which of the repeated causes become events.
#[derive(Clone, Copy)]
enum RepeatFlush {
    /// Those that were gathered for long enough.
    Due,
    /// All.
    All,
}

impl EventsInner {
    /// Makes events from what was posted.
    fn record(&self, recorder: &mut EventRecorder, which: RepeatFlush) -> Vec<Arc<Event>> {
        let now = self.began.elapsed();
        let lost = self.counts.lost.load(Ordering::Relaxed);
        let more_lost = lost - recorder.lost_told;
        let EventRecorder {
            inbox,
            repeats,
            ring,
            lost_told,
        } = recorder;
        let due = match which {
            RepeatFlush::Due => repeats.due(now),
            RepeatFlush::All => Vec::new(),
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
            let cause = PostedEvent::new(EventId::EventsLost, EventReason::Overflow)
                .of(EventAmount::Events(more_lost));
            self.counts.count(&cause);
            let told = repeats.admit(now, unix_millis(), cause);
            new.extend(told.map(|cause| ring.push(unix_millis(), cause)));
        }
        if matches!(which, RepeatFlush::All) {
            let rest = repeats.all(now).into_iter();
            new.extend(rest.map(|(at, cause)| ring.push(at, cause)));
        }
        new
    }

    /// Writes new events to the log, and wakes the followers.
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

    /// Makes events until the end, and sleeps while there is nothing to make.
    fn write(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let mut recorder = self.recorder.lock();
            let new = self.record(&mut recorder, RepeatFlush::Due);
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
        let new = self.record(&mut self.recorder.lock(), RepeatFlush::All);
        self.announce(&new);
    }
}

/// The shortest sleep of the writer. What is due within it can wait as long.
const SOON: Duration = Duration::from_millis(10);

/// The thread that makes events and logs them. When it is dropped, it makes the last ones and ends.
pub(crate) struct EventWriter {
    shared: Arc<EventsInner>,
    thread: Option<JoinHandle<()>>,
}

impl EventWriter {
    /// Starts the thread. What is posted from now on becomes an event at once, and is logged.
    pub(crate) fn start(events: &Events) -> io::Result<EventWriter> {
        let shared = Arc::clone(&events.0);
        let thread = thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || shared.write())?;
        let _ = events.0.writer.set(thread.thread().clone());
        // What was posted meanwhile woke no thread.
        thread.thread().unpark();
        Ok(EventWriter {
            shared: Arc::clone(&events.0),
            thread: Some(thread),
        })
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The permit of one follower of events.
pub struct FollowerPermit(Arc<EventsInner>);

impl Drop for FollowerPermit {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Event {
    /// Writes it to the log.
    fn log(&self) {
        let PostedEvent {
            id,
            why,
            object,
            amount,
            actor,
            detail,
            count,
        } = &self.cause;
        let row = id.description();
        let amount = amount.map(|amount| amount.to_string());
        let (by, count) = (actor.to_string(), (*count > 1).then_some(*count));
        let detail = detail.to_string();
        let detail = Some(detail.as_str()).filter(|detail| !detail.is_empty());
        let tenant = object.tenant().map(TenantName::as_str);
        let (disk, listener, peer) = match object {
            EventSubject::Disk { name, .. } => (Some(name.as_str()), None, None),
            EventSubject::Listener { place, .. } => (None, Some(&**place), None),
            EventSubject::Peer(name) => (None, None, Some(&**name)),
            EventSubject::None | EventSubject::Tenant(_) => (None, None, None),
        };
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    event = row.name,
                    tenant,
                    disk,
                    listener,
                    peer,
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
            EventLevel::Debug => line!(debug),
            EventLevel::Info => line!(info),
            EventLevel::Warn => line!(warn),
            EventLevel::Error => line!(error),
        }
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
