//! Notes of disks whose newest pages may be on a stage and nowhere else.
//!
//! A daemon that is killed leaves the notes in the state folder. The next daemon finds that stage, or finds that it is
//! gone with its keeper. In the second case a guest may read what is older than what it wrote, and nobody may read that
//! unawares. If the host was started again since, no guest is left that could.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use sublet_types::{DiskName, UnreadVersion};

use super::super::notes;
use crate::config::StateFolderClaim;

/// A stage's identity, different from every other: the host's start, and the memfd's number since then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct StageId {
    boot: String,
    number: u64,
}

impl StageId {
    pub(super) fn new(number: u64) -> io::Result<StageId> {
        let boot = notes::host_start()?;
        Ok(StageId { boot, number })
    }

    fn parsed(line: &str) -> Option<StageId> {
        let (boot, number) = line.split_once(' ')?;
        Some(StageId {
            boot: boot.to_owned(),
            number: number.parse().ok()?,
        })
    }
}

/// A note: which stage, whose disk, and which backing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct StageNote {
    pub(in super::super) stage: StageId,
    pub(in super::super) tenant: String,
    pub(in super::super) backing: String,
}

impl StageNote {
    /// The text of a note, as `import` reads it.
    fn export(&self) -> String {
        let StageId { boot, number } = &self.stage;
        format!("{boot} {number}\n{}\n{}\n", self.tenant, self.backing)
    }

    fn import(note: &str) -> Option<StageNote> {
        let mut lines = note.lines();
        Some(StageNote {
            stage: StageId::parsed(lines.next()?)?,
            tenant: lines.next()?.to_owned(),
            backing: lines.next()?.to_owned(),
        })
    }
}

/// The notes. Without a state folder there are none, and none can be made.
#[derive(Clone)]
pub(in super::super) struct StageNotes {
    state: StateFolderClaim,
    /// Notes that were read or written, for callers that may not wait for a file system.
    known: Arc<Mutex<BTreeMap<DiskName, StageNote>>>,
}

impl StageNotes {
    /// The notes in a state folder.
    pub(in super::super) fn of(state: &StateFolderClaim) -> StageNotes {
        StageNotes {
            state: state.clone(),
            known: Arc::default(),
        }
    }

    fn path(&self, name: &DiskName) -> Option<PathBuf> {
        let folder = notes::folder(&self.state)?;
        Some(folder.join(format!("{name}.stage")))
    }

    /// Checks that this release reads the version of what was noted of a disk.
    pub(in super::super) fn check_version(&self, name: &DiskName) -> Result<(), UnreadVersion> {
        let path = self.path(name);
        path.map_or(Ok(()), |path| notes::check_version(&path))
    }

    /// What was noted of a disk.
    pub(in super::super) fn read(&self, name: &DiskName) -> Option<StageNote> {
        let note = notes::read(&self.path(name)?);
        let noted = note.and_then(|note| StageNote::import(&note));
        self.remember(name, noted.clone());
        noted
    }

    /// Returns whether a note of a disk since the host's start is unreadable. It was damaged, and may have said
    /// anything.
    pub(in super::super) fn is_garbled(&self, name: &DiskName) -> bool {
        let path = self.path(name);
        path.is_some_and(|path| notes::is_there_since_start(&path)) && self.read(name).is_none()
    }

    /// The note as it was when a caller last read or changed it. Waits for no file system.
    pub(in super::super) fn last_known(&self, name: &DiskName) -> Option<StageNote> {
        self.known.lock().get(name).cloned()
    }

    fn remember(&self, name: &DiskName, noted: Option<StageNote>) {
        let mut known = self.known.lock();
        match noted {
            Some(note) => known.insert(name.clone(), note),
            None => known.remove(name),
        };
    }

    /// Returns whether a disk relied on a stage that is neither this one nor any that can still be found.
    pub(in super::super) fn is_stage_gone(&self, name: &DiskName, stage: &StageId) -> bool {
        let noted = self.read(name).map(|note| note.stage);
        noted.is_some_and(|noted| noted != *stage && noted.boot == stage.boot)
    }

    /// Notes that a disk relies on a stage from now on.
    pub(in super::super) fn write(&self, name: &DiskName, note: &StageNote) -> io::Result<()> {
        let path = self.path(name).ok_or_else(notes::no_folder)?;
        notes::write(&self.state, &path, &note.export())?;
        self.remember(name, Some(note.clone()));
        Ok(())
    }

    /// Notes that a disk relies on no stage any more.
    pub(in super::super) fn remove(&self, name: &DiskName) {
        let taken = self
            .path(name)
            .map_or(Ok(()), |path| notes::remove(&self.state, &path));
        if let Err(error) = taken {
            let path = self.path(name).unwrap_or_default();
            tracing::warn!(disk = %name, path = %path.display(), %error, "the daemon could not remove its note that the disk's pages were staged; the next start may take the disk's pages for lost: mend the folder's file system");
            return;
        }
        self.remember(name, None);
    }

