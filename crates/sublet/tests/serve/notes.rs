//! Swap disks whose notes in the state folder cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sublet_client::messages::DiskStatus;

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;
use crate::keeper::{keeper_of, signal};
use crate::wait::wait_until;

/// A separate file system for the state, so small that one file fills it. It is unmounted when this is dropped.
struct SmallState(PathBuf);

impl SmallState {
    /// Mounts it. `None` if the user may not mount.
    fn mount(folder: &Folder) -> Option<SmallState> {
        let path = folder.path("state");
        fs::create_dir(&path).expect("made");
        let mounted = run(
            "mount",
            &["-t", "tmpfs", "-o", "size=32k,mode=700", "none"],
            &path,
        );
        if !mounted {
            eprintln!("skipped: nobody may mount a tmpfs here");
        }
        mounted.then_some(SmallState(path))
    }

    fn fill(&self) {
        let filled = fs::write(self.0.join("filler"), vec![1; 1 << 20]);
        assert!(filled.is_err(), "it has no such room");
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).expect("removed");
    }

    fn remount(&self, how: &str) {
        assert!(run("mount", &["-o", how], &self.0));
    }
}

impl Drop for SmallState {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, words: &[&str], path: &Path) -> bool {
    let status = Command::new(program).args(words).arg(path).status();
    status.is_ok_and(|status| status.success())
}

/// Starts a daemon. Swapped pages stay in memory if they may, so that the test sees whether they do.
fn serve(folder: &Folder) -> Daemon {
    folder.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"1MiB\"\ndurability = \"memory\"\nbacking = {:?}\nlisten = [\"unix:{}\"]\n",
        folder.path("swap.img"),
        folder.path("swap.sock").display()
    ))
}

fn guest(folder: &Folder) -> Guest {
    Guest::of(&folder.path("swap.sock"), "swap")
}

fn swap(folder: &Folder) -> DiskStatus {
    let disks = folder.admin().disks().expect("answered").disks;
    disks.into_iter().next().expect("a disk")
}

fn write_and_lose_all(folder: &Folder, daemon: Daemon) {
    let mut guest = guest(folder);
    for byte in [1, 2] {
        assert_eq!(guest.write_page(0, byte), 0);
    }
    assert_eq!(swap(folder).dirty, 0, "its backing has all of it");
    daemon.kill();
    signal("-9", &keeper_of(folder).expect("a keeper"));
}

#[test]
fn a_disk_without_its_note_writes_through_until_there_is_room_for_it() {
    let folder = Folder::new();
    let Some(state) = SmallState::mount(&folder) else {
        return;
    };
    state.fill();
    let daemon = serve(&folder);
    wait_until("the note is refused", || swap(&folder).notes_unwritten);
    let status = swap(&folder);
    assert!(status.why.contains("No space left"), "{status:?}");
    write_and_lose_all(&folder, daemon);

    let _next = serve(&folder);
    assert!(guest(&folder).read_page(0) == page_of(2));
    state.make_room();
    wait_until("the note is tried again", || !swap(&folder).notes_unwritten);
    assert!(folder.path("state/disks/swap.stage").exists());
    assert_eq!(guest(&folder).write_page(3, 3), 0);
    assert_eq!(swap(&folder).dirty, 1, "its promise holds again");
    assert_eq!(swap(&folder).why, "");
}

#[test]
fn a_disk_whose_state_folder_is_read_only_writes_through() {
    let folder = Folder::new();
    let Some(state) = SmallState::mount(&folder) else {
        return;
    };
    state.remount("remount,ro");
    let daemon = serve(&folder);
    let page = folder.sublet_ok(&["disk", "show", "swap"]);
    assert!(page.contains("Read-only file system"), "{page}");
    assert!(page.contains("before they are acknowledged"), "{page}");
    write_and_lose_all(&folder, daemon);
    let _next = serve(&folder);
    assert!(guest(&folder).read_page(0) == page_of(2));
}

/// A change that would not outlast the daemon is refused, and nothing of it is left.
#[test]
fn changes_that_cannot_be_written_down_are_refused() {
    let folder = Folder::new();
    let Some(state) = SmallState::mount(&folder) else {
        return;
    };
    let _daemon = serve(&folder);
    state.fill();
    let place = format!("unix:{}", folder.path("other.sock").display());
    let add = ["disk", "add", "other", "--kind", "swap", "--size", "1MiB"];
    let add = [&add[..], &["--tenant", "t", "--listen", &place]].concat();
    let refusals = [
        add,
        vec!["disk", "resize", "swap", "2MiB"],
        vec!["disk", "remove", "swap"],
        vec!["tenants", "set", "guests", "--weight", "7"],
        vec!["tenants", "add", "third"],
        vec!["policy", "set", "static-alloc"],
    ];
    let before = folder.admin().status().expect("answered");
    for words in refusals {
        let refused = folder.sublet(&words);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {refused:?}");
        let why = text(&refused.stderr);
        assert!(
            why.contains("No space left") || why.contains("0 B free"),
            "{why}"
        );
    }
    let after = folder.admin().status().expect("answered");
    let names = |status: &sublet_client::messages::Status| {
        let tenants = status.tenants.iter().map(|tenant| tenant.name.to_string());
        tenants.collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&after));
    assert_eq!(after.changed, before.changed);
    assert_eq!(after.disks.len(), 1);
    assert_eq!(after.disks[0].size, before.disks[0].size);
}
