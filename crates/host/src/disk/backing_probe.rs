//! A check of a backing before it is served.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::fs::OFlags;
use sublet_types::{DiskSettings, PAGE_BYTES};

use super::error::DiskError;
use super::images::check_allowed;

/// How long a backing may take to answer when its disk is added.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Checks whether a backing lies where it may, and whether it answers. A file system that hangs holds up only the
/// caller that names it.
pub(crate) struct BackingProbe {
    path: PathBuf,
    found: Receiver<Result<(), DiskError>>,
}

impl BackingProbe {
    /// Begins the check. Without `allow` the backing may lie anywhere.
    pub(crate) fn start(disk: &DiskSettings, allow: Option<&Vec<PathBuf>>) -> BackingProbe {
        let (tell, found) = mpsc::channel();
        let path = disk.backing.as_ref().map(PathBuf::from);
        let (allow, named) = (allow.cloned(), path.clone());
        let failed = tell.clone();
        let look = move || {
            let within = allow.zip(named.as_ref());
            let allowed = within.map_or(Ok(()), |(allow, path)| check_allowed(path, &allow));
            if let (Ok(()), Some(path)) = (&allowed, named) {
                probe(&path);
            }
            let _ = tell.send(allowed);
        };
        if let Err(error) = thread::Builder::new().name("look".to_owned()).spawn(look) {
            let _ = failed.send(Err(DiskError::System(error)));
        }
        BackingProbe {
            path: path.unwrap_or_default(),
            found,
        }
    }

    /// Waits until then and returns what the check found.
    pub(crate) fn wait(self, until: Instant) -> Result<(), DiskError> {
        let left = until.saturating_duration_since(Instant::now());
        let found = self.found.recv_timeout(left);
        found.unwrap_or(Err(DiskError::Mute { path: self.path }))
    }
}

/// Opens and reads a file, whatever the result.
fn probe(path: &Path) {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path);
    if let Ok(file) = opened {
        let _ = file.read_at(&mut [0; PAGE_BYTES as usize], 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_that_does_not_answer_is_told_of_in_time() {
        let (never, found) = mpsc::channel();
        let path = PathBuf::from("/hangs");
        let seen = BackingProbe { path, found }.wait(Instant::now());
        assert!(matches!(seen, Err(DiskError::Mute { .. })), "{seen:?}");
        drop(never);
    }
}