    /// Removes the notes of a stage that ends, or that has pages of those disks only.
    pub(in super::super) fn remove_all_but(&self, stage: &StageId, but: &[DiskName]) {
        let Some(folder) = notes::folder(&self.state) else {
            return;
        };
        let notes = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in notes.map(|entry| entry.path()) {
            let name = path.extension().is_some_and(|end| end == "stage");
            let name = path
                .file_stem()
                .filter(|_| name)
                .and_then(|name| name.to_str());
            let name = name.and_then(|name| name.parse::<DiskName>().ok());
            if let Some(name) = name
                && !but.contains(&name)
                && self.read(&name).is_some_and(|note| note.stage == *stage)
            {
                self.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> DiskName {
        name.parse().expect("a name")
    }

    fn on(stage: &StageId) -> StageNote {
        StageNote {
            stage: stage.clone(),
            tenant: "guests".to_owned(),
            backing: "/a folder/swap".to_owned(),
        }
    }

    #[test]
    fn a_note_is_broken_by_another_stage_of_the_same_start_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = StageNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let stage = StageId::new(7).expect("a start");
        let later = StageId::new(8).expect("a start");
        let swap = name("swap");
        assert!(!notes.is_stage_gone(&swap, &stage), "nothing was noted");
        notes.write(&swap, &on(&stage)).expect("noted");
        assert_eq!(notes.read(&swap), Some(on(&stage)));
        assert_eq!(notes.last_known(&swap), Some(on(&stage)));
        assert!(!notes.is_stage_gone(&swap, &stage));
        assert!(notes.is_stage_gone(&swap, &later));
        let rebooted = StageId {
            boot: "another start".to_owned(),
            number: 8,
        };
        assert!(!notes.is_stage_gone(&swap, &rebooted), "its guest is gone");
        notes.remove(&swap);
        assert_eq!(notes.last_known(&swap), None);
        assert!(!notes.is_stage_gone(&swap, &later) && notes.read(&swap).is_none());
        notes.remove(&swap);
    }

    #[test]
    fn a_stage_that_ends_takes_its_own_notes_along() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = StageNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let (one, two) = (
            StageId::new(1).expect("a start"),
            StageId::new(2).expect("a start"),
        );
        notes.write(&name("a"), &on(&one)).expect("noted");
        notes.write(&name("b"), &on(&two)).expect("noted");
        fs::write(folder.path().join("disks/a.swap"), b"").expect("written");
        notes.remove_all_but(&one, &[]);
        assert!(!notes.is_stage_gone(&name("a"), &two));
        assert!(notes.is_stage_gone(&name("b"), &one));
        assert!(folder.path().join("disks/a.swap").exists());
    }

    #[test]
    fn half_a_note_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = StageNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        fs::create_dir(folder.path().join("disks")).expect("made");
        for note in ["", "x", "x y", "x 1\n", "x 1\nguests"] {
            fs::write(folder.path().join("disks/swap.stage"), note).expect("written");
            let stage = StageId::new(1).expect("a start");
            assert!(!notes.is_stage_gone(&name("swap"), &stage));
        }
        let nowhere = StageNotes::of(&StateFolderClaim::default());
        let stage = StageId::new(1).expect("a start");
        nowhere
            .write(&name("swap"), &on(&stage))
            .expect_err("no place for it");
    }

    #[test]
    fn a_damaged_note_is_not_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = StageNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let stage = StageId::new(1).expect("a start");
        assert!(!notes.is_garbled(&name("swap")));
        notes.write(&name("swap"), &on(&stage)).expect("noted");
        assert!(!notes.is_garbled(&name("swap")));
        let note = folder.path().join("disks/swap.stage");
        for damaged in [&b""[..], b"version 2\n", &[0xff; 94]] {
            fs::write(&note, damaged).expect("written");
            assert!(notes.is_garbled(&name("swap")), "{damaged:?}");
        }
        notes.write(&name("swap"), &on(&stage)).expect("noted anew");
        assert!(!notes.is_garbled(&name("swap")));
    }

    /// See `tests/golden/README.md`.
    #[test]
    fn a_note_of_each_version_that_is_read_counts() {
        let before = include_str!("../../../tests/golden/note-stage-1");
        let today = include_str!("../../../tests/golden/note-stage-2");
        let folder = tempfile::tempdir().expect("a folder");
        let notes = StageNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let file = folder.path().join("disks/swap.stage");
        fs::create_dir(folder.path().join("disks")).expect("made");
        let stage = StageId {
            boot: "b89e57ae-e044-4580-9b4e-a0f62db8abab".to_owned(),
            number: 959,
        };
        let note = StageNote {
            backing: "/var/lib/sublet/disks/swap.swap".to_owned(),
            ..on(&stage)
        };
        for text in [before, today] {
            fs::write(&file, text).expect("written");
            assert_eq!(notes.read(&name("swap")), Some(note.clone()));
        }
        notes.write(&name("swap"), &note).expect("noted");
        assert_eq!(fs::read_to_string(&file).expect("a note"), today);
    }

    /// What a newer release noted is not read, and is not forgotten with a stage.
    #[test]
    fn a_note_of_a_newer_version_is_refused_by_both_and_stays() {
        let newer =
            include_str!("../../../tests/golden/note-stage-2").replace("version 2", "version 3");
        let folder = tempfile::tempdir().expect("a folder");
        let notes = StageNotes::of(&StateFolderClaim::for_folder(Some(
            folder.path().to_owned(),
        )));
        let note = folder.path().join("disks/swap.stage");
        fs::create_dir(folder.path().join("disks")).expect("made");
        fs::write(&note, &newer).expect("written");
        let refused = notes.check_version(&name("swap")).expect_err("newer");
        assert_eq!(
            refused.to_string(),
            "a newer Sublet wrote the disk's note: it has version 3, and this Sublet reads versions 1 and 2; it stays as it is"
        );
        let stage = StageId::new(959).expect("a start");
        notes.remove(&name("swap"));
        notes.remove_all_but(&stage, &[]);
        notes.write(&name("swap"), &on(&stage)).expect_err("newer");
        assert_eq!(fs::read_to_string(&note).expect("a note"), newer);
    }
}
