//! Wakes a disk's thread: an eventfd that its frontends, its backing and its owner notify.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// How long to wait if the kernel cannot.
const LACK_PAUSE: Duration = Duration::from_millis(1);

/// An event descriptor. Several notifications before a wait count as one.
#[derive(Debug)]
pub(super) struct EventFd(OwnedFd);

impl EventFd {
    pub(super) fn new() -> io::Result<EventFd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(EventFd(eventfd(0, flags)?))
    }

    pub(super) fn notify(&self) {
        // This fails only after 2^64 notifications without a wait.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits until it is notified, or at most `longest`.
    pub(super) fn wait(&self, longest: Option<Duration>) -> io::Result<()> {
        self.wait_beside(&mut std::iter::empty(), longest)
    }

    /// Waits until it is notified or one of the others is ready, or at most `longest`.
    pub(super) fn wait_beside(
        &self,
        others: &mut dyn Iterator<Item = (BorrowedFd<'_>, PollFlags)>,
        longest: Option<Duration>,
    ) -> io::Result<()> {
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        let own = PollFd::new(&self.0, PollFlags::IN);
        let mut others = others.map(|(fd, events)| PollFd::from_borrowed_fd(fd, events));
        let polled = match (others.next(), others.next()) {
            (None, _) => poll(&mut [own], longest.as_ref()),
            // A disk with one lender allocates nothing.
            (Some(first), None) => poll(&mut [own, first], longest.as_ref()),
            (Some(first), Some(second)) => {
                let mut all = vec![own, first, second];
                all.extend(others);
                poll(&mut all, longest.as_ref())
            }
        };
        match polled {
            Ok(_) | Err(Errno::INTR) => {}
            // The kernel has no memory for it at this moment.
            Err(Errno::NOMEM | Errno::AGAIN) => std::thread::sleep(LACK_PAUSE),
            Err(error) => return Err(error.into()),
        }
        let mut count = [0; 8];
        match rustix::io::read(&self.0, &mut count) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
