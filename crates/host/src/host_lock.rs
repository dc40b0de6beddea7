//! The lock that lets only one daemon per host size itself by the host's memory. Of two such daemons, each would take
//! the other's arena for the host's need.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::retry::retry_for_killed_daemon;
use crate::stuck;

/// Held by the daemon that sizes itself.
#[derive(Debug)]
pub(crate) struct HostLock(
    #[expect(dead_code, reason = "the lock lives as long as the file is open")] File,
);

/// Why this daemon may not size itself.
#[derive(Debug, thiserror::Error)]
pub enum HostLockError {
    /// Another daemon already does.
    #[error("another sublet{} sizes itself by this host's memory already; stop it, or give this one a ceiling: sublet serve --ceiling 1GiB", .0.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held(Option<u32>),
    /// The daemon cannot find out.
    #[error(
        "cannot lock {path}: {source}; a daemon with a ceiling needs no lock: sublet serve --ceiling 1GiB"
    )]
    Lock {
        /// The lock.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The folder where every user of the host may put a lock.
const SHARED: &str = "/run/lock";

impl HostLock {
    /// Takes the lock. `folder` is its place on hosts without `/run/lock`.
    pub(crate) fn claim(folder: &Path) -> Result<HostLock, HostLockError> {
        let shared = Path::new(SHARED);
        let folder = if shared.is_dir() { shared } else { folder };
        let is_others = |error: &HostLockError| matches!(error, HostLockError::Held(_));
        let has_ended = |pid| stuck::process(pid).is_some();
        retry_for_killed_daemon(is_others, || {
            HostLock::claim_at(&folder.join("sublet.lock"), has_ended)
        })
    }

    /// Takes the first free lock. All other locks must be free, too, or belong to daemons that no longer size
    /// themselves.
    fn claim_at(path: &Path, has_ended: impl Fn(u32) -> bool) -> Result<HostLock, HostLockError> {
        let mut mine = None;
        for place in lock_paths(path) {
            if mine.is_some() && !place.exists() {
                continue;
            }
            match (claim_one(&place)?, &mine) {
                (Ok(file), None) => mine = Some(file),
                (Ok(_), Some(_)) => {}
                (Err(other), _) if other.is_some_and(&has_ended) => {}
                (Err(other), _) => return Err(HostLockError::Held(other)),
            }
        }
        let mut file = mine.ok_or(HostLockError::Held(None))?;
        write_pid(&mut file).map_err(|source| failed(path, source))?;
        Ok(HostLock(file))
    }
}

/// The most killed daemons that still hold their locks. A file that they wait for may come back any time, and then
/// their locks are free.
const STUCK_MAX: usize = 8;

/// The locks: one, and one more for each daemon that cannot release its own.
fn lock_paths(path: &Path) -> impl Iterator<Item = PathBuf> {
    (0..=STUCK_MAX).map(move |n| match n {
        0 => path.to_owned(),
        n => path.with_extension(format!("lock.{n}")),
    })
}

fn failed(path: &Path, source: io::Error) -> HostLockError {
    let path = path.to_owned();
    HostLockError::Lock { path, source }
}

/// Takes a lock, or returns the process that has it.
fn claim_one(path: &Path) -> Result<Result<File, Option<u32>>, HostLockError> {
    let mut file = open(path).map_err(|source| failed(path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(Ok(file)),
        Err(TryLockError::WouldBlock) => Ok(Err(read_pid(&mut file))),
        Err(TryLockError::Error(source)) => Err(failed(path, source)),
    }
}

/// Opens the lock for any user's daemon. Root trusts no lock that another user put there.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32);
    match options.open(path) {
        Ok(file) if is_trusted(&file)? => return Ok(file),
        Ok(_) => std::fs::remove_file(path)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let file = options.create_new(true).open(path)?;
    file.set_permissions(Permissions::from_mode(0o666))?;
    Ok(file)
}

fn is_trusted(file: &File) -> io::Result<bool> {
    Ok(!rustix::process::geteuid().is_root() || file.metadata()?.uid() == 0)
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is_and_may_come_after_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sublet.lock");
        let claim = || HostLock::claim_at(&path, |_| false);
        let first = claim().expect("alone");
        let refused = claim().expect_err("not alone");
        assert!(matches!(refused, HostLockError::Held(Some(pid)) if pid == std::process::id()));
        drop(first);
        claim().expect("alone again");
        let others = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(others, 1, "no lock for nobody");
    }

    /// The killed daemon has its lock for as long as the kernel keeps it, but its arena does not follow the host.
    #[test]
    fn one_that_was_killed_and_cannot_end_keeps_nobody_from_it_and_two_do_not_come_after_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sublet.lock");
        let mut killed = claim_one(&path).expect("a lock").expect("free");
        writeln!(killed, "7").expect("signed");
        let claim = || HostLock::claim_at(&path, |pid| pid == 7);
        let second = claim().expect("alone");
        assert!(matches!(claim(), Err(HostLockError::Held(Some(pid))) if pid != 7));
        // What it waited for came back.
        drop(killed);
        assert!(claim().is_err(), "the second one sizes itself");
        drop(second);
        claim().expect("alone again");
    }
}
