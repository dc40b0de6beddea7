//! The loop that a worker waits in: for the kernel's events, and for its mail.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use sublet_pace::{Found, Look, Pace};

use super::Mailbox;
use super::mailbox::Mail;

/// How long the kernel may go unasked while there are turns to give or mail keeps coming.
const UNASKED_MAX: Duration = Duration::from_micros(100);

const MAILBOX: Token = Token(usize::MAX);

/// What the kernel says of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Presence {
    /// It may send and read.
    #[default]
    Here,
    /// It sends nothing more. Over TCP that is all that is heard of one that is gone.
    Silent,
    /// Nobody reads what it is sent.
    Gone,
}

impl Presence {
    pub(crate) fn of(event: &Event) -> Presence {
        match (event.is_write_closed(), event.is_read_closed()) {
            _ if event.is_error() => Presence::Gone,
            (true, _) => Presence::Gone,
            (false, true) => Presence::Silent,
            (false, false) => Presence::Here,
        }
    }
}

/// One thread's epoll and mailbox, and the pace at which it looks at both.
pub(crate) struct PollLoop<L> {
    poll: Poll,
    /// What the kernel said and nobody has taken yet. It says it once: the kernel is never asked over it.
    ready: Events,
    asked_at: Instant,
    mailbox: Arc<Mailbox<L>>,
    mail: Mail<L>,
    pace: Pace,
}

impl<L> PollLoop<L> {
    /// A loop in which one wait brings `events_max` events at most.
    pub(crate) fn new(events_max: usize) -> io::Result<PollLoop<L>> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), MAILBOX)?;
        Ok(PollLoop {
            poll,
            ready: Events::with_capacity(events_max),
            asked_at: Instant::now(),
            mailbox: Arc::new(Mailbox::new(waker)),
            mail: Mail::default(),
            pace: Pace::default(),
        })
    }

    /// Where its worker gets its mail.
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox<L>> {
        &self.mailbox
    }

    /// Waits until the kernel or the mailbox has something, or until then. Its events must have been taken before.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let (poll, ready, mailbox) = (&mut self.poll, &mut self.ready, &self.mailbox);
        self.pace.wait(|look| match look {
            _ if mailbox.has_mail() => Ok(Found::Work),
            Look::Glance => ask(poll, ready, Some(Duration::ZERO)),
            Look::Sleep => sleep(poll, ready, mailbox, until),
        })
    }

    /// The same where work comes through memory: `beside` looks there instead of asking the kernel, and before a sleep
    /// it says there that the worker has to be woken.
    pub(crate) fn wait_beside(
        &mut self,
        until: Option<Instant>,
        mut beside: impl FnMut(Look) -> Found,
    ) -> io::Result<()> {
        let (poll, ready, mailbox) = (&mut self.poll, &mut self.ready, &self.mailbox);
        self.pace.wait(|look| match look {
            _ if mailbox.has_mail() || beside(look) == Found::Work => Ok(Found::Work),
            Look::Glance => Ok(Found::Nothing),
            Look::Sleep => sleep(poll, ready, mailbox, until),
        })
    }

    /// Asks the kernel if that was not done for long; says what time it is. To be called after a wait, or in place of
    /// one.
    pub(crate) fn glance(&mut self) -> io::Result<Instant> {
        let now = Instant::now();
        let is_told = !self.ready.is_empty();
        if !is_told && now - self.asked_at < UNASKED_MAX {
            return Ok(now);
        }
        self.asked_at = now;
        if !is_told {
            ask(&mut self.poll, &mut self.ready, Some(Duration::ZERO))?;
        }
        Ok(now)
    }

    /// Takes what the kernel said: `hear` gets each event.
    pub(crate) fn take_events(&mut self, hear: impl FnMut(&Event)) {
        let events = self.ready.iter().filter(|event| event.token() != MAILBOX);
        events.for_each(hear);
        self.ready.clear();
    }

    /// The mail that has come, to be drained.
    pub(crate) fn mail(&mut self) -> &mut Mail<L> {
        self.mailbox.collect(&mut self.mail);
        &mut self.mail
    }

    /// From now on the kernel tells what becomes of `which`.
    pub(crate) fn watch(
        &self,
        which: &impl AsRawFd,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&which.as_raw_fd()), token, interest)
    }

    /// From now on the kernel tells something else of `which`.
    pub(crate) fn watch_for(
        &self,
        which: &impl AsRawFd,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.reregister(&mut SourceFd(&which.as_raw_fd()), token, interest)
    }

    /// The kernel tells nothing more of `which`. To close it would do as well, unless somebody else holds it open.
    pub(crate) fn forget(&self, which: &impl AsRawFd) {
        let registry = self.poll.registry();
        let _ = registry.deregister(&mut SourceFd(&which.as_raw_fd()));
    }
}

