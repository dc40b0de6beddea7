//! A daemon that is told to end while a slow backing has yet to take pages of swap.

use std::time::{Duration, Instant};

use sublet_client::messages::{DiskState, DiskStatus};

use crate::daemon::{Folder, text};
use crate::guest::Guest;

/// 1 MiB, of which a backing of 200 KB/s takes a while.
const PAGES: u64 = 256;

fn disk(folder: &Folder) -> Option<DiskStatus> {
    let disks = folder.admin().disks().ok()?.disks;
    disks.into_iter().next()
}

#[test]
fn a_daemon_that_drains_its_disks_is_looked_at_and_changed_no_more() {
    let folder = Folder::new();
    let daemon = folder.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"1MiB\"\nslow = \"1ms, 200KB/s\"\ndurability = \"memory\"\nlisten = [\"unix:{}\"]\n",
        folder.path("swap.sock").display()
    ));
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    for page in 0..PAGES {
        assert_eq!(guest.write_page(page, 7), 0);
    }
    daemon.terminate();
    let until = Instant::now() + Duration::from_secs(20);
    let leaving = loop {
        let disk = disk(&folder).expect("it answers still");
        if disk.state == DiskState::Leaving {
            break disk;
        }
        assert!(Instant::now() < until, "{disk:?}");
    };
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
    assert!(file.iter().all(|byte| *byte == 7), "all of it is there");
}
