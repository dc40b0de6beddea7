//! One daemon a host may size itself by the host's memory: two would each take the other's arena for
//! the host's need.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::patience::patiently;

/// Held by the daemon that sizes itself.
#[derive(Debug)]
pub struct Alone(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

/// Why this daemon may not size itself.
#[derive(Debug, thiserror::Error)]
pub enum NotAlone {
    /// Another does already.
    #[error("another sublet{} sizes itself by this host's memory already; stop it, or give this one a ceiling: sublet serve --ceiling 1GiB", .0.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Other(Option<u32>),
    /// Nobody can say.
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

/// Where every user of the host may put a lock.
const SHARED: &str = "/run/lock";

impl Alone {
    /// Takes the lock; `folder` is where it is put on hosts without `/run/lock`.
    pub fn claim(folder: &Path) -> Result<Alone, NotAlone> {
        let shared = Path::new(SHARED);
        let folder = if shared.is_dir() { shared } else { folder };
        let is_others = |error: &NotAlone| matches!(error, NotAlone::Other(_));
        patiently(is_others, || Alone::claim_at(&folder.join("sublet.lock")))
    }

    fn claim_at(path: &Path) -> Result<Alone, NotAlone> {
        let failed = |source| NotAlone::Lock {
            path: path.to_owned(),
            source,
        };
        let mut file = open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NotAlone::Other(owner(&mut file))),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        sign(&mut file).map_err(failed)?;
        Ok(Alone(file))
    }
}

/// Opens the lock for any user's daemon. Root trusts no lock that somebody else put there.
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

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is_and_may_come_after_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sublet.lock");
        let first = Alone::claim_at(&path).expect("alone");
        let refused = Alone::claim_at(&path).expect_err("not alone");
        assert!(matches!(refused, NotAlone::Other(Some(pid)) if pid == std::process::id()));
        drop(first);
        Alone::claim_at(&path).expect("alone again");
    }
}
