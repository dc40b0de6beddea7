//! A disk's Unix socket, and the one VMM that is connected to it.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use vhost::vhost_user::message::MAX_MSG_SIZE;

use crate::doors::{SocketFile, SocketFileError};

/// VMMs that wait to be let in, one after the other.
const BACKLOG: u32 = 64;

/// A VMM that is let in has so long for its first message, whoever knocks: the last of a full queue of silent ones waits
/// for [`BACKLOG`] of them.
const HEARING: Duration = Duration::from_millis(50);

/// How often it is looked for the rest of a message that has begun.
const REST_INTERVAL: Duration = Duration::from_millis(20);

/// A message's head: what it is, its flags, and the bytes that follow.
const HEAD_BYTES: usize = 12;

/// Where VMMs knock, one after the other.
pub(super) struct Door {
    listener: UnixListener,
    file: SocketFile,
    is_shut: AtomicBool,
    /// The VMM that is served now.
    guest: Mutex<Option<UnixStream>>,
}

impl Door {
    /// Listens at `path`. The file has `mode`.
    pub(super) fn open(path: &Path, mode: u32) -> io::Result<Door> {
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
        Ok(Door {
            listener,
            file,
            is_shut: AtomicBool::new(false),
            guest: Mutex::default(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Acquire)
    }

    /// Waits for the next VMM.
    pub(super) fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept()?;
        let copy = stream.try_clone()?;
        let mut guest = self.guest.lock();
        if self.is_shut() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        *guest = Some(copy);
        Ok(stream)
    }

    /// Waits until a VMM's first message is there, so that reading it does not block. Who has not said it after
    /// [`HEARING`] gives way when the next one knocks; who stops in the middle of it is over after `silence_max`.
    pub(super) fn hears(&self, stream: &UnixStream, silence_max: Duration) -> io::Result<()> {
        let since = Instant::now();
        loop {
            let arrived = arrived(stream)?;
            if arrived == Arrived::All {
                return Ok(());
            }
            let patience = HEARING.min(silence_max).saturating_sub(since.elapsed());
            let is_late = patience.is_zero();
            let is_over = arrived == Arrived::Part && since.elapsed() >= silence_max;
            let gives_way = || is_readable(&[self.listener.as_fd()], Some(Duration::ZERO));
            if is_over || (is_late && gives_way()?) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match arrived {
                // What has come is readable already: nothing says when the rest is.
                Arrived::Part => is_readable(&[], Some(REST_INTERVAL))?,
                _ if is_late => is_readable(&[stream.as_fd(), self.listener.as_fd()], None)?,
                _ => is_readable(&[stream.as_fd()], Some(patience))?,
            };
        }
    }

    /// The VMM that was served is to go, whether it knows or not.
    pub(super) fn dismiss(&self) {
        if let Some(stream) = self.guest.lock().take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Nobody is let in from now on.
    pub(super) fn shut(&self) {
        self.is_shut.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        self.dismiss();
    }
}

/// How much of a first message is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrived {
    Nothing,
    Part,
    All,
}

/// Looks without taking. A message that is longer than any is read and refused.
fn arrived(stream: &UnixStream) -> io::Result<Arrived> {
    let mut bytes = [0; HEAD_BYTES + MAX_MSG_SIZE];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let count = match rustix::net::recv(stream, &mut bytes, flags) {
        Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok((_, count)) => count,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Arrived::Nothing),
        Err(error) => return Err(error.into()),
    };
    let size = bytes[8..HEAD_BYTES]
        .first_chunk()
        .map_or(0, |size| u32::from_ne_bytes(*size));
    let whole = HEAD_BYTES + (size as usize).min(MAX_MSG_SIZE);
    Ok(match count >= whole {
        true => Arrived::All,
        false => Arrived::Part,
    })
}

/// Waits until one of them has something to read, for at most `longest`; says whether one has.
fn is_readable(which: &[BorrowedFd<'_>], longest: Option<Duration>) -> io::Result<bool> {
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

    /// One that says nothing, and one that says a byte now and then.
    #[test]
    fn who_has_not_said_its_first_message_gives_way_to_the_next() {
        const PATIENCE: Duration = Duration::from_millis(100);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let door = Door::open(&path, 0o600).expect("a door");
        for said in [&[][..], &[1], &[1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1]] {
            let mut silent = UnixStream::connect(&path).expect("let in");
            silent.write_all(said).expect("heard");
            let first = door.accept().expect("the silent one");
            let mut next = UnixStream::connect(&path).expect("let in");
            next.write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
                .expect("heard");
            let end = door.hears(&first, PATIENCE).expect_err("it gives way");
            assert_eq!(end.kind(), io::ErrorKind::TimedOut);
            let second = door.accept().expect("the next one");
            door.hears(&second, PATIENCE).expect("it has spoken");
        }
    }

    #[test]
    fn a_queue_of_the_silent_is_gone_through_long_before_one_of_them_is_late() {
        const LATE: Duration = Duration::from_secs(600);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let door = Door::open(&path, 0o600).expect("a door");
        let silent = [(); 10].map(|()| UnixStream::connect(&path).expect("queued"));
        let mut last = UnixStream::connect(&path).expect("queued");
        last.write_all(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
            .expect("heard");
        for _ in &silent {
            let first = door.accept().expect("a silent one");
            let end = door.hears(&first, LATE).expect_err("it gives way");
            assert_eq!(end.kind(), io::ErrorKind::TimedOut);
        }
        let heard = door.accept().expect("the last");
        door.hears(&heard, LATE).expect("it has spoken");
    }

    #[test]
    fn shutting_ends_a_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let door = Door::open(&folder.path().join("disk"), 0o600).expect("a door");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| door.accept().is_err());
            std::thread::sleep(std::time::Duration::from_millis(20));
            door.shut();
            assert!(waits.join().expect("it ends"));
        });
    }
}
