//! A daemon is told to end while a slow backing has yet to take pages of swap.

use sublet_client::messages::{DiskState, DiskStatus};

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;
use crate::wait::wait_for;

/// 1 MiB, which takes a backing of 200 KB/s a while.
const PAGES: u64 = 256;

/// What a guest writes while its disk is drained.
const LATE: u64 = 4;

fn serve(folder: &Folder) -> Daemon {
    folder.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"2MiB\"\nslow = \"1ms, 200KB/s\"\ndurability = \"memory\"\nlisten = [\"unix:{}\"]\n",
        folder.path("swap.sock").display()
    ))
}

/// Tells the daemon to end, and waits until its disk shows that.
fn leave(daemon: &Daemon, folder: &Folder) -> DiskStatus {
    daemon.terminate();
    wait_for(|| {
        let disk = disk(folder).expect("it answers still");
        match disk.state == DiskState::Leaving {
            true => Ok(disk),
            false => Err(format!("{disk:?}")),
        }
    })
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
    let page = folder.sublet_ok(&["status"]);
    assert!(
        page.starts_with("ending    its disks are brought to their backings; "),
        "{page}"
    );
    assert!(folder.sublet_ok(&["disk", "list"]).contains("leaving"));
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
    wait_for(|| match disk(&folder) {
        None => Ok(()),
        Some(disk) => {
            assert!(disk.dirty <= left, "it only gets less");
            left = disk.dirty;
            Err(format!("{disk:?}"))
        }
    });
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("disks are drained"), "{log}");
    let file = std::fs::read(folder.path("state/disks/swap.swap")).expect("read");
    let written = &file[..(PAGES * 4096) as usize];
    let mut pages = written.chunks(4096);
    assert!(pages.all(|page| page == page_of(7)), "all of it is there");
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
        assert!(page == page_of(9), "page {late} is there");
        let now = disk(&folder).expect("it drains still").dirty;
        assert!(now <= left, "it only gets less: {now} of {left}");
        left = now;
    }
    assert!(left > 0, "it was drained all the while");
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("disks are drained"), "{log}");
}
