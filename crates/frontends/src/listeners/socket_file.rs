//! The file of a Unix socket. The listener makes it and removes it, and leaves files of others alone.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// A socket's file. Dropping this removes the file, unless another file took its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

/// Why the daemon cannot listen at a path.
#[derive(Debug, thiserror::Error)]
pub enum SocketFileError {
    /// Something that is no socket has the path.
    #[error("the path exists and is no socket; remove it or choose another")]
    NotASocket,
    /// Another process, or a part of this one, listens there.
    #[error(
        "another process, or a part of this one, listens there already; stop it or choose another"
    )]
    Taken,
    /// The kernel refused.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

impl SocketFile {
    /// Listens at a path with a socket that never blocks. The file has `mode`. A socket file at which nobody listens
    /// any more is replaced.
    ///
    /// # Errors
    ///
    /// See [`SocketFileError`]. A file that was there stays.
    pub fn listen(
        path: &Path,
        mode: u32,
        backlog: u32,
    ) -> Result<(OwnedFd, SocketFile), SocketFileError> {
        clear_stale(path)?;
        let (socket, inode) = bind(path, mode, backlog).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => SocketFileError::Taken,
            _ => SocketFileError::Refused(error),
        })?;
        let path = path.to_owned();
        Ok((socket, SocketFile { path, inode }))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode_of(&self.path).is_ok_and(|now| now == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds the socket. It gets its mode before it gets a name, so the file is never more open than its mode, not even for
/// an instant.
fn bind(path: &Path, mode: u32, backlog: u32) -> io::Result<(OwnedFd, (u64, u64))> {
    let socket = unix_socket()?;
    rustix::fs::fchmod(&socket, Mode::from_bits_truncate(mode))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // The process's mask took away some bits of the mode.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok((socket, inode_of(path)?))
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    Ok(socket?)
}

/// Removes the socket file that a killed process left. A socket file at which somebody answers is not ours to remove.
fn clear_stale(path: &Path) -> Result<(), SocketFileError> {
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return Err(SocketFileError::NotASocket);
    }
    match rustix::net::connect(
        &unix_socket()?,
        &SocketAddrUnix::new(path).map_err(io::Error::from)?,
    ) {
        // A listener whose queue is full listens, too.
        Ok(()) | Err(Errno::AGAIN) => Err(SocketFileError::Taken),
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(error) => Err(SocketFileError::Refused(error.into())),
    }
}

fn inode_of(path: &Path) -> io::Result<(u64, u64)> {
    let there = fs::symlink_metadata(path)?;
    Ok((there.dev(), there.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("a stale socket"));
        let (_live, file) = SocketFile::listen(&path, 0o666, 8).expect("the stale file makes way");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "whatever the process's mask");
        let taken = SocketFile::listen(&path, 0o600, 8);
        assert!(matches!(taken, Err(SocketFileError::Taken)), "{taken:?}");
        drop(file);
        assert!(!path.exists(), "the file goes with its listener");

        fs::write(&path, "letters").expect("a file");
        let refused = SocketFile::listen(&path, 0o600, 8);
        assert!(
            matches!(refused, Err(SocketFileError::NotASocket)),
            "{refused:?}"
        );
        assert_eq!(fs::read(&path).expect("still there"), b"letters");
    }

    #[test]
    fn a_file_that_took_its_place_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let (_first, first) = SocketFile::listen(&path, 0o600, 8).expect("it listens");
        fs::remove_file(&path).expect("removed");
        let (_second, _file) = SocketFile::listen(&path, 0o600, 8).expect("it listens");
        drop(first);
        assert!(path.exists());
    }
}
