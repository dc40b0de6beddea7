//! The files that are shipped beside the binary.

use std::process::Command;

use crate::daemon::{Folder, SUBLET, text};

const UNIT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/sublet.service"
);

#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if there.is_err() {
        eprintln!("systemd-analyze is missing: skipped");
        return;
    }
    let folder = Folder::new();
    let unit = std::fs::read_to_string(UNIT).expect("the unit");
    let unit = folder.write("sublet.service", &unit.replace("/usr/bin/sublet", SUBLET));
    let verdict = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(unit)
        .output()
        .expect("it runs");
    let said = text(&verdict.stderr);
    assert!(
        verdict.status.success() && !said.contains("sublet.service"),
        "{said}"
    );
}

#[test]
fn the_units_command_line_is_one_that_serve_takes() {
    let unit = std::fs::read_to_string(UNIT).expect("the unit");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/sublet "));
    let words: Vec<&str> = line.expect("a command").split(' ').collect();
    let help = text(
        &Command::new(SUBLET)
            .args(["serve", "--help"])
            .output()
            .expect("it runs")
            .stdout,
    );
    for option in words.iter().filter(|word| word.starts_with("--")) {
        assert!(help.contains(option), "{option}");
    }
    assert_eq!(words[0], "serve");
}

#[test]
fn man_page_and_completions_know_every_command() {
    let folder = Folder::new();
    let page = folder.sublet_ok(&["generate", "man"]);
    for shell in ["bash", "zsh", "fish"] {
        let completions = folder.sublet_ok(&["generate", "completions", shell]);
        for command in [
            "serve",
            "status",
            "tenants",
            "release",
            "memcached",
            "doctor",
            "policy",
        ] {
            assert!(completions.contains(command), "{shell}: {command}");
            assert!(page.contains(command), "man: {command}");
        }
    }
    assert!(page.contains("\\-\\-ceiling") && page.contains(".TH sublet 1"));
}
