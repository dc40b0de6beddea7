//! Waits for what passes. That is a daemon that was killed, whose sockets and locks go only after its memory, or
//! something that the host lacks for a moment.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// How long a killed daemon may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

const LOOK: Duration = Duration::from_millis(100);

/// Tries again for a while if what is in the way may pass.
pub(crate) fn retry_for_killed_daemon<T, E>(
    may_pass: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && Instant::now() < until => thread::sleep(LOOK),
            ended => return ended,
        }
    }
}

/// How long a thread that holds up others tries again for what the host lacks.
const LACK_MAX: Duration = Duration::from_secs(1);

/// Returns whether the host lacks something that it may have soon: a thread (io_uring returns `ECANCELED`), memory, or
/// a moment without a signal. Nothing is wrong with the file then.
pub(crate) fn is_transient_shortage(error: &io::Error) -> bool {
    let lacks = [Errno::AGAIN, Errno::NOMEM, Errno::INTR, Errno::CANCELED];
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| lacks.contains(&errno)) || error.kind() == io::ErrorKind::WouldBlock
}

/// Tries again for at most a second if the host lacks something.
pub(crate) fn retry_on_shortage<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + LACK_MAX;
    loop {
        match attempt() {
            Err(error) if is_transient_shortage(&error) && Instant::now() < until => {
                thread::sleep(Duration::from_millis(1));
            }
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_no_failure_and_a_failure_is_no_lack() {
        for errno in [libc::EAGAIN, libc::ENOMEM, libc::EINTR, libc::ECANCELED] {
            let mut left = 5;
            let tried = retry_on_shortage(|| {
                left -= 1;
                match left {
                    0 => Ok(()),
                    _ => Err(io::Error::from_raw_os_error(errno)),
                }
            });
            tried.expect("at last");
        }
        let mut tries = 0;
        let failed = retry_on_shortage(|| {
            tries += 1;
            Err::<(), _>(io::Error::from_raw_os_error(libc::EIO))
        });
        assert_eq!((failed.is_err(), tries), (true, 1));
    }

    #[test]
    fn what_passes_is_waited_for_and_what_does_not_is_told_at_once() {
        let mut left = 3;
        let ended = retry_for_killed_daemon(
            |_: &u32| true,
            || {
                left -= 1;
                if left == 0 { Ok("free") } else { Err(left) }
            },
        );
        assert_eq!(ended, Ok("free"));
        let begun = Instant::now();
        assert_eq!(
            retry_for_killed_daemon(|_| false, || Err::<(), _>(7)),
            Err(7)
        );
        assert!(begun.elapsed() < PATIENCE);
    }
}
