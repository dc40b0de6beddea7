//! Who keeps pages of swap, and how it comes about.

use std::fs;
use std::process::Command;

use crate::daemon::{Daemon, Folder, SUBLET};

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
    folder.ask(&[
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
