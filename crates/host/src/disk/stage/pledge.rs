//! Notes of disks whose newest pages may be on a stage and nowhere else.
//!
//! A killed daemon leaves them in the state folder. The next one finds that stage, or that it is gone with its keeper:
//! then what a guest reads may be older than what it wrote, and nobody is to read it unawares. Of a host that was
//! started anew since, no guest is left that could.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use sublet_types::{DiskName, UnreadVersion};

use super::super::notes;
use crate::config::Claim;

/// A stage, told from every other: the host's start, and the memfd's number since then.
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

/// A note: which stage, whose disk, and what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Pledge {
    pub(in super::super) stage: StageId,
    pub(in super::super) tenant: String,
    pub(in super::super) backing: String,
}

impl Pledge {
    /// What a note says of it, as `import` reads it.
    fn export(&self) -> String {
        let StageId { boot, number } = &self.stage;
        format!("{boot} {number}\n{}\n{}\n", self.tenant, self.backing)
    }

    fn import(note: &str) -> Option<Pledge> {
        let mut lines = note.lines();
        Some(Pledge {
            stage: StageId::parsed(lines.next()?)?,
            tenant: lines.next()?.to_owned(),
            backing: lines.next()?.to_owned(),
        })
    }
}

/// The notes. Without a state folder there are none, and none can be made.
#[derive(Clone)]
pub(in super::super) struct Pledges {
    state: Claim,
    /// What was read or written of them, for whoever may not wait for a file system.
    known: Arc<Mutex<BTreeMap<DiskName, Pledge>>>,
}

impl Pledges {
    /// Those in a state folder.
    pub(in super::super) fn of(state: &Claim) -> Pledges {
        Pledges {
            state: state.clone(),
            known: Arc::default(),
        }
    }

    fn path(&self, name: &DiskName) -> Option<PathBuf> {
        let folder = notes::folder(&self.state)?;
        Some(folder.join(format!("{name}.stage")))
    }

    /// That what was noted of a disk has a version that is read.
    pub(in super::super) fn check_version(&self, name: &DiskName) -> Result<(), UnreadVersion> {
        let path = self.path(name);
        path.map_or(Ok(()), |path| notes::check_version(&path))
    }

    /// What was noted of a disk.
    pub(in super::super) fn noted(&self, name: &DiskName) -> Option<Pledge> {
        let note = notes::read(&self.path(name)?);
        let noted = note.and_then(|note| Pledge::import(&note));
        self.learn(name, noted.clone());
        noted
    }

    /// Whether something was noted of a disk since the host's start that says nothing any more: it was damaged, and may have said anything.
    pub(in super::super) fn is_garbled(&self, name: &DiskName) -> bool {
        let path = self.path(name);
        path.is_some_and(|path| notes::is_there_since_start(&path)) && self.noted(name).is_none()
    }

    /// The same, as it was when somebody looked last or changed it. Waits for no file system.
    pub(in super::super) fn known(&self, name: &DiskName) -> Option<Pledge> {
        self.known.lock().get(name).cloned()
    }

    fn learn(&self, name: &DiskName, noted: Option<Pledge>) {
        let mut known = self.known.lock();
        match noted {
            Some(pledge) => known.insert(name.clone(), pledge),
            None => known.remove(name),
        };
    }

    /// Whether a disk relied on a stage that is not this one, nor any that can still be found.
    pub(in super::super) fn is_broken(&self, name: &DiskName, stage: &StageId) -> bool {
        let noted = self.noted(name).map(|pledge| pledge.stage);
        noted.is_some_and(|noted| noted != *stage && noted.boot == stage.boot)
    }

    /// Notes that a disk relies on a stage from now on.
    pub(in super::super) fn make(&self, name: &DiskName, pledge: &Pledge) -> io::Result<()> {
        let path = self.path(name).ok_or_else(notes::nowhere)?;
        notes::leave(&self.state, &path, &pledge.export())?;
        self.learn(name, Some(pledge.clone()));
        Ok(())
    }

    /// A disk relies on no stage any more.
    pub(in super::super) fn forget(&self, name: &DiskName) {
        let taken = self
            .path(name)
            .map_or(Ok(()), |path| notes::take(&self.state, &path));
        if let Err(error) = taken {
            tracing::warn!(disk = %name, %error, "the note that its pages were staged stays");
            return;
        }
        self.learn(name, None);
    }

