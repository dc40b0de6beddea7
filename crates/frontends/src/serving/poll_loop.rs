//! The loop in which a worker waits for the kernel's events and for its mail.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use sublet_pace::{AdaptivePoller, PollMode, PollOutcome};

use super::mailbox::{Mail, Mailbox};
use crate::clock::MonotonicClock;

/// The longest time between two polls of the kernel while turns are due or mail keeps coming.
const POLL_INTERVAL_MAX: Duration = Duration::from_micros(100);

const MAILBOX: Token = Token(usize::MAX);

/// What the kernel says of a client's side of the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerState {
    /// The client may send and read.
    #[default]
    Open,
    /// The client sends nothing more. Over TCP the kernel also says only this of a client that is gone.
    HalfClosed,
    /// The client reads nothing more.
    Closed,
}

impl PeerState {
    pub(crate) fn of(event: &Event) -> PeerState {
        match (event.is_write_closed(), event.is_read_closed()) {
            _ if event.is_error() => PeerState::Closed,
            (true, _) => PeerState::Closed,
            (false, true) => PeerState::HalfClosed,
            (false, false) => PeerState::Open,
        }
    }
}

/// One thread's epoll and mailbox, and the pace at which the thread looks at both.
pub(crate) struct PollLoop<L> {
    poll: Poll,
    /// Events that the kernel reported and the worker has not yet drained. The kernel reports each once, so it is never
    /// polled before they are drained.
    ready: Events,
    polled_at: Instant,
    mailbox: Arc<Mailbox<L>>,
    mail: Mail<L>,
    pace: AdaptivePoller,
    clock: MonotonicClock,
}

impl<L: Send + 'static> PollLoop<L> {
    /// Makes a loop in which one wait returns `events_max` events at most. `clock` gives the loop its times.
    pub(crate) fn new(events_max: usize, clock: MonotonicClock) -> io::Result<PollLoop<L>> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), MAILBOX)?;
        let mailbox = Arc::new(Mailbox::new(waker));
        clock.add_sleeper(&mailbox);
        Ok(PollLoop {
            poll,
            ready: Events::with_capacity(events_max),
            polled_at: clock.now(),
            mailbox,
            mail: Mail::default(),
            pace: AdaptivePoller::default(),
            clock,
        })
    }
}

impl<L> PollLoop<L> {
    /// Returns the clock that gives the loop its times.
    pub(crate) fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    /// Returns the mailbox of the loop's worker.
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<L>> {
        &self.mailbox
    }

