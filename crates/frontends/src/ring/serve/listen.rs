//! A tenant's Unix socket.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket, Type};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Why a ring's socket cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The kernel refused.
    #[error("cannot listen for rings at {path}: {source}")]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path is taken by something that is no socket.
    #[error(
        "cannot listen for rings at {0}: the path exists and is no socket; remove it or choose another"
    )]
    NotASocket(PathBuf),
    /// Another process listens there.
    #[error("cannot listen for rings at {0}: another process listens there")]
    Taken(PathBuf),
}

/// A socket that listens for rings.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: OwnedFd,
    path: PathBuf,
    inode: (u64, u64),
}

impl Listener {
    /// Listens at `path`. The file has `mode`; who may connect is checked besides.
    ///
    /// # Errors
    ///
    /// The path is taken, or the kernel refuses.
    pub fn bind(path: &Path, mode: u32) -> Result<Listener, ListenError> {
        clear_stale(path)?;
        let listen = || -> io::Result<Listener> {
            let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
            // The file is never, not even for an instant, more open than its mode.
            let before = rustix::process::umask(Mode::from_bits_truncate(!mode & 0o777));
            let bound = socket.bind(&SockAddr::unix(path)?);
            rustix::process::umask(before);
            bound?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            socket.listen(BACKLOG)?;
            Ok(Listener {
                socket: socket.into(),
                path: path.to_owned(),
                inode: inode_of(path)?,
            })
        };
        listen().map_err(|source| refused(path, source))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The file goes with its listener, unless another took its place.
impl Drop for Listener {
    fn drop(&mut self) {
        if inode_of(&self.path).is_ok_and(|now| now == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket file that nobody listens at; refuses anything else that is in the way.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return Err(ListenError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| refused(path, source))
        }
        _ => Err(ListenError::Taken(path.to_owned())),
    }
}

fn refused(path: &Path, source: io::Error) -> ListenError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken(path),
        _ => ListenError::Refused { path, source },
    }
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
        let path = folder.path().join("ring");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a stale socket"));
        let live = Listener::bind(&path, 0o640).expect("the stale file makes way");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let second = Listener::bind(&path, 0o600);
        assert!(matches!(second, Err(ListenError::Taken(_))), "{second:?}");
        drop(live);
        assert!(!path.exists(), "the file goes with its listener");
        fs::write(&path, "letters").expect("a file");
        let third = Listener::bind(&path, 0o600);
        assert!(matches!(third, Err(ListenError::NotASocket(_))));
        assert_eq!(fs::read(&path).expect("still there"), b"letters");
    }
}