    /// A stage ends, or has pages of those disks only.
    pub(in super::super) fn forget_all(&self, stage: &StageId, but: &[DiskName]) {
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
                && self
                    .noted(&name)
                    .is_some_and(|pledge| pledge.stage == *stage)
            {
                self.forget(&name);
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

    fn on(stage: &StageId) -> Pledge {
        Pledge {
            stage: stage.clone(),
            tenant: "guests".to_owned(),
            backing: "/a folder/swap".to_owned(),
        }
    }

    #[test]
    fn a_note_is_broken_by_another_stage_of_the_same_start_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let pledges = Pledges::of(&Claim::to(Some(folder.path().to_owned())));
        let stage = StageId::new(7).expect("a start");
        let later = StageId::new(8).expect("a start");
        let swap = name("swap");
        assert!(!pledges.is_broken(&swap, &stage), "nothing was noted");
        pledges.make(&swap, &on(&stage)).expect("noted");
        assert_eq!(pledges.noted(&swap), Some(on(&stage)));
        assert_eq!(pledges.known(&swap), Some(on(&stage)));
        assert!(!pledges.is_broken(&swap, &stage));
        assert!(pledges.is_broken(&swap, &later));
        let rebooted = StageId {
            boot: "another start".to_owned(),
            number: 8,
        };
        assert!(!pledges.is_broken(&swap, &rebooted), "its guest is gone");
        pledges.forget(&swap);
        assert_eq!(pledges.known(&swap), None);
        assert!(!pledges.is_broken(&swap, &later) && pledges.noted(&swap).is_none());
        pledges.forget(&swap);
    }

    #[test]
    fn a_stage_that_ends_takes_its_own_notes_along() {
        let folder = tempfile::tempdir().expect("a folder");
        let pledges = Pledges::of(&Claim::to(Some(folder.path().to_owned())));
        let (one, two) = (
            StageId::new(1).expect("a start"),
            StageId::new(2).expect("a start"),
        );
        pledges.make(&name("a"), &on(&one)).expect("noted");
        pledges.make(&name("b"), &on(&two)).expect("noted");
        fs::write(folder.path().join("disks/a.swap"), b"").expect("written");
        pledges.forget_all(&one, &[]);
        assert!(!pledges.is_broken(&name("a"), &two));
        assert!(pledges.is_broken(&name("b"), &one));
        assert!(folder.path().join("disks/a.swap").exists());
    }

    #[test]
    fn half_a_note_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let pledges = Pledges::of(&Claim::to(Some(folder.path().to_owned())));
        fs::create_dir(folder.path().join("disks")).expect("made");
        for note in ["", "x", "x y", "x 1\n", "x 1\nguests"] {
            fs::write(folder.path().join("disks/swap.stage"), note).expect("written");
            let stage = StageId::new(1).expect("a start");
            assert!(!pledges.is_broken(&name("swap"), &stage));
        }
        let nowhere = Pledges::of(&Claim::default());
        let stage = StageId::new(1).expect("a start");
        nowhere
            .make(&name("swap"), &on(&stage))
            .expect_err("no place for it");
    }

    #[test]
    fn a_damaged_note_is_not_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let pledges = Pledges::of(&Claim::to(Some(folder.path().to_owned())));
        let stage = StageId::new(1).expect("a start");
        assert!(!pledges.is_garbled(&name("swap")));
        pledges.make(&name("swap"), &on(&stage)).expect("noted");
        assert!(!pledges.is_garbled(&name("swap")));
        let note = folder.path().join("disks/swap.stage");
        for damaged in [&b""[..], b"version 2\n", &[0xff; 94]] {
            fs::write(&note, damaged).expect("written");
            assert!(pledges.is_garbled(&name("swap")), "{damaged:?}");
        }
        pledges
            .make(&name("swap"), &on(&stage))
            .expect("noted anew");
        assert!(!pledges.is_garbled(&name("swap")));
    }

    /// See `tests/golden/README.md`.
    #[test]
    fn a_note_of_each_version_that_is_read_counts() {
        let before = include_str!("../../../tests/golden/note-stage-1");
        let today = include_str!("../../../tests/golden/note-stage-2");
        let folder = tempfile::tempdir().expect("a folder");
        let pledges = Pledges::of(&Claim::to(Some(folder.path().to_owned())));
        let note = folder.path().join("disks/swap.stage");
        fs::create_dir(folder.path().join("disks")).expect("made");
        let stage = StageId {
            boot: "b89e57ae-e044-4580-9b4e-a0f62db8abab".to_owned(),
            number: 959,
        };
        let pledge = Pledge {
            backing: "/var/lib/sublet/disks/swap.swap".to_owned(),
            ..on(&stage)
        };
        for text in [before, today] {
            fs::write(&note, text).expect("written");
            assert_eq!(pledges.noted(&name("swap")), Some(pledge.clone()));
        }
        pledges.make(&name("swap"), &pledge).expect("noted");
        assert_eq!(fs::read_to_string(&note).expect("a note"), today);
    }

    /// What a newer release noted is not read, and is not forgotten with a stage.
    #[test]
    fn a_note_of_a_newer_version_is_refused_by_both_and_stays() {
        let newer =
            include_str!("../../../tests/golden/note-stage-2").replace("version 2", "version 3");
        let folder = tempfile::tempdir().expect("a folder");
        let pledges = Pledges::of(&Claim::to(Some(folder.path().to_owned())));
        let note = folder.path().join("disks/swap.stage");
        fs::create_dir(folder.path().join("disks")).expect("made");
        fs::write(&note, &newer).expect("written");
        let refused = pledges.check_version(&name("swap")).expect_err("newer");
        assert_eq!(
            refused.to_string(),
            "a newer Sublet wrote the disk's note: it has version 3, and this Sublet reads versions 1 and 2; it stays as it is"
        );
        let stage = StageId::new(959).expect("a start");
        pledges.forget(&name("swap"));
        pledges.forget_all(&stage, &[]);
        pledges.make(&name("swap"), &on(&stage)).expect_err("newer");
        assert_eq!(fs::read_to_string(&note).expect("a note"), newer);
    }
}
