//! What wakes a disk's thread: an eventfd that its frontends, its backing and whoever ends it ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// How long to wait where the kernel cannot.
const LACK_PAUSE: Duration = Duration::from_millis(1);

/// A bell. Ringing it more than once before it is heard is as good as once.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Bell(eventfd(0, flags)?))
    }

    pub(super) fn ring(&self) {
        // It fails only when it rings 2^64 times unheard.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits until it rings, or for so long.
    pub(super) fn wait(&self, longest: Option<Duration>) -> io::Result<()> {
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut fds, longest.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // The kernel has no memory for it in this moment.
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

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