impl<L> Drop for PollLoop<L> {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

/// Asks the kernel for events, for at most `longest`; for as long as it takes if `None`.
fn ask(poll: &mut Poll, ready: &mut Events, longest: Option<Duration>) -> io::Result<Found> {
    match poll.poll(ready, longest) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Found::Nothing),
        Err(error) => Err(error),
        Ok(()) if ready.is_empty() => Ok(Found::Nothing),
        Ok(()) => Ok(Found::Work),
    }
}

fn sleep<L>(
    poll: &mut Poll,
    ready: &mut Events,
    mailbox: &Mailbox<L>,
    until: Option<Instant>,
) -> io::Result<Found> {
    if !mailbox.fall_asleep() {
        return Ok(Found::Work);
    }
    let longest = until.map(|at| at.saturating_duration_since(Instant::now()));
    let found = ask(poll, ready, longest);
    mailbox.wake_up();
    found
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    const PLACE: Token = Token(3);

    fn heard<L>(poll: &mut PollLoop<L>) -> Vec<(Token, Presence)> {
        let mut heard = Vec::new();
        poll.take_events(|event| heard.push((event.token(), Presence::of(event))));
        heard
    }

    /// Waits for what the kernel says next.
    fn next<L>(poll: &mut PollLoop<L>) -> Vec<(Token, Presence)> {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            poll.wait(Some(until)).expect("waited");
            let heard = heard(poll);
            if !heard.is_empty() {
                return heard;
            }
        }
        Vec::new()
    }

    #[test]
    fn a_client_that_is_silent_is_told_from_one_that_is_gone() {
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let mut poll = PollLoop::<()>::new(4).expect("a loop");
        poll.watch(&here, PLACE, Interest::READABLE)
            .expect("watched");
        there.write_all(b"a").expect("sent");
        assert_eq!(next(&mut poll), [(PLACE, Presence::Here)]);
        there.shutdown(Shutdown::Write).expect("silent");
        assert_eq!(next(&mut poll), [(PLACE, Presence::Silent)]);
        drop(there);
        assert_eq!(next(&mut poll), [(PLACE, Presence::Gone)]);
    }

    #[test]
    fn a_letter_wakes_a_sleeper() {
        let mut poll = PollLoop::new(4).expect("a loop");
        let mailbox = Arc::clone(poll.mailbox());
        let sends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            mailbox.send(7);
        });
        let until = Instant::now() + Duration::from_secs(10);
        while poll.mail().letters.is_empty() && Instant::now() < until {
            poll.wait(Some(until)).expect("waited");
            poll.take_events(|event| panic!("nobody is watched: {event:?}"));
        }
        assert_eq!(poll.mail().letters, [7]);
        sends.join().expect("sent");
    }

    #[test]
    fn a_wait_ends_at_its_time() {
        let mut poll = PollLoop::<()>::new(4).expect("a loop");
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {
            poll.wait(Some(until)).expect("waited");
        }
        assert_eq!(heard(&mut poll), []);
    }

    #[test]
    fn whoever_has_turns_to_give_asks_the_kernel_now_and_then_only() {
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let mut poll = PollLoop::<()>::new(4).expect("a loop");
        poll.watch(&here, PLACE, Interest::READABLE)
            .expect("watched");
        there.write_all(b"a").expect("sent");
        poll.asked_at = Instant::now() + Duration::from_secs(60);
        let _ = poll.glance();
        assert_eq!(heard(&mut poll), [], "it was asked just now");
        poll.asked_at = Instant::now() - UNASKED_MAX;
        poll.glance().expect("asked");
        assert_eq!(heard(&mut poll), [(PLACE, Presence::Here)]);
    }

    #[test]
    fn work_in_memory_is_seen_without_the_kernel_and_before_a_sleep() {
        let mut poll = PollLoop::<()>::new(4).expect("a loop");
        let mut looks = Vec::new();
        poll.wait_beside(None, |look| {
            looks.push(look);
            match look {
                Look::Glance => Found::Nothing,
                Look::Sleep => Found::Work,
            }
        })
        .expect("waited");
        assert_eq!(looks.last(), Some(&Look::Sleep));
    }
}
