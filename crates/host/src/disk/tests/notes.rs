//! What a newer release noted of a disk.

use super::super::open_disks::{DiskEnvironment, OpenDisks};
use super::*;
use crate::config::StateFolderClaim;

/// The disk's owner gives pages up, but cannot say what a newer release meant.
#[test]
fn a_disk_of_which_a_newer_release_noted_something_is_not_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = folder.path().join("disks");
    std::fs::create_dir(&notes).expect("made");
    let environment = DiskEnvironment {
        far: None,
        state: StateFolderClaim::for_folder(Some(folder.path().to_owned())),
        dirty_max: Bytes::mib(1),
        keeper: folder.path().join("keeper"),
        threads: 1,
        silence_max: Duration::from_secs(1),
        events: Events::default(),
    };
    let disks = OpenDisks::open(&backend(Bytes::mib(8), 0), environment);
    let backing = folder.path().join("backing");
    let settings = settings(DiskKind::Swap, &backing);
    for end in ["stage", "served"] {
        let note = notes.join(format!("{}.{end}", settings.name));
        std::fs::write(&note, "version 3\nnew\n").expect("written");
        for history in [DiskHistory::New, DiskHistory::Written, DiskHistory::GivenUp] {
            let error = disks.add(&settings, history).expect_err("newer");
            assert!(matches!(error, DiskError::Note { .. }), "{error}");
            assert!(error.is_its_guests(), "a daemon starts without the disk");
            let said = "has version 3, and this Sublet reads versions 1 and 2";
            assert!(error.to_string().contains(said), "{error}");
        }
        disks.discard_staged(&settings.name);
        let text = std::fs::read_to_string(&note).expect("it stays");
        assert_eq!(text, "version 3\nnew\n");
        std::fs::remove_file(&note).expect("removed");
    }
    assert!(!backing.exists());
}
