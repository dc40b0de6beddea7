//! Swap disks whose backing takes no more writes.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use sublet_client::messages::{DiskState, OrphanReason, RemoveDisk};

use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;

/// A backing that can be broken for good: a sealed memfd refuses every write.
pub(crate) struct BreakableBacking(File);

impl BreakableBacking {
    pub(crate) fn new() -> BreakableBacking {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("backing", flags).expect("a memfd"));
        file.set_len(1 << 20).expect("grown");
        BreakableBacking(file)
    }

    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn fail(&self) {
        fcntl_add_seals(&self.0, SealFlags::WRITE).expect("sealed");
    }
}

/// Starts a daemon whose swap disk `swap` has that backing. The disk's pages stay in memory until somebody wants them
/// written.
pub(crate) fn serve(folder: &Folder, backing: &BreakableBacking) -> Daemon {
    folder.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\ndurability = \"memory\"\nbacking = {:?}\nlisten = [\"unix:{}\"]\n",
        backing.path(),
        folder.path("swap.sock").display()
    ))
}

/// Writes three pages that only memory has.
pub(crate) fn write_pages(folder: &Folder, backing: &BreakableBacking) -> Guest {
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    backing.fail();
    for page in 0..3 {
        assert_eq!(guest.write_page(page, 1), 0, "acknowledged");
    }
    guest
}

fn dirty(folder: &Folder) -> u64 {
    let disks = folder.admin().disks().expect("answered").disks;
    disks.iter().map(|disk| disk.dirty).sum()
}

#[test]
fn what_a_backing_does_not_take_is_given_up_by_that_word_only() {
    let folder = Folder::new();
    let backing = BreakableBacking::new();
    let daemon = serve(&folder, &backing);
    let guest = write_pages(&folder, &backing);
    let refused = folder.sublet(&["disk", "remove", "swap"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for expected in [
        "3 pages (12.0 KiB) that only memory has would be lost",
        "disk remove swap --force",
    ] {
        assert!(text(&refused.stderr).contains(expected), "{refused:?}");
    }
    let disks = folder.admin().disks().expect("answered").disks;
    assert_eq!((disks[0].state, disks[0].dirty), (DiskState::Ailing, 3));
    assert_eq!(disks[0].connections, 1, "its guest is still there");
    assert!(!folder.path("state/live.toml").exists());

    let said = folder.sublet_ok(&["disk", "remove", "swap", "--force"]);
    assert_eq!(
        said,
        format!(
            "swap: removed; given up: 3 pages (12.0 KiB) that its backing did not take; its backing {} stays\n",
            backing.path()
        )
    );
    assert!(folder.admin().disks().expect("answered").disks.is_empty());
    drop(guest);
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(log.matches("failed to write").count(), 1, "{log}");
    assert!(!folder.path("admin.stage").exists(), "nothing is kept");
}

#[test]
fn a_closed_disk_keeps_what_an_earlier_daemon_staged_until_that_word() {
    let folder = Folder::new();
    let backing = BreakableBacking::new();
    let first = serve(&folder, &backing);
    drop(write_pages(&folder, &backing));
    first.kill();
    // The backing now looks like an image, so its disk stays closed.
    let image = folder.path("image");
    std::fs::write(&image, b"QFI\xfb").expect("written");
    File::options()
        .write(true)
        .open(&image)
        .and_then(|file| file.set_len(1 << 20))
        .expect("grown");
    let config = std::fs::read_to_string(folder.path("sublet.toml")).expect("read");
    let config = config.replace(&backing.path(), &image.display().to_string());
    let _again = folder.serve_config(&config);
    let how = RemoveDisk::default();
    let name = "swap".parse().expect("a name");
    let refused = folder
        .admin()
        .remove_disk(&name, how)
        .expect_err("only memory has its pages");
    assert!(refused.to_string().contains("3 pages"), "{refused}");
    let forced = RemoveDisk { force: true, ..how };
    let gone = folder.admin().remove_disk(&name, forced).expect("removed");
    assert_eq!((gone.given_up, dirty(&folder)), (3, 0));
}

/// The config names another backing for a disk before the first one took everything.
#[test]
fn a_disk_with_another_backing_keeps_what_the_first_did_not_take_until_that_word() {
    let folder = Folder::new();
    let (first, second) = (BreakableBacking::new(), BreakableBacking::new());
    let daemon = serve(&folder, &first);
    drop(write_pages(&folder, &first));
    daemon.kill();
    let _again = serve(&folder, &second);
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(dirty(&folder), 0, "its backing has none of the pages");
    let left = folder.admin().disks().expect("answered").left_behind;
    assert_eq!((left.len(), left[0].pages), (1, 3));
    assert_eq!(left[0].why, OrphanReason::OtherBacking);
    let shown = folder.sublet_ok(&["disk", "show", "swap"]);
    for expected in [
        "swap: swap of 1.00 MiB for guests, serving",
        "3 pages (12.0 KiB) were left behind",
        "another backing now",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    assert_eq!(guest.write_page(0, 2), 0, "its guest is served");

    let removed = folder.sublet_ok(&["disk", "remove", "swap"]);
    assert!(
        removed.contains("left behind: 3 pages (12.0 KiB)"),
        "{removed}"
    );
    let how = RemoveDisk {
        force: true,
        ..RemoveDisk::default()
    };
    let name = "swap".parse().expect("a name");
    let gone = folder.admin().remove_disk(&name, how).expect("given up");
    assert_eq!((gone.given_up, gone.left_behind), (3, 0));
}
