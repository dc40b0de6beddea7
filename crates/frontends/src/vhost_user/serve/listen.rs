//! A disk's Unix socket, and the one VMM that is connected to it.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::doors::{SocketFile, SocketFileError};

/// VMMs that wait to be let in, one after the other.
const BACKLOG: u32 = 128;

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

#[cfg(test)]
mod tests {
    use super::*;

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
