//! Locks of open files (OFD locks), of one byte each. A lock is held until the last descriptor of that open file is
//! closed. No other open file, not even of the same process, has it meanwhile.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

/// Who else may lock the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// All open files that lock it the same way.
    Shared,
    /// No other open file. The file must be open for writing.
    Exclusive,
}

/// Locks a byte. Returns whether no other open file is in the way.
pub(crate) fn lock(file: &File, hold: LockMode, byte: i64) -> io::Result<bool> {
    let kind = match hold {
        LockMode::Shared => libc::F_RDLCK,
        LockMode::Exclusive => libc::F_WRLCK,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&byte_lock(kind, byte))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether another open file has that byte locked.
pub(crate) fn is_locked_by_other(file: &File, byte: i64) -> io::Result<bool> {
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
