//! `cargo xtask soak`: the long forms of the checks. What came of each one's last run is kept in `docs/soak.md`.

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use crate::checkout::root;
use crate::command::Line;
use crate::step::{Lane, Ran, Step};
use crate::{ci, fuzz, summary, usage};

/// Where it is kept.
const PAGE: &str = "docs/soak.md";

/// Where the steps' logs are.
const LOGS: &str = "target/soak";

/// Steps that take as long as they are told to.
const TIMED: [&str; 2] = ["fuzz", "clients"];

/// Minutes for each fuzz target and each random client run, unless asked otherwise.
const MINUTES: u64 = 30;

/// Runs the long steps that `words` ask for, all of them by default.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let Some((only, minutes)) = asked_for(words) else {
        return usage::wrong();
    };
    let steps = ci::chosen(steps(minutes), &only);
    let started = Instant::now();
    let ran = ci::run_all(&steps, &root().join(LOGS));
    let together = started.elapsed();
    let before = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    if let Err(error) = fs::write(root().join(PAGE), page(&before, &ran, minutes)) {
        eprintln!("cannot write {PAGE}: {error}");
        return ExitCode::FAILURE;
    }
    summary::close(&ran, together)
}

/// What is kept of a run, and of the last runs of the steps that it left out.
fn page(before: &str, ran: &[Ran], minutes: u64) -> String {
    let is_again = |row: &str| {
        ran.iter()
            .any(|ran| row.split(' ').next() == Some(ran.name))
    };
    let kept = before.lines().filter(|line| line.contains(LOGS));
    let kept = kept.filter(|row| !is_again(row)).map(str::to_owned);
    let mut rows: Vec<String> = kept
        .chain(ran.iter().map(|ran| row(ran, minutes)))
        .collect();
    rows.sort();
    format!(
        "# The last long runs\n\n\
         `cargo xtask soak` writes this page. Each row shows the last run of its step. `--minutes` says how long each fuzz\n\
         target and the random clients ran. `cuts` is 50 power cuts of a guest on a disk. These runs build the program as\n\
         packages do. CI builds it with the profile `checked`, with all assertions.\n\n```text\n{}\n{}\n```\n",
        summary::head(),
        rows.join("\n")
    )
}

fn row(ran: &Ran, minutes: u64) -> String {
    let row = summary::row(ran);
    match TIMED.contains(&ran.name) {
        true => format!("{row} --minutes {minutes}"),
        false => row,
    }
}

fn asked_for(words: &[&str]) -> Option<(Vec<String>, u64)> {
    let mut only = Vec::new();
    let mut minutes = MINUTES;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--only" => only.push((*words.next()?).to_owned()),
            "--minutes" => minutes = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some((only, minutes))
}

fn steps(minutes: u64) -> Vec<Step> {
    let seconds = (minutes * 60).to_string();
    let fuzz = |target| Line::new("cargo").args(["xtask", "fuzz", target, &seconds]);
    let random = Line::new(root().join("tests/clients/python/run"))
        .args(["-k", "random"])
        .env("NODE_PROGRAM", root().join("target/release/sublet"))
        .env("RANDOM_SECONDS", &seconds);
    let build = Line::new("cargo").args(["build", "--release", "--locked", "--package", "sublet"]);
    let step = |name, lines: Vec<Line>| Step {
        name,
        needs: &["c++", "python3"],
        seconds_quiet: minutes * 60 * lines.len() as u64 + 600,
        lane: Lane::Building,
        lines,
    };
    vec![
        step("fuzz", fuzz::TARGETS.map(fuzz).to_vec()),
        step("clients", vec![build.clone(), random]),
        guests("cuts", CUT_NEEDS, "fsynced", build.clone()),
        guests("vm", ci::VM_NEEDS, "not fsynced", build),
        step("deb", deb()),
    ]
}

/// Seconds that the long forms with real guests take when quiet: 50 power cuts; 20 deaths of the server for each way in.
const VM_SECONDS_QUIET: u64 = 2400;

/// What it takes to boot guests whose power goes.
const CUT_NEEDS: &[&str] = &[
    "qemu-system-x86_64",
    "busybox",
    "cc",
    "pkg-config",
    "python3",
    "fusermount3",
    "e2fsck",
];

/// Real guests: the long form of the tests whose names say so.
fn guests(name: &'static str, needs: &'static [&'static str], tests: &str, build: Line) -> Step {
    let program = root().join("target/release/sublet");
    let run = ci::guests(&program).args(["-k", tests]).env("VM_LONG", "1");
    Step {
        name,
        needs,
        seconds_quiet: VM_SECONDS_QUIET,
        lane: Lane::Building,
        lines: vec![build, run],
    }
}

/// The Debian package, with the tool that makes it.
fn deb() -> Vec<Line> {
    let tools = root().join("target/tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).unwrap_or(path.clone());
    let install = Line::new("cargo").args(["install", "--locked", "cargo-deb", "--root"]);
    vec![
        install.args([&tools]),
        Line::new(root().join("packaging/build-deb")).env("PATH", path),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::step::Outcome;

    #[test]
    fn a_run_of_some_steps_leaves_the_others_rows() {
        let ran = |name| Ran {
            name,
            outcome: Outcome::Passed,
            took: Duration::from_secs(61),
            log: root().join(LOGS).join(format!("{name}.log")),
        };
        let first = page("", &[ran("vm"), ran("fuzz")], 30);
        let second = page(&first, &[ran("cuts"), ran("fuzz")], 2);
        let rows: Vec<&str> = second.lines().filter(|line| line.contains(LOGS)).collect();
        assert_eq!(
            rows,
            [
                "cuts             passed      1:01  target/soak/cuts.log",
                "fuzz             passed      1:01  target/soak/fuzz.log --minutes 2",
                "vm               passed      1:01  target/soak/vm.log",
            ]
        );
    }

    #[test]
    fn words_become_steps_and_minutes() {
        assert_eq!(
            asked_for(&["--only", "fuzz", "--minutes", "2"]),
            Some((vec!["fuzz".into()], 2))
        );
        assert_eq!(asked_for(&["--minutes", "two"]), None);
    }
}
