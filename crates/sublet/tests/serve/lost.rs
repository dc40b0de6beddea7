//! Swap disks whose newest pages were lost with the process that kept them.

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, text};
use crate::guest::Guest;
use crate::keeper::{keeper_of, signal};
use crate::wait::wait_until;

fn serve(folder: &Folder, durability: &str) -> Daemon {
    folder.serve_config(&format!(
        "[disks.swap]\ntenant = \"guests\"\nkind = \"swap\"\nsize = \"1MiB\"\ndurability = \"{durability}\"\nlisten = [\"unix:{}\"]\n",
        folder.path("swap.sock").display()
    ))
}

fn guest(folder: &Folder) -> Guest {
    Guest::of(&folder.path("swap.sock"), "swap")
}

/// Kills a daemon whose swap disk a guest wrote to, and then the process that keeps its pages.
fn lose(folder: &Folder, durability: &str) {
    let daemon = serve(folder, durability);
    assert_eq!(guest(folder).write_page(7, 5), 0);
    daemon.kill();
    signal("-9", &keeper_of(folder).expect("a keeper"));
}

#[test]
fn a_disk_whose_newest_pages_are_lost_is_opened_by_that_word_only() {
    let folder = Folder::new();
    lose(&folder, "memory");
    let daemon = serve(&folder, "memory");
    assert!(
        daemon.greeting.contains("swap: closed"),
        "{}",
        daemon.greeting
    );
    let page = folder.sublet_ok(&["disk", "show", "swap"]);
    assert!(
        page.contains("may read older pages than it wrote"),
        "{page}"
    );
    let refused = folder.sublet(&["disk", "open", "swap"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text(&refused.stderr).contains("sublet disk open swap --force"),
        "{refused:?}"
    );
    // Another start does not change anything.
    assert_eq!(daemon.end().0, Some(0));
    let daemon = serve(&folder, "memory");
    assert!(
        daemon.greeting.contains("swap: closed"),
        "{}",
        daemon.greeting
    );
    folder.sublet_ok(&["disk", "open", "swap", "--force"]);
    assert_eq!(guest(&folder).write_page(7, 6), 0);
    daemon.kill();
    let _next = serve(&folder, "memory");
    assert!(guest(&folder).read_page(7) == page_of(6));
}

/// The note that says where a disk's newest pages are is damaged. It may have said anything.
#[test]
fn a_disk_whose_note_is_damaged_opens_where_its_pages_are_found_and_only_there() {
    for damage in [&b""[..], &[0xff; 94]] {
        let folder = Folder::new();
        lose(&folder, "memory");
        let note = folder.path("state/disks/swap.stage");
        std::fs::write(&note, damage).expect("written");
        let daemon = serve(&folder, "memory");
        let greeting = &daemon.greeting;
        assert!(greeting.contains("swap: closed"), "{greeting}");
        folder.sublet_ok(&["disk", "open", "swap", "--force"]);
        assert_eq!(guest(&folder).write_page(7, 6), 0);
        daemon.kill();
        std::fs::write(&note, damage).expect("written");
        let _next = serve(&folder, "memory");
        assert!(guest(&folder).read_page(7) == page_of(6));
    }
}

/// The note that says which file the disk is served from is damaged, and another file may be there.
#[test]
fn a_disk_whose_file_nobody_knows_any_more_is_opened_by_that_word_only() {
    let folder = Folder::new();
    let daemon = serve(&folder, "write-through");
    assert_eq!(guest(&folder).write_page(7, 5), 0);
    assert_eq!(daemon.end().0, Some(0));
    std::fs::write(folder.path("state/disks/swap.served"), b"").expect("written");
    let daemon = serve(&folder, "write-through");
    let greeting = &daemon.greeting;
    assert!(greeting.contains("swap: closed"), "{greeting}");
    assert!(greeting.contains("is damaged"), "{greeting}");
    folder.sublet_ok(&["disk", "open", "swap", "--force"]);
    assert!(guest(&folder).read_page(7) == page_of(5));
}

#[test]
fn a_disk_whose_newest_pages_are_lost_can_be_removed_and_added() {
    let folder = Folder::new();
    let place = format!("unix:{}", folder.path("swap.sock").display());
    let add = [
        "disk",
        "add",
        "swap",
        "--tenant",
        "guests",
        "--kind",
        "swap",
        "--size",
        "1MiB",
        "--listen",
        &place,
        "--temporary",
    ];
    let daemon = folder.serve();
    folder.sublet_ok(&add);
    assert_eq!(guest(&folder).write_page(7, 5), 0);
    daemon.kill();
    signal("-9", &keeper_of(&folder).expect("a keeper"));
    let _next = folder.serve();
    let refused = folder.sublet(&add);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        text(&refused.stderr).contains("sublet disk remove swap"),
        "{refused:?}"
    );
    assert!(
        !folder.path("admin.stage").exists(),
        "no keeper for nothing"
    );
    folder.sublet_ok(&["disk", "remove", "swap"]);
    folder.sublet_ok(&add);
}

