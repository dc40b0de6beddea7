//! Locks of open files (OFD locks): of a byte each, held until the last descriptor of that open file is closed, and by
//! nobody else in the same process.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

/// Who else may hold a byte that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// All who hold it like that.
    Shared,
    /// Nobody. The file has to be open for writing.
    Alone,
}

/// Locks a byte. Says whether nobody else is in the way.
pub(crate) fn lock(file: &File, hold: Hold, byte: i64) -> io::Result<bool> {
    let kind = match hold {
        Hold::Shared => libc::F_RDLCK,
        Hold::Alone => libc::F_WRLCK,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&byte_lock(kind, byte))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether another open file has that byte locked.
pub(crate) fn is_anothers(file: &File, byte: i64) -> io::Result<bool> {
    let mut asked = byte_lock(libc::F_WRLCK, byte);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked))?;
    Ok(i32::from(asked.l_type) != libc::F_UNLCK)
}

fn byte_lock(kind: i32, byte: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}
