//! The process itself: its user, its limits, and its pid file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{User, setgid, setgroups, setuid};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, getuid, setrlimit};
use sublet_host::memory_lock::lock_all;

use super::exit_statuses::{EX_NOUSER, EX_OSERR};
use crate::exit::print_error;

/// Descriptors besides connections: listeners, epolls, files.
const OTHER_DESCRIPTORS: u64 = 64;

/// Why the process could not be set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    #[error("-u {0}: no such user")]
    NoSuchUser(String),
    #[error("-u {user}: cannot become this user: {source}")]
    CannotBecome { user: String, source: Errno },
    #[error(
        "-c {connections}: cannot raise the limit on open files above {limit}; start as root, raise `ulimit -n`, or lower -c"
    )]
    TooFewDescriptors { connections: usize, limit: u64 },
    #[error("-r: core files are forbidden by the limit (`ulimit -Hc`)")]
    NoCoreFiles,
    #[error("cannot write {path}: {source}")]
    PidFile { path: PathBuf, source: io::Error },
}

impl ProcessError {
    /// memcached's exit status for the error.
    pub(super) fn exit(&self) -> u8 {
        match self {
            ProcessError::NoSuchUser(_) => EX_NOUSER,
            _ => EX_OSERR,
        }
    }
}

/// Raises the limit of descriptors for that many connections.
pub(super) fn raise_descriptors(connections: usize) -> Result<(), ProcessError> {
    let wanted = connections as u64 + OTHER_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|soft| soft >= wanted) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: maximum.map(|hard| hard.max(wanted)),
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| ProcessError::TooFewDescriptors {
        connections,
        limit: maximum.unwrap_or(u64::MAX),
    })
}

/// Allows core files as large as the system permits.
pub(super) fn raise_core_limit() -> Result<(), ProcessError> {
    if set_core_limit(None).is_err() {
        let _ = set_core_limit(getrlimit(Resource::Core).maximum);
    }
    match getrlimit(Resource::Core).current {
        Some(0) => Err(ProcessError::NoCoreFiles),
        _ => Ok(()),
    }
}

fn set_core_limit(limit: Option<u64>) -> rustix::io::Result<()> {
    setrlimit(
        Resource::Core,
        Rlimit {
            current: limit,
            maximum: limit,
        },
    )
}

/// Becomes another user, for good. Only root can. For others `-u` has no effect.
pub(super) fn become_user(name: &str) -> Result<(), ProcessError> {
    if !geteuid().is_root() && !getuid().is_root() {
        return Ok(());
    }
    let found = User::from_name(name).ok().flatten();
    let user = found.ok_or_else(|| ProcessError::NoSuchUser(name.to_owned()))?;
    let cannot = |source| ProcessError::CannotBecome {
        user: name.to_owned(),
        source,
    };
    match setgroups(&[]) {
        // The process already lacks privileges, as in some containers.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(error) => return Err(cannot(error)),
    }
    setgid(user.gid).map_err(cannot)?;
    setuid(user.uid).map_err(cannot)
}

/// Keeps the process's memory out of the swap. If that is not allowed, it logs so and goes on.
pub(super) fn lock_memory() {
    if let Err(error) = lock_all() {
        print_error(format_args!(
            "warning: -k: memory is not locked: {error}; raise `ulimit -l`"
        ));
    }
}

/// The file that holds the process id. It is removed when the process ends normally.
pub(super) struct PidFile(PathBuf);

impl PidFile {
    pub(super) fn write(path: &Path) -> Result<PidFile, ProcessError> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".tmp");
        let written = fs::write(&draft, format!("{}\n", std::process::id()))
            .and_then(|()| fs::rename(&draft, path));
        match written {
            Ok(()) => Ok(PidFile(path.to_owned())),
            Err(source) => Err(ProcessError::PidFile {
                path: path.to_owned(),
                source,
            }),
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_holds_the_pid_and_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pid");
        let file = PidFile::write(&path).expect("written");
        let text = fs::read_to_string(&path).expect("there");
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
    }
}
