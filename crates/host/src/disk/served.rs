//! Notes of swap disks that were served since the host's start, and on which files. A guest that lives still would read
//! an empty file in the place of one that is gone as what it had swapped.

use std::io;
use std::path::PathBuf;

use sublet_types::DiskName;

use super::notes;
use crate::config::Claim;

/// The notes. Without a state folder there are none.
pub(super) struct Served {
    state: Claim,
}

impl Served {
    /// Those in a state folder.
    pub(super) fn of(state: &Claim) -> Served {
        Served {
            state: state.clone(),
        }
    }

    fn path(&self, name: &DiskName) -> Option<PathBuf> {
        let folder = notes::folder(&self.state)?;
        Some(folder.join(format!("{name}.served")))
    }

    fn note(backing: &str) -> io::Result<String> {
        Ok(format!("{}\n{backing}\n", notes::host_start()?))
    }

    /// Whether a disk was served on that file since the host's start.
    pub(super) fn has(&self, name: &DiskName, backing: &str) -> bool {
        let noted = self
            .path(name)
            .and_then(|path| std::fs::read_to_string(path).ok());
        noted.is_some_and(|noted| Served::note(backing).is_ok_and(|note| note == noted))
    }

    /// Notes that a disk is served on a file.
    pub(super) fn note_on(&self, name: &DiskName, backing: &str) {
        let left = self.path(name).map_or(Ok(()), |path| {
            notes::leave(&self.state, &path, &Served::note(backing)?)
        });
        if let Err(error) = left {
            tracing::warn!(disk = %name, %error, "nobody will see it if its backing vanishes while no daemon runs");
        }
    }

    /// Its owner took a disk away.
    pub(super) fn forget(&self, name: &DiskName) {
        let taken = self
            .path(name)
            .map_or(Ok(()), |path| notes::take(&self.state, &path));
        if let Err(error) = taken {
            tracing::warn!(disk = %name, %error, "the note that it was served stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_was_served_on_its_own_file_until_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let served = Served::of(&Claim::to(Some(folder.path().to_owned())));
        let name: DiskName = "swap".parse().expect("a name");
        assert!(!served.has(&name, "/a"));
        served.note_on(&name, "/a");
        assert!(served.has(&name, "/a") && !served.has(&name, "/b"));
        let before = "another start\n/a\n";
        std::fs::write(folder.path().join("disks/swap.served"), before).expect("written");
        assert!(!served.has(&name, "/a"), "its guest is gone");
        served.note_on(&name, "/b");
        assert!(served.has(&name, "/b"));
        served.forget(&name);
        served.forget(&name);
        assert!(!served.has(&name, "/b"));
        let nowhere = Served::of(&Claim::default());
        nowhere.note_on(&name, "/a");
        assert!(!nowhere.has(&name, "/a"));
    }
}
