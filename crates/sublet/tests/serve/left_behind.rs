//! Pages of swap of a disk that the config no longer names.

use sublet_client::messages::{OrphanReason, OrphanedPages};

use crate::ailing::{BreakableBacking, serve, write_pages};
use crate::content::page_of;
use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;

/// Starts a daemon without any disk.
fn serve_no_disk(folder: &Folder) -> Daemon {
    let place = folder.path("guests.sock");
    folder.serve_config(&format!(
        "[tenants.guests]\nlisten = [\"unix:{}\"]\n",
        place.display()
    ))
}

/// Starts a daemon without disks, after one whose swap disk `swap` had three pages that its backing did not take.
fn serve_after(folder: &Folder, backing: &BreakableBacking) -> Daemon {
    let first = serve(folder, backing);
    drop(write_pages(folder, backing));
    first.kill();
    serve_no_disk(folder)
}

#[test]
fn what_a_disk_left_behind_is_shown_until_it_is_given_up() {
    let folder = Folder::new();
    let backing = BreakableBacking::new();
    let daemon = serve_after(&folder, &backing);
    let greeting = &daemon.greeting;
    assert!(
        greeting.contains("swap: 3 pages (12.0 KiB) were left behind"),
        "{greeting}"
    );
    let advice = format!(
        "3 pages (12.0 KiB) of tenant guests were left behind that its backing {} did not take, \
        and no disk of that name is served; \
        add it again with the same name, tenant and backing and they are written, \
        or give them up: sublet disk remove swap --force",
        backing.path()
    );
    for page in [
        folder.sublet_ok(&["disk", "list"]),
        folder.sublet_ok(&["disk", "show", "swap"]),
        folder.sublet_ok(&["status"]),
    ] {
        assert!(page.contains(&advice), "{page}");
    }
    let list = folder.sublet_ok(&["disk", "list"]);
    assert!(list.contains("swap  swap  –       left behind"), "{list}");
    let left = folder.admin().status().expect("answered").left_behind;
    let expected = OrphanedPages {
        name: "swap".parse().expect("a name"),
        pages: 3,
        why: OrphanReason::NoDisk,
        tenant: Some("guests".to_owned()),
        backing: Some(backing.path()),
    };
    assert_eq!(left, std::slice::from_ref(&expected));
    let metrics = folder.admin().metrics().expect("answered");
    let gauge = "sublet_disk_left_behind_pages{disk=\"swap\"} 3";
    assert!(metrics.contains(gauge), "{metrics}");
    let shown: OrphanedPages =
        serde_json::from_str(&folder.sublet_ok(&["disk", "show", "swap", "--json"])).expect("JSON");
    assert_eq!(shown, expected);

    for verb in [
        ["disk", "flush", "swap"].as_slice(),
        &["disk", "resize", "swap", "2MiB"],
    ] {
        let refused = folder.sublet(verb);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let expected = "only memory has 3 pages (12.0 KiB) of it";
        assert!(text(&refused.stderr).contains(expected), "{refused:?}");
    }
    let refused = folder.sublet(&["disk", "remove", "swap"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    for expected in [
        "disk swap is no longer served, and only memory has 3 pages (12.0 KiB) of it",
        "disk remove swap --force",
    ] {
        assert!(text(&refused.stderr).contains(expected), "{refused:?}");
    }
    assert_eq!(
        folder.sublet_ok(&["disk", "remove", "swap", "--force"]),
        "swap: removed; given up: 3 pages (12.0 KiB) that its backing did not take\n"
    );
    assert_eq!(
        folder.sublet_ok(&["disk", "list"]),
        "no disks; sublet disk add makes one\n"
    );
    assert!(
        !folder.path("admin.stage").exists(),
        "the host has the memory back"
    );
    let again = folder.sublet(&["disk", "remove", "swap", "--force"]);
    assert!(
        text(&again.stderr).contains("no disk is called swap"),
        "{again:?}"
    );
    assert_eq!(daemon.end().0, Some(0));
}

#[test]
fn what_a_disk_left_behind_is_there_when_it_comes_back() {
    let folder = Folder::new();
    let backing = BreakableBacking::new();
    let between = serve_after(&folder, &backing);
    assert_eq!(between.end().0, Some(0));
    let _last = serve(&folder, &backing);
    let all = folder.admin().disks().expect("answered");
    assert_eq!((all.disks[0].dirty, all.left_behind), (3, Vec::new()));
    folder.sublet_ok(&["disk", "remove", "swap", "--force"]);
}

#[test]
fn the_name_of_a_disk_that_left_pages_behind_is_for_their_backing_and_tenant_only() {
    let folder = Folder::new();
    let room = format!("[disk]\nallow = [{:?}]\n", folder.path(""));
    let first = folder.serve_config(&room);
    let add_for = |tenant: &str, file: &str| {
        let backing = folder.path(file).display().to_string();
        let listen = format!("unix:{}", folder.path("swap.sock").display());
        let mut said = vec!["disk", "add", "swap", "--temporary", "--kind", "swap"];
        said.extend([
            "--size",
            "1MiB",
            "--tenant",
            tenant,
            "--durability",
            "memory",
        ]);
        said.extend(["--backing", &backing, "--listen", &listen]);
        folder.sublet(&said)
    };
    let add = |file: &str| add_for("guests", file);
    assert!(add("first.swap").status.success());
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(5, 7), 0);
    first.kill();
    let _second = folder.serve_config(&room);

    let refused = add("second.swap");
    for expected in [
        "a disk called swap had another backing before, which did not take 1 page (4.00 KiB)",
        "sublet disk remove swap --force",
    ] {
        assert!(text(&refused.stderr).contains(expected), "{refused:?}");
    }
    assert!(!folder.path("second.swap").exists(), "made for nothing");
    let refused = add_for("others", "first.swap");
    let expected = "only memory has 1 page (4.00 KiB) of tenant guests's disk swap";
    assert!(text(&refused.stderr).contains(expected), "{refused:?}");
    let again = add("first.swap");
    assert!(again.status.success(), "{again:?}");
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.read_page(5), page_of(7));
}

#[test]
fn a_stage_with_nothing_on_it_ends_where_no_disk_needs_it() {
    let folder = Folder::new();
    serve(&folder, &BreakableBacking::new()).kill();
    assert!(folder.path("admin.stage").exists(), "it was kept");
    let _daemon = serve_no_disk(&folder);
    assert!(folder.admin().disks().expect("answered").disks.is_empty());
    assert!(
        !folder.path("admin.stage").exists(),
        "the host has the memory back"
    );
}