    /// Waits until the kernel or the mailbox has something, or until `until`. The worker must have drained the events
    /// before.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let (poll, ready, mailbox) = (&mut self.poll, &mut self.ready, &self.mailbox);
        let clock = &self.clock;
        self.pace.wait(|mode| match mode {
            _ if mailbox.has_mail() => Ok(PollOutcome::Work),
            PollMode::NonBlocking => poll_kernel(poll, ready, Some(Duration::ZERO)),
            PollMode::Blocking => sleep(poll, ready, mailbox, clock, until),
        })
    }

    /// Waits in the same way if work also comes through shared memory. The loop calls `probe` to look there instead of
    /// polling the kernel. Before a sleep `probe` also marks there that the worker must be woken.
    pub(crate) fn wait_with_probe(
        &mut self,
        until: Option<Instant>,
        mut probe: impl FnMut(PollMode) -> PollOutcome,
    ) -> io::Result<()> {
        let (poll, ready, mailbox) = (&mut self.poll, &mut self.ready, &self.mailbox);
        let clock = &self.clock;
        self.pace.wait(|mode| match mode {
            _ if mailbox.has_mail() || probe(mode) == PollOutcome::Work => Ok(PollOutcome::Work),
            PollMode::NonBlocking => Ok(PollOutcome::Nothing),
            PollMode::Blocking => sleep(poll, ready, mailbox, clock, until),
        })
    }

    /// Polls the kernel without blocking if the last poll is long ago. Returns the current time. Call it after a wait
    /// or in place of one.
    pub(crate) fn poll_if_due(&mut self) -> io::Result<Instant> {
        let now = self.clock.now();
        let has_events = !self.ready.is_empty();
        let is_recent = now - self.polled_at < POLL_INTERVAL_MAX;
        // A clock that stands still never shows that the last poll is long ago.
        if !has_events && is_recent && self.clock.is_running() {
            return Ok(now);
        }
        self.polled_at = now;
        if !has_events {
            poll_kernel(&mut self.poll, &mut self.ready, Some(Duration::ZERO))?;
        }
        Ok(now)
    }

    /// Drains the kernel's events and passes each to `handle`.
    pub(crate) fn drain_events(&mut self, handle: impl FnMut(&Event)) {
        let events = self.ready.iter().filter(|event| event.token() != MAILBOX);
        events.for_each(handle);
        self.ready.clear();
    }

    /// Returns the mail that has come, to be drained.
    pub(crate) fn mail(&mut self) -> &mut Mail<L> {
        self.mailbox.collect(&mut self.mail);
        &mut self.mail
    }

    /// Asks the kernel to report events of `source` from now on.
    pub(crate) fn register(
        &self,
        source: &impl AsRawFd,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&source.as_raw_fd()), token, interest)
    }

    /// Changes which events of `source` the kernel reports.
    pub(crate) fn reregister(
        &self,
        source: &impl AsRawFd,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.reregister(&mut SourceFd(&source.as_raw_fd()), token, interest)
    }

    /// Ends the kernel's reports of `source`. Closing it would do as well, unless somebody else holds it open.
    pub(crate) fn deregister(&self, source: &impl AsRawFd) {
        let registry = self.poll.registry();
        let _ = registry.deregister(&mut SourceFd(&source.as_raw_fd()));
    }
}

impl<L> Drop for PollLoop<L> {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

/// Polls the kernel for events, for at most `longest`, or without a limit if `None`.
fn poll_kernel(
    poll: &mut Poll,
    ready: &mut Events,
    longest: Option<Duration>,
) -> io::Result<PollOutcome> {
    match poll.poll(ready, longest) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(PollOutcome::Nothing),
        Err(error) => Err(error),
        Ok(()) if ready.is_empty() => Ok(PollOutcome::Nothing),
        Ok(()) => Ok(PollOutcome::Work),
    }
}

