//! A disk's Unix socket, and the one VMM that is connected to it.

use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::Mode;

/// Where VMMs knock, one after the other.
pub(super) struct Door {
    listener: UnixListener,
    path: PathBuf,
    inode: (u64, u64),
    is_shut: AtomicBool,
    /// The VMM that is served now.
    guest: Mutex<Option<UnixStream>>,
}

impl Door {
    /// Listens at `path`. The file has `mode`.
    pub(super) fn open(path: &Path, mode: u32) -> io::Result<Door> {
        clear_stale(path)?;
        // The file is never, not even for an instant, more open than its mode.
        let before = rustix::process::umask(Mode::from_bits_truncate(!mode & 0o777));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = bound?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(Door {
            listener,
            path: path.to_owned(),
            inode: inode_of(path)?,
            is_shut: AtomicBool::new(false),
            guest: Mutex::default(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
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

/// The file goes with its door, unless another took its place.
impl Drop for Door {
    fn drop(&mut self) {
        if inode_of(&self.path).is_ok_and(|now| now == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket file that nobody listens at; refuses anything else that is in the way.
fn clear_stale(path: &Path) -> io::Result<()> {
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return Err(taken(path, "the path exists and is no socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(taken(
            path,
            "somebody listens there already, another process or a part of this one",
        )),
    }
}

fn taken(path: &Path, why: &str) -> io::Error {
    let what = format!("cannot listen for a VMM at {}: {why}", path.display());
    io::Error::new(io::ErrorKind::AddrInUse, what)
}

fn inode_of(path: &Path) -> io::Result<(u64, u64)> {
    let there = fs::symlink_metadata(path)?;
    Ok((there.dev(), there.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        drop(UnixListener::bind(&path).expect("a stale socket"));
        let live = Door::open(&path, 0o640).expect("the stale file makes way");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(Door::open(&path, 0o600).is_err(), "it is taken");
        drop(live);
        assert!(!path.exists(), "the file goes with its door");
        fs::write(&path, "letters").expect("a file");
        assert!(Door::open(&path, 0o600).is_err(), "it is no socket");
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