#[test]
fn nothing_is_lost_of_a_disk_that_ended_well_or_writes_through() {
    let folder = Folder::new();
    assert_eq!(serve(&folder, "write-behind").end().0, Some(0));
    lose(&folder, "write-through");
    let daemon = serve(&folder, "write-behind");
    assert!(guest(&folder).read_page(7) == page_of(5));
    drop(daemon);
    let daemon = serve(&folder, "write-behind");
    assert!(guest(&folder).read_page(7) == page_of(5));
    drop(daemon);
}

/// A host that was rebooted has no earlier guests.
#[test]
fn a_guest_that_died_with_its_host_lost_nothing() {
    let folder = Folder::new();
    lose(&folder, "write-behind");
    let note = folder.path("state/disks/swap.stage");
    let said = std::fs::read_to_string(&note).expect("a note");
    let (_, number) = said.split_once(' ').expect("two words");
    std::fs::write(&note, format!("of-another-start {number}")).expect("written");
    let _next = serve(&folder, "write-behind");
    assert_eq!(guest(&folder).write_page(1, 1), 0);
}

/// The file system of a swap disk's backing is not there yet, or somebody moved the file away.
#[test]
fn a_backing_that_is_gone_is_not_made_anew_under_its_guest() {
    let folder = Folder::new();
    let backing = folder.path("state/disks/swap.swap");
    let away = folder.path("away.swap");
    let greeting_of = |daemon: &Daemon| daemon.greeting.clone();
    let daemon = serve(&folder, "write-behind");
    assert_eq!(guest(&folder).write_page(7, 5), 0);
    assert_eq!(daemon.end().0, Some(0));
    std::fs::rename(&backing, &away).expect("moved");

    let daemon = serve(&folder, "write-behind");
    assert!(greeting_of(&daemon).contains("swap: closed"));
    let page = folder.sublet_ok(&["disk", "show", "swap"]);
    assert!(
        page.contains("is gone, and a guest may have swapped to it"),
        "{page}"
    );
    let refused = folder.sublet(&["disk", "open", "swap"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!backing.exists());
    std::fs::rename(&away, &backing).expect("moved back");
    folder.sublet_ok(&["disk", "open", "swap"]);
    assert!(guest(&folder).read_page(7) == page_of(5));
    assert_eq!(daemon.end().0, Some(0));

    std::fs::remove_file(&backing).expect("deleted");
    let daemon = serve(&folder, "write-behind");
    assert!(greeting_of(&daemon).contains("swap: closed"));
    folder.sublet_ok(&["disk", "open", "swap", "--force"]);
    assert!(guest(&folder).read_page(7) == [0; 4096]);
    assert_eq!(daemon.end().0, Some(0));

    // A host that was rebooted has no earlier guests.
    std::fs::remove_file(&backing).expect("deleted");
    let note = folder.path("state/disks/swap.served");
    std::fs::write(&note, format!("another start\n{}\n", backing.display())).expect("written");
    let daemon = serve(&folder, "write-behind");
    assert_eq!(guest(&folder).write_page(7, 6), 0);
    drop(daemon);
}

/// Somebody copied a backup back or recreated the file while no daemon ran.
#[test]
fn a_backing_that_was_replaced_is_not_served_to_its_guest() {
    let folder = Folder::new();
    let backing = folder.path("state/disks/swap.swap");
    let away = folder.path("away.swap");
    let daemon = serve(&folder, "memory");
    assert_eq!(guest(&folder).write_page(7, 5), 0);
    daemon.kill();
    std::fs::rename(&backing, &away).expect("moved");
    std::fs::copy(&away, &backing).expect("copied");

    let daemon = serve(&folder, "memory");
    assert!(
        daemon.greeting.contains("swap: closed"),
        "{}",
        daemon.greeting
    );
    let page = folder.sublet_ok(&["disk", "show", "swap"]);
    assert!(page.contains("is another file or device"), "{page}");
    assert_eq!(
        folder.sublet(&["disk", "open", "swap"]).status.code(),
        Some(1)
    );
    std::fs::rename(&away, &backing).expect("moved back");
    folder.sublet_ok(&["disk", "open", "swap"]);
    assert!(
        guest(&folder).read_page(7) == page_of(5),
        "what was staged, too"
    );
    assert_eq!(daemon.end().0, Some(0));

    std::fs::copy(&backing, &away).expect("copied");
    std::fs::rename(&away, &backing).expect("replaced");
    let daemon = serve(&folder, "memory");
    assert!(
        daemon.greeting.contains("swap: closed"),
        "{}",
        daemon.greeting
    );
    folder.sublet_ok(&["disk", "open", "swap", "--force"]);
    assert!(guest(&folder).read_page(7) == page_of(5));
    assert_eq!(daemon.end().0, Some(0));

    // A host that was rebooted has no earlier guests, and may number its devices anew.
    std::fs::copy(&backing, &away).expect("copied");
    std::fs::rename(&away, &backing).expect("replaced");
    let note = folder.path("state/disks/swap.served");
    let said = std::fs::read_to_string(&note).expect("a note");
    let mut lines: Vec<&str> = said.lines().collect();
    lines[1] = "another start"; // behind the version
    std::fs::write(&note, lines.join("\n") + "\n").expect("written");
    let _daemon = serve(&folder, "memory");
    assert_eq!(guest(&folder).write_page(7, 6), 0);
}

/// Nobody else would say that no later start finds what is written now.
#[test]
fn a_backing_that_is_deleted_or_replaced_while_it_is_served_is_told_of_once() {
    let folder = Folder::new();
    let backing = folder.path("state/disks/swap.swap");
    let away = folder.path("away.swap");
    let daemon = serve(&folder, "write-through");
    let wait_for = |what: &str| {
        wait_until(what, || {
            folder.sublet_ok(&["disk", "show", "swap"]).contains(what)
        });
    };
    std::fs::rename(&backing, &away).expect("moved");
    wait_for("was deleted or moved away");
    let metrics = folder.http("GET /metrics", "").1;
    assert!(
        metrics.contains("sublet_disk_backing_path_mismatch{disk=\"swap\"} 1"),
        "{metrics}"
    );
    std::fs::write(&backing, b"another").expect("written");
    wait_for("another file is at its backing's path");
    assert_eq!(guest(&folder).write_page(7, 5), 0);
    std::fs::rename(&away, &backing).expect("moved back");
    wait_for("state      serving\n");
    let log = daemon.end().1;
    for (line, times) in [("a disk is served on, but", 2), ("at its path again", 1)] {
        assert_eq!(log.matches(line).count(), times, "{log}");
    }
}

/// The note of which disk left pages behind, and on what, outlives a disk that is refused its name.
#[test]
fn a_disk_that_is_refused_the_name_of_another_leaves_its_note_alone() {
    let folder = Folder::new();
    let room = format!("[disk]\nallow = [{:?}]\n", folder.path(""));
    let place = format!("unix:{}", folder.path("swap.sock").display());
    let add = |tenant: &str, file: &str| {
        let backing = folder.path(file).display().to_string();
        let said = [
            "disk",
            "add",
            "swap",
            "--temporary",
            "--kind",
            "swap",
            "--size",
            "1MiB",
        ];
        let also = [
            "--durability",
            "memory",
            "--listen",
            &place,
            "--tenant",
            tenant,
        ];
        folder.sublet(&[&said[..], &also, &["--backing", &backing]].concat())
    };
    let first = folder.serve_config(&room);
    assert!(add("guests", "first.swap").status.success());
    assert_eq!(guest(&folder).write_page(7, 5), 0);
    first.kill();
    let _second = folder.serve_config(&room);
    assert!(!add("others", "second.swap").status.success());
    let left = folder.admin().disks().expect("answered").left_behind;
    assert_eq!(left[0].tenant.as_deref(), Some("guests"));
    let backing = left[0].backing.as_deref().expect("its backing");
    assert!(backing.ends_with("first.swap"), "{backing}");
}

#[test]
fn a_second_daemon_with_the_same_state_does_not_start_and_takes_no_note_away() {
    let folder = Folder::new();
    let first = folder.serve();
    let listen = format!("unix:{}", folder.path("swap.sock").display());
    let mut add = vec!["disk", "add", "swap", "--kind", "swap", "--size", "1MiB"];
    add.extend(["--tenant", "guests", "--listen", &listen]);
    folder.sublet_ok(&add);
    let notes = ["stage", "served"].map(|kind| folder.path(&format!("state/disks/swap.{kind}")));
    assert!(notes.iter().all(|note| note.exists()));

    let other = Folder::new();
    let place = format!("unix:{}", other.path("o.sock").display());
    let mut second = other.command_with(&folder.path("state"), &["--listen", &place]);
    let refused = second.output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = text(&refused.stderr);
    let whose = format!("(process {}) keeps its state in", first.pid());
    assert!(said.contains(&whose) && said.contains("--state"), "{said}");
    assert!(!other.path("o.sock").exists());
    assert!(notes.iter().all(|note| note.exists()), "its disk is served");
}