fn sleep<L>(
    poll: &mut Poll,
    ready: &mut Events,
    mailbox: &Mailbox<L>,
    clock: &MonotonicClock,
    until: Option<Instant>,
) -> io::Result<PollOutcome> {
    if !mailbox.fall_asleep() {
        return Ok(PollOutcome::Work);
    }
    let outcome = poll_kernel(poll, ready, clock.longest_sleep(until));
    mailbox.wake_up();
    outcome
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;
    use crate::clock::ManualClock;

    const PLACE: Token = Token(3);

    fn drained<L>(poll: &mut PollLoop<L>) -> Vec<(Token, PeerState)> {
        let mut heard = Vec::new();
        poll.drain_events(|event| heard.push((event.token(), PeerState::of(event))));
        heard
    }

    /// Waits until `look` finds something.
    fn wait_for<L, T>(
        poll: &mut PollLoop<L>,
        mut look: impl FnMut(&mut PollLoop<L>) -> Option<T>,
    ) -> T {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(found) = look(poll) {
                return found;
            }
            assert!(Instant::now() < until, "it never comes");
            poll.wait(Some(until)).expect("waited");
        }
    }

    /// Waits for the kernel's next events.
    fn next_events<L>(poll: &mut PollLoop<L>) -> Vec<(Token, PeerState)> {
        wait_for(poll, |poll| {
            Some(drained(poll)).filter(|heard| !heard.is_empty())
        })
    }

    /// Returns when a mailbox's worker sleeps.
    fn wait_for_sleep<L>(mailbox: &Mailbox<L>) {
        while !mailbox.is_asleep() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_half_closed_client_is_distinguished_from_a_closed_one() {
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let mut poll = PollLoop::<()>::new(4, MonotonicClock::default()).expect("a loop");
        poll.register(&here, PLACE, Interest::READABLE)
            .expect("watched");
        there.write_all(b"a").expect("sent");
        assert_eq!(next_events(&mut poll), [(PLACE, PeerState::Open)]);
        there.shutdown(Shutdown::Write).expect("silent");
        assert_eq!(next_events(&mut poll), [(PLACE, PeerState::HalfClosed)]);
        drop(there);
        assert_eq!(next_events(&mut poll), [(PLACE, PeerState::Closed)]);
    }

    #[test]
    fn a_message_wakes_a_sleeping_worker() {
        let mut poll = PollLoop::new(4, MonotonicClock::default()).expect("a loop");
        let mailbox = Arc::clone(poll.mailbox());
        let sends = thread::spawn(move || {
            wait_for_sleep(&mailbox);
            mailbox.send(7);
        });
        let messages = wait_for(&mut poll, |poll| {
            poll.drain_events(|event| panic!("no source is registered: {event:?}"));
            Some(std::mem::take(&mut poll.mail().messages)).filter(|messages| !messages.is_empty())
        });
        assert_eq!(messages, [7]);
        sends.join().expect("sent");
    }

    #[test]
    fn a_wait_ends_at_its_time() {
        let mut poll = PollLoop::<()>::new(4, MonotonicClock::default()).expect("a loop");
        let until = poll.clock().now() + Duration::from_millis(20);
        while poll.poll_if_due().expect("asked") < until {
            poll.wait(Some(until)).expect("waited");
        }
        assert_eq!(drained(&mut poll), []);
    }

    #[test]
    fn a_wait_ends_when_the_clock_is_moved_to_its_time() {
        const HOUR: Duration = Duration::from_secs(3600);
        let time = ManualClock::start();
        let mut poll = PollLoop::<()>::new(4, time.clock()).expect("a loop");
        let (until, mailbox) = (time.now() + 2 * HOUR, Arc::clone(poll.mailbox()));
        let moves = thread::spawn(move || {
            for _ in 0..2 {
                wait_for_sleep(&mailbox);
                time.advance(HOUR);
            }
        });
        while poll.poll_if_due().expect("asked") < until {
            poll.wait(Some(until)).expect("waited");
            poll.mail();
        }
        assert_eq!(drained(&mut poll), []);
        moves.join().expect("moved");
    }

    #[test]
    fn whoever_has_turns_to_give_asks_the_kernel_now_and_then_only() {
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let mut poll = PollLoop::<()>::new(4, MonotonicClock::default()).expect("a loop");
        poll.register(&here, PLACE, Interest::READABLE)
            .expect("watched");
        there.write_all(b"a").expect("sent");
        poll.polled_at = poll.clock().now() + Duration::from_secs(60);
        let _ = poll.poll_if_due();
        assert_eq!(drained(&mut poll), [], "it was polled just now");
        poll.polled_at = poll.clock().now() - POLL_INTERVAL_MAX;
        poll.poll_if_due().expect("polled");
        assert_eq!(drained(&mut poll), [(PLACE, PeerState::Open)]);
    }

    #[test]
    fn work_in_memory_is_seen_without_the_kernel_and_before_a_sleep() {
        let mut poll = PollLoop::<()>::new(4, MonotonicClock::default()).expect("a loop");
        let mut looks = Vec::new();
        poll.wait_with_probe(None, |mode| {
            looks.push(mode);
            match mode {
                PollMode::NonBlocking => PollOutcome::Nothing,
                PollMode::Blocking => PollOutcome::Work,
            }
        })
        .expect("waited");
        assert_eq!(looks.last(), Some(&PollMode::Blocking));
    }
}
