//! A disk's Unix socket, and the one VMM that is connected to it.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use vhost::vhost_user::message::MAX_MSG_SIZE;

use crate::clock::MonotonicClock;
use crate::listeners::{SocketFile, SocketFileError};

/// How many VMMs may wait to be accepted, one after the other.
const BACKLOG: u32 = 64;

/// How long a VMM has for its first message while others wait. So the last VMM behind a full queue of silent ones waits
/// [`BACKLOG`] times as long.
const FIRST_MESSAGE_GRACE: Duration = Duration::from_millis(50);

/// How often the listener looks for the rest of a message that has begun.
const REST_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of a message's header: its type, its flags, and the bytes that follow.
const HEAD_BYTES: usize = 12;

/// The socket at which VMMs connect, one after the other.
pub(super) struct VmmListener {
    listener: UnixListener,
    file: SocketFile,
    is_shut: AtomicBool,
    /// The VMM that is served now.
    current: Mutex<Option<UnixStream>>,
    clock: MonotonicClock,
}

impl VmmListener {
    /// Listens at `path`. The file has `mode`.
    pub(super) fn open(path: &Path, mode: u32, clock: MonotonicClock) -> io::Result<VmmListener> {
        let (socket, file) = SocketFile::listen(path, mode, BACKLOG).map_err(|error| {
            let kind = match &error {
                SocketFileError::Refused(source) => source.kind(),
                SocketFileError::NotASocket | SocketFileError::Taken => io::ErrorKind::AddrInUse,
            };
            let what = format!("cannot listen for a VMM at {}: {error}", path.display());
            io::Error::new(kind, what)
        })?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(false)?;
        Ok(VmmListener {
            listener,
            file,
            is_shut: AtomicBool::new(false),
            current: Mutex::default(),
            clock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Acquire)
    }

    /// Accepts the next VMM.
    pub(super) fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept()?;
        let copy = stream.try_clone()?;
        let mut guest = self.current.lock();
        if self.is_shut() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        *guest = Some(copy);
        Ok(stream)
    }

    /// Waits until a VMM's first message is there, so that reading it does not block. A VMM that has not sent it after
    /// [`FIRST_MESSAGE_GRACE`] gives way when the next one connects. A VMM that stops in the middle of the message is
    /// disconnected after `silence_max`.
    pub(super) fn wait_first_message(
        &self,
        stream: &UnixStream,
        silence_max: Duration,
    ) -> io::Result<()> {
        let since = self.clock.now();
        loop {
            let arrived = peek_message(stream)?;
            if arrived == MessageArrival::All {
                return Ok(());
            }
            let elapsed = self.clock.now() - since;
            let grace = FIRST_MESSAGE_GRACE.min(silence_max).saturating_sub(elapsed);
            let is_late = grace.is_zero();
            let is_over = arrived == MessageArrival::Part && elapsed >= silence_max;
            let gives_way = || poll_readable(&[self.listener.as_fd()], Some(Duration::ZERO));
            if is_over || (is_late && gives_way()?) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match arrived {
                // The first part has made the socket readable already, so no event reports the rest.
                MessageArrival::Part => poll_readable(&[], Some(REST_INTERVAL))?,
                _ if is_late => poll_readable(&[stream.as_fd(), self.listener.as_fd()], None)?,
                _ => poll_readable(&[stream.as_fd()], Some(grace))?,
            };
        }
    }

    /// Disconnects the VMM that was served, whether it knows that or not.
    pub(super) fn disconnect(&self) {
        if let Some(stream) = self.current.lock().take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Accepts nobody from now on.
    pub(super) fn shut(&self) {
        self.is_shut.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.disconnect();
    }
}

/// How much of a first message has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageArrival {
    Nothing,
    Part,
    All,
}

/// Looks at the message without taking it. A message that is longer than any valid one counts as complete, so that it
/// is read and refused.
fn peek_message(stream: &UnixStream) -> io::Result<MessageArrival> {
    let mut bytes = [0; HEAD_BYTES + MAX_MSG_SIZE];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let count = match rustix::net::recv(stream, &mut bytes, flags) {
        Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok((_, count)) => count,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(MessageArrival::Nothing),
        Err(error) => return Err(error.into()),
    };
    let size = bytes[8..HEAD_BYTES]
        .first_chunk()
        .map_or(0, |size| u32::from_ne_bytes(*size));
    let whole = HEAD_BYTES + (size as usize).min(MAX_MSG_SIZE);
    Ok(match count >= whole {
        true => MessageArrival::All,
        false => MessageArrival::Part,
    })
}

/// Waits until one of the sockets is readable, for at most `longest`. Returns whether one is.
fn poll_readable(which: &[BorrowedFd<'_>], longest: Option<Duration>) -> io::Result<bool> {
    let mut looks: Vec<PollFd<'_>> = which
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let longest = longest.map(|longest| Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: i64::from(longest.subsec_nanos()),
    });
    match poll(&mut looks, longest.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::clock::ManualClock;

    /// One VMM sends nothing, and others send only a part of a message.
    #[test]
    fn who_has_not_said_its_first_message_gives_way_to_the_next() {
        const PATIENCE: Duration = Duration::from_secs(3600);
        let time = ManualClock::start();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let listener = VmmListener::open(&path, 0o600, time.clock()).expect("a listener");
        for bytes in [&[][..], &[1], &[1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1]] {
            let mut silent = UnixStream::connect(&path).expect("connected");
            silent.write_all(bytes).expect("written");
            let first = listener.accept().expect("the silent one");
            let mut next = UnixStream::connect(&path).expect("connected");
            next.write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
                .expect("written");
            let end = std::thread::scope(|scope| {
                let waits = scope.spawn(|| listener.wait_first_message(&first, PATIENCE));
                // Two moves of the clock end the wait, whenever it began.
                while !waits.is_finished() {
                    time.advance(PATIENCE);
                    std::thread::yield_now();
                }
                waits.join().expect("it ends").expect_err("it gives way")
            });
            assert_eq!(end.kind(), io::ErrorKind::TimedOut);
            let second = listener.accept().expect("the next one");
            listener
                .wait_first_message(&second, PATIENCE)
                .expect("it has spoken");
        }
    }

    #[test]
    fn a_queue_of_the_silent_is_gone_through_long_before_one_of_them_is_late() {
        const LATE: Duration = Duration::from_secs(600);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let clock = MonotonicClock::default();
        let listener = VmmListener::open(&path, 0o600, clock).expect("a listener");
        let silent = [(); 10].map(|()| UnixStream::connect(&path).expect("queued"));
        let mut last = UnixStream::connect(&path).expect("queued");
        last.write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
            .expect("written");
        for _ in &silent {
            let first = listener.accept().expect("a silent one");
            let end = listener
                .wait_first_message(&first, LATE)
                .expect_err("it gives way");
            assert_eq!(end.kind(), io::ErrorKind::TimedOut);
        }
        let last = listener.accept().expect("the last");
        listener
            .wait_first_message(&last, LATE)
            .expect("it has spoken");
    }

    #[test]
    fn shutting_ends_a_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, clock) = (folder.path().join("disk"), MonotonicClock::default());
        let listener = VmmListener::open(&path, 0o600, clock).expect("a listener");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| listener.accept().is_err());
            std::thread::sleep(std::time::Duration::from_millis(20));
            listener.shut();
            assert!(waits.join().expect("it ends"));
        });
    }
}
