//! The process that keeps pages of swap, and when it is started.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, SUBLET};
use crate::guest::Guest;
use crate::wait::{wait_for, wait_until};

/// A package manager replaces the program under a running daemon.
#[test]
fn a_daemon_whose_program_was_replaced_still_finds_a_keeper() {
    let folder = Folder::new();
    let program = folder.path("sublet");
    fs::copy(SUBLET, &program).expect("copied");
    let mut command = Command::new(&program);
    command
        .args(["serve", "--ceiling", "64MiB", "--admin"])
        .arg(folder.path("admin.sock"))
        .arg("--state")
        .arg(folder.path("state"))
        .arg("--listen")
        .arg(format!("unix:{}", folder.path("default.sock").display()));
    let daemon = Daemon::start(command);
    fs::remove_file(&program).expect("removed");
    folder.write("sublet", "#!/bin/false\n");
    let place = format!("unix:{}", folder.path("swap.sock").display());
    folder.sublet_ok(&[
        "disk", "add", "swap", "--tenant", "t", "--kind", "swap", "--size", "1MiB", "--listen",
        &place,
    ]);
    assert!(
        folder.path("admin.stage").exists(),
        "somebody keeps its pages"
    );
    assert_eq!(daemon.end().0, Some(0));
    assert!(
        !folder.path("admin.stage").exists(),
        "it ended with the daemon"
    );
}

/// If somebody ends the keeper (an administrator, or the kernel for want of memory), pages are unsafe only briefly.
#[test]
fn a_keeper_that_is_ended_is_followed_by_another() {
    let folder = Folder::new();
    let daemon = folder.serve();
    let place = format!("unix:{}", folder.path("swap.sock").display());
    folder.sublet_ok(&[
        "disk", "add", "swap", "--tenant", "t", "--kind", "swap", "--size", "1MiB", "--listen",
        &place,
    ]);
    let first = keeper_of(&folder).expect("a keeper");
    signal("-9", &first);
    let second = wait_for(|| {
        let next = keeper_of(&folder).filter(|pid| *pid != first);
        next.ok_or("nobody took its place")
    });
    assert!(
        !Path::new("/proc").join(&first).exists(),
        "no zombie of it is left"
    );
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("the keeper of swap pages was ended"), "{log}");
    wait_until("it ends with the daemon", || is_gone(&second));
}

/// The kernel hangs up on stopped processes that a killed daemon leaves behind.
#[test]
fn a_keeper_that_is_stopped_when_its_daemon_is_killed_has_its_pages_all_the_same() {
    let folder = Folder::new();
    let daemon = folder.serve();
    let place = format!("unix:{}", folder.path("swap.sock").display());
    folder.sublet_ok(&[
        "disk",
        "add",
        "swap",
        "--tenant",
        "t",
        "--kind",
        "swap",
        "--size",
        "1MiB",
        "--durability",
        "memory",
        "--listen",
        &place,
    ]);
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(7, 5), 0);
    let keeper = keeper_of(&folder).expect("a keeper");
    signal("-STOP", &keeper);
    daemon.kill();
    signal("-CONT", &keeper);
    let _next = folder.serve();
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert!(guest.read_page(7) == page_of(5));
    assert_eq!(keeper_of(&folder), Some(keeper));
}

/// Adds a swap disk whose pages stay in memory.
fn add_swap(folder: &Folder) {
    let place = format!("unix:{}", folder.path("swap.sock").display());
    let add = ["disk", "add", "swap", "--tenant", "t", "--kind", "swap"];
    let said = [
        "--size",
        "1MiB",
        "--durability",
        "memory",
        "--listen",
        &place,
    ];
    folder.sublet_ok(&[&add[..], &said].concat());
}

fn is_gone(pid: &str) -> bool {
    !Path::new("/proc").join(pid).exists()
}

/// A cleaner of /run or /tmp removes the socket.
#[test]
fn a_keeper_whose_socket_was_removed_is_found_again() {
    let folder = Folder::new();
    let daemon = folder.serve();
    add_swap(&folder);
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(7, 5), 0);
    let first = keeper_of(&folder).expect("a keeper");
    fs::remove_file(folder.path("admin.stage")).expect("removed");
    wait_until("another keeper", || {
        folder.path("admin.stage").exists() && is_gone(&first)
    });
    daemon.kill();
    let _next = folder.serve();
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert!(guest.read_page(7) == page_of(5));
}

#[test]
fn a_daemon_whose_keepers_socket_was_removed_ends_and_its_keeper_too() {
    let folder = Folder::new();
    let daemon = folder.serve();
    add_swap(&folder);
    fs::remove_file(folder.path("admin.stage")).expect("removed");
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    wait_until("no keeper is left", || keeper_of(&folder).is_none());
}

/// Another daemon uses the same path. This daemon must not end that one's keeper, and nobody would find what this one
/// acknowledged.
#[test]
fn a_disk_whose_keeper_nobody_finds_writes_through_and_its_daemon_ends() {
    let folder = Folder::new();
    let daemon = folder.serve();
    add_swap(&folder);
    let others = UnixListener::bind(folder.path("other.stage")).expect("bound");
    fs::rename(folder.path("other.stage"), folder.path("admin.stage")).expect("renamed");
    wait_until("it says so", || {
        folder
            .sublet_ok(&["disk", "show", "swap"])
            .contains("no `sublet keep`")
    });
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(7, 5), 0);
    let disks = folder.admin().disks().expect("answered").disks;
    assert_eq!(disks[0].dirty, 0);
    drop(others);
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(folder.path("admin.stage").exists(), "it is another's");
    wait_until("no keeper is left", || keeper_of(&folder).is_none());
}

pub(crate) fn signal(which: &str, pid: &str) {
    let sent = Command::new("kill").args([which, pid]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_keeper_ends_with_the_last_swap_disk() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    for round in 0..3 {
        let place = format!("unix:{}", folder.path("swap.sock").display());
        folder.sublet_ok(&[
            "disk", "add", "swap", "--tenant", "t", "--kind", "swap", "--size", "1MiB", "--listen",
            &place,
        ]);
        let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
        assert_eq!(guest.write_page(7, round), 0);
        assert!(folder.path("admin.stage").exists());
        folder.sublet_ok(&["disk", "remove", "swap"]);
        assert!(!folder.path("admin.stage").exists(), "round {round}");
    }
}

#[test]
fn a_swap_disk_that_cannot_be_added_leaves_no_keeper() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let nowhere = format!("unix:{}", folder.path("no/such/folder.sock").display());
    let output = folder.sublet(&[
        "disk", "add", "swap", "--tenant", "t", "--kind", "swap", "--size", "1MiB", "--listen",
        &nowhere,
    ]);
    assert!(!output.status.success(), "{output:?}");
    assert!(!folder.path("admin.stage").exists());
    assert_eq!(keeper_of(&folder), None);
}

/// The running process that keeps the pages of a folder's daemon.
pub(crate) fn keeper_of(folder: &Folder) -> Option<String> {
    let stage = folder.path("admin.stage");
    let processes = fs::read_dir("/proc").expect("a Linux");
    let pids = processes.filter_map(|process| process.ok()?.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .find(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0).skip(1);
            words.next() == Some(b"keep") && words.next() == Some(stage.as_os_str().as_bytes())
        })
}
