//! A daemon that is told to end while a slow backing has yet to take pages of swap.

use std::time::{Duration, Instant};

use sublet_client::messages::{DiskState, DiskStatus};

use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;

/// 1 MiB, of which a backing of 200 KB/s takes a while.
const PAGES: u64 = 256;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a guest writes while its disk is drained.
const LATE: u64 = 4;

fn serve(folder: &Folder) -> Daemon {
    folder.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"2MiB\"\nslow = \"1ms, 200KB/s\"\ndurability = \"memory\"\nlisten = [\"unix:{}\"]\n",
        folder.path("swap.sock").display()
    ))
}

/// Has the daemon end, and waits until that is seen on its disk.
fn leave(daemon: &Daemon, folder: &Folder) -> DiskStatus {
    daemon.terminate();
    let until = Instant::now() + PATIENCE;
    loop {
        let disk = disk(folder).expect("it answers still");
        if disk.state == DiskState::Leaving {
            return disk;
        }
        assert!(Instant::now() < until, "{disk:?}");
    }
}

fn disk(folder: &Folder) -> Option<DiskStatus> {
    let disks = folder.admin().disks().ok()?.disks;
    disks.into_iter().next()
}

#[test]
fn a_daemon_that_drains_its_disks_is_looked_at_and_changed_no_more() {
    let folder = Folder::new();
    let daemon = serve(&folder);
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    for page in 0..PAGES {
        assert_eq!(guest.write_page(page, 7), 0);
    }
    let leaving = leave(&daemon, &folder);
    assert!(leaving.dirty > 0, "{leaving:?}");
    assert!(
        leaving.why.contains("on the way to its backing"),
        "{leaving:?}"
    );
    let page = folder.ask(&["status"]);
    assert!(
        page.starts_with("ending    its disks are brought to their backings; "),
        "{page}"
    );
    assert!(folder.ask(&["disk", "list"]).contains("leaving"));
    for change in [
        &["disk", "remove", "swap"][..],
        &["tenants", "set", "guests", "--weight", "3"],
    ] {
        let refused = folder.sublet(change);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(
            text(&refused.stderr).contains("the daemon ends"),
            "{refused:?}"
        );
    }
    let until = Instant::now() + PATIENCE;
    let mut left = leaving.dirty;
    while let Some(disk) = disk(&folder) {
        assert!(disk.dirty <= left, "it only gets less");
        left = disk.dirty;
        assert!(Instant::now() < until, "{disk:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("disks are drained"), "{log}");
    let file = std::fs::read(folder.path("state/disks/swap.swap")).expect("read");
    let written = &file[..(PAGES * 4096) as usize];
    assert!(written.iter().all(|byte| *byte == 7), "all of it is there");
}

#[test]
fn what_a_guest_writes_meanwhile_is_on_the_backing_when_it_is_acknowledged() {
    let folder = Folder::new();
    let daemon = serve(&folder);
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    for page in 0..PAGES {
        assert_eq!(guest.write_page(page, 7), 0);
    }
    let mut left = leave(&daemon, &folder).dirty;
    for late in PAGES..PAGES + LATE {
        assert_eq!(guest.write_page(late, 9), 0);
        let file = std::fs::read(folder.path("state/disks/swap.swap")).expect("read");
        let page = file.chunks(4096).nth(late as usize).expect("a page");
        assert!(page.iter().all(|byte| *byte == 9), "page {late} is there");
        let now = disk(&folder).expect("it drains still").dirty;
        assert!(now <= left, "it only gets less: {now} of {left}");
        left = now;
    }
    assert!(left > 0, "it was drained all the while");
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("disks are drained"), "{log}");
}
