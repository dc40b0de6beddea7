//! Notes of swap disks that were served since the host's start, and on which files. If a file is gone or replaced, a
//! guest that is still alive would read an empty or another file as what it had swapped.

use std::io;
use std::path::PathBuf;

use sublet_types::{DiskName, UnreadVersion};

use super::notes;
use crate::config::StateFolderClaim;

/// Lines of a whole note: the host's start and the path. An older daemon wrote no mark.
const LINES_MIN: usize = 2;

/// The notes. Without a state folder there are none, and none can be made.
#[derive(Clone)]
pub(super) struct ServedNotes {
    state: StateFolderClaim,
}

/// A note that a disk was served since the host's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServedNote {
    /// The mark of the disk's backing, if the note has one.
    pub(super) mark: Option<u64>,
}

impl ServedNotes {
    /// The notes in a state folder.
    pub(super) fn of(state: &StateFolderClaim) -> ServedNotes {
        ServedNotes {
            state: state.clone(),
        }
    }

    fn path(&self, name: &DiskName) -> Option<PathBuf> {
        let folder = notes::folder(&self.state)?;
        Some(folder.join(format!("{name}.served")))
    }

    /// Checks that this release reads the version of what was noted of a disk.
    pub(super) fn check_version(&self, name: &DiskName) -> Result<(), UnreadVersion> {
        let path = self.path(name);
        path.map_or(Ok(()), |path| notes::check_version(&path))
    }

    /// The note of a disk, if it was written since the host's start and is unreadable. It was damaged, and may have
    /// named any file.
    pub(super) fn garbled(&self, name: &DiskName) -> Option<PathBuf> {
        let path = self.path(name)?;
        let says = notes::read(&path);
        let is_whole =
            says.is_some_and(|says| says.ends_with('\n') && says.lines().count() >= LINES_MIN);
        (!is_whole && notes::is_there_since_start(&path)).then_some(path)
    }

    /// What was noted of a disk that was served at that path since the host's start.
    pub(super) fn read(&self, name: &DiskName, backing: &str) -> Option<ServedNote> {
        let note = notes::read(&self.path(name)?)?;
        let mut lines = note.lines();
        let is_now = lines.next()? == notes::host_start().ok()?;
        let is_there = lines.next()? == backing;
        let mark = lines.next().and_then(|mark| mark.parse().ok());
        (is_now && is_there).then_some(ServedNote { mark })
    }

    /// Notes that a disk is served from a file with that mark.
    ///
    /// # Errors
    ///
    /// The note cannot be written. If the file vanishes or is replaced while no daemon runs, nobody will notice.
    pub(super) fn write(&self, name: &DiskName, backing: &str, mark: u64) -> io::Result<()> {
        let path = self.path(name).ok_or_else(notes::no_folder)?;
        let note = format!("{}\n{backing}\n{mark}\n", notes::host_start()?);
        notes::write(&self.state, &path, &note)
    }

    /// Removes the note of a disk that its owner removed.
    pub(super) fn remove(&self, name: &DiskName) {
        let taken = self
            .path(name)
            .map_or(Ok(()), |path| notes::remove(&self.state, &path));
        if let Err(error) = taken {
            let path = self.path(name).unwrap_or_default();
            tracing::warn!(disk = %name, path = %path.display(), %error, "the daemon could not remove its note that the disk was served; delete it by hand, or a new disk of that name may stay closed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_note_is_damaged_and_not_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let served = ServedNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let name: DiskName = "swap".parse().expect("a name");
        assert_eq!(served.garbled(&name), None, "none");
        served.write(&name, "/a/b", 7).expect("noted");
        assert_eq!(served.garbled(&name), None);
        let note = folder.path().join("disks/swap.served");
        let whole = std::fs::read(&note).expect("a note");
        let mark = "7\n".len();
        for damaged in [
            &[][..],
            &whole[..30],
            &whole[..whole.len() - mark - 2],
            &[0xff; 95],
        ] {
            std::fs::write(&note, damaged).expect("written");
            assert_eq!(served.garbled(&name), Some(note.clone()), "{damaged:?}");
        }
        let before = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        let file = std::fs::File::options().write(true).open(&note);
        file.and_then(|file| file.set_modified(before))
            .expect("set");
        assert_eq!(served.garbled(&name), None, "of a start before");
    }

    #[test]
    fn a_disk_was_served_on_its_own_file_until_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let served = ServedNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let name: DiskName = "swap".parse().expect("a name");
        assert_eq!(served.read(&name, "/a"), None);
        served.write(&name, "/a", 7).expect("noted");
        let on = |mark| Some(ServedNote { mark });
        assert_eq!(served.read(&name, "/a"), on(Some(7)));
        assert_eq!(served.read(&name, "/b"), None);
        let note = folder.path().join("disks/swap.served");
        std::fs::write(&note, "another start\n/a\n7\n").expect("written");
        assert_eq!(served.read(&name, "/a"), None, "its guest is gone");
        served.write(&name, "/b", 8).expect("noted");
        assert_eq!(served.read(&name, "/b"), on(Some(8)));
        let text = std::fs::read_to_string(&note).expect("a note");
        std::fs::write(&note, text.replace("/b\n8\n", "/b\n")).expect("written");
        assert!(served.read(&name, "/b").is_some(), "by an older daemon");
        served.remove(&name);
        served.remove(&name);
        assert_eq!(served.read(&name, "/b"), None);
        let nowhere = ServedNotes::of(&StateFolderClaim::default());
        nowhere.write(&name, "/a", 7).expect_err("no place for it");
        assert_eq!(nowhere.read(&name, "/a"), None);
    }
    /// See `tests/golden/README.md`.
    #[test]
    fn a_note_of_each_version_that_is_read_counts() {
        let before = include_str!("../../tests/golden/note-served-1");
        let today = include_str!("../../tests/golden/note-served-2");
        let folder = tempfile::tempdir().expect("a folder");
        let served = ServedNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let name: DiskName = "swap".parse().expect("a name");
        let note = folder.path().join("disks/swap.served");
        std::fs::create_dir(folder.path().join("disks")).expect("made");
        let boot = notes::host_start().expect("a start");
        let (backing, mark) = ("/var/lib/sublet/disks/swap.swap", 329039570194553004);
        for text in [before, today] {
            let text = text.replace("b89e57ae-e044-4580-9b4e-a0f62db8abab", &boot);
            std::fs::write(&note, text).expect("written");
            assert_eq!(
                served.read(&name, backing),
                Some(ServedNote { mark: Some(mark) })
            );
        }
        served.write(&name, backing, mark).expect("noted");
        let written = std::fs::read_to_string(&note).expect("a note");
        assert_eq!(
            written.replace(&boot, "b89e57ae-e044-4580-9b4e-a0f62db8abab"),
            today
        );
    }
}
