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
        self.wait_beside(&mut std::iter::empty(), longest)?;
        Ok(())
    }

    /// Waits until it is notified or one of the others is ready, or at most `longest`. Returns whether one of the others
    /// is ready.
    pub(super) fn wait_beside(
        &self,
        others: &mut dyn Iterator<Item = (BorrowedFd<'_>, PollFlags)>,
        longest: Option<Duration>,
    ) -> io::Result<bool> {
        let own = PollFd::new(&self.0, PollFlags::IN);
        let mut others = others.map(|(fd, events)| PollFd::from_borrowed_fd(fd, events));
        match (others.next(), others.next()) {
            (None, _) => self.wait_for(&mut [own], longest),
            // A disk with one lender allocates nothing.
            (Some(first), None) => self.wait_for(&mut [own, first], longest),
            (Some(first), Some(second)) => {
                let mut all = vec![own, first, second];
                all.extend(others);
                self.wait_for(&mut all, longest)
            }
        }
    }

    /// Waits for descriptors of which the first is its own. Returns whether one of the others is ready.
    fn wait_for(&self, all: &mut [PollFd<'_>], longest: Option<Duration>) -> io::Result<bool> {
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        match poll(all, longest.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            // The kernel has no memory for it at this moment.
            Err(Errno::NOMEM | Errno::AGAIN) => {
                std::thread::sleep(LACK_PAUSE);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
        let (own, others) = all.split_first().expect("its own is the first");
        if is_ready(own) {
            self.clear()?;
        }
        Ok(others.iter().any(is_ready))
    }

    /// Forgets the notifications before.
    fn clear(&self) -> io::Result<()> {
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
