//! `cargo xtask soak`: the long forms of the checks. `docs/soak.md` keeps the result of each one's last run.

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use crate::checkout::root;
use crate::command::CommandLine;
use crate::step::{CheckStep, StepLane, StepReport};
use crate::{ci, fuzz, summary, usage};

/// The page of results.
const PAGE: &str = "docs/soak.md";

/// The folder of the steps' logs.
const LOGS: &str = "target/soak";

/// Steps whose duration is an option.
const TIMED: [&str; 2] = ["fuzz", "clients"];

/// Minutes per fuzz target and per random client run, unless asked otherwise.
const MINUTES: u64 = 30;

/// Runs the long steps that `words` ask for, by default all of them.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let Some((only, minutes)) = parse_args(words) else {
        return usage::wrong();
    };
    let steps = ci::chosen(steps(minutes), &only);
    let started = Instant::now();
    let ran = ci::run_all(&steps, &root().join(LOGS));
    let together = started.elapsed();
    let before = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    if let Err(error) = fs::write(root().join(PAGE), report(&before, &ran, minutes)) {
        eprintln!("cannot write {PAGE}: {error}");
        return ExitCode::FAILURE;
    }
    summary::close(&ran, together)
}

/// The report of a run, with the last results of the steps that it left out.
fn report(before: &str, ran: &[StepReport], minutes: u64) -> String {
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
         target and the random clients ran. `cuts` is 50 power cuts of a guest on a disk. `sim-cluster` is {} simulated\n\
         clusters of five nodes, 400 of fifty and two of a thousand, and each rule left out. These runs build the program\n\
         as packages do. CI builds it with the profile `checked`, with all assertions.\n\n```text\n{}\n{}\n```\n",
        PARTS * PART_SEEDS,
        summary::head(),
        rows.join("\n")
    )
}

fn row(ran: &StepReport, minutes: u64) -> String {
    let row = summary::row(ran);
    match TIMED.contains(&ran.name) {
        true => format!("{row} --minutes {minutes}"),
        false => row,
    }
}

fn parse_args(words: &[&str]) -> Option<(Vec<String>, u64)> {
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

fn steps(minutes: u64) -> Vec<CheckStep> {
    let seconds = (minutes * 60).to_string();
    let fuzz = |target| CommandLine::new("cargo").args(["xtask", "fuzz", target, &seconds]);
    let random = CommandLine::new(root().join("tests/clients/python/run"))
        .args(["-k", "random"])
        .env("NODE_PROGRAM", root().join("target/release/sublet"))
        .env("RANDOM_SECONDS", &seconds);
    let build =
        CommandLine::new("cargo").args(["build", "--release", "--locked", "--package", "sublet"]);
    let step = |name, lines: Vec<CommandLine>| CheckStep {
        name,
        needs: &["c++", "python3"],
        seconds_quiet: minutes * 60 * lines.len() as u64 + 600,
        lane: StepLane::Building,
        lines,
    };
    vec![
        step("fuzz", fuzz::TARGETS.map(fuzz).to_vec()),
        step("clients", vec![build.clone(), random]),
        guests("cuts", CUT_NEEDS, "fsynced", build.clone()),
        far(),
        sim_cluster(),
        guests("vm", ci::VM_NEEDS, "not fsynced", build.clone()),
        lenders(build.clone()),
        clusters(build),
        step("deb", deb()),
    ]
}

/// Pages at a lender that delays, loses, reorders, lies and recalls: ten million operations, with all assertions.
fn far() -> CheckStep {
    let test = CommandLine::new("cargo")
        .args(["test", "--profile", "checked", "--locked", "--lib"])
        .args(["--package", "sublet-store", "--", "--ignored"])
        .args(["no_rule_is_broken_in_ten_million_operations"]);
    CheckStep {
        name: "far",
        needs: &["c++"],
        seconds_quiet: FAR_SECONDS_QUIET,
        lane: StepLane::Building,
        lines: vec![test],
    }
}

/// Seconds that ten million operations at a lender take on a quiet machine, with the build.
const FAR_SECONDS_QUIET: u64 = 900;

/// Clusters in virtual time: 100,000 seeds of five nodes, a few of fifty, a thousand nodes, and each rule left out.
fn sim_cluster() -> CheckStep {
    let build = CommandLine::new("cargo").args(["build", "--release", "--locked"]);
    let lab = |words: &[&str]| {
        let lab = CommandLine::new(root().join("target/release/sublet-lab"));
        lab.args(["sim", "cluster"]).args(words.iter().copied())
    };
    let of_five = |part: u32| {
        let first = (part * PART_SEEDS + 1).to_string();
        lab(&["--seed", &first, "--seeds", &PART_SEEDS.to_string()])
    };
    CheckStep {
        name: "sim-cluster",
        needs: &["c++"],
        seconds_quiet: SIM_CLUSTER_SECONDS_QUIET,
        lane: StepLane::Building,
        lines: [
            vec![build.args(["--package", "sublet-lab"])],
            vec![
                lab(&["--mutate", "all"]),
                lab(&["--nodes", "1000", "--leader", "static", "--seed", "1"]),
                lab(&["--nodes", "1000", "--leader", "etcd", "--seed", "1"]),
                lab(&["--nodes", "50", "--seeds", "400"]),
            ],
            (0..PARTS).map(of_five).collect(),
        ]
        .concat(),
    }
}

/// These seeds run in parts, so that the log of a run that was cut says how far it came.
const PARTS: u32 = 4;

/// Seeds of five nodes in each part.
const PART_SEEDS: u32 = 25_000;

/// Seconds that these take on a quiet machine.
const SIM_CLUSTER_SECONDS_QUIET: u64 = 3600;

/// Seconds that the long forms with real guests take on a quiet machine: 50 power cuts, and 20 deaths of the server per
/// way in.
const VM_SECONDS_QUIET: u64 = 2400;

/// The programs that are needed to boot guests whose power is cut.
const CUT_NEEDS: &[&str] = &[
    "qemu-system-x86_64",
    "busybox",
    "cc",
    "pkg-config",
    "python3",
    "fusermount3",
    "e2fsck",
];

/// Real guests: the long form of the tests whose names contain it.
fn guests(
    name: &'static str,
    needs: &'static [&'static str],
    tests: &str,
    build: CommandLine,
) -> CheckStep {
    let program = root().join("target/release/sublet");
    let run = ci::guests(&program).args(["-k", tests]).env("VM_LONG", "1");
    CheckStep {
        name,
        needs,
        seconds_quiet: VM_SECONDS_QUIET,
        lane: StepLane::Building,
        lines: vec![build, run],
    }
}

/// Seconds that the long forms of lending take on a quiet machine: 10,000 cycles of connections, 40 of daemons, and ten
/// rounds of faults beside guests.
const LEND_SECONDS_QUIET: u64 = 2400;

/// Daemons that lend to each other: the long forms.
fn lenders(build: CommandLine) -> CheckStep {
    let program = root().join("target/release/sublet");
    let [library, tests] = ci::lenders(&program, "release");
    CheckStep {
        name: "lend",
        needs: ci::LEND_NEEDS,
        seconds_quiet: LEND_SECONDS_QUIET,
        lane: StepLane::Building,
        lines: vec![build, library, tests.env("LEND_LONG", "1")],
    }
}

/// Seconds that the long forms of clusters take on a quiet machine: ten minutes of faults, and the rest.
const CLUSTER_SECONDS_QUIET: u64 = 1200;

/// Clusters of daemons: the long forms.
fn clusters(build: CommandLine) -> CheckStep {
    let [library, tests] = ci::clusters(&root().join("target/release/sublet"), "release");
    let with_lab = build.args(["--package", "sublet-lab"]);
    CheckStep {
        name: "cluster",
        needs: ci::CLUSTER_NEEDS,
        seconds_quiet: CLUSTER_SECONDS_QUIET,
        lane: StepLane::Building,
        lines: vec![with_lab, library, tests.env("LEND_LONG", "1")],
    }
}

/// The Debian package, with the tool that makes it.
fn deb() -> Vec<CommandLine> {
    let tools = root().join("target/tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).unwrap_or(path.clone());
    let install = CommandLine::new("cargo").args(["install", "--locked", "cargo-deb", "--root"]);
    vec![
        install.args([&tools]),
        CommandLine::new(root().join("packaging/build-deb")).env("PATH", path),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::step::StepOutcome;

    #[test]
    fn a_run_of_some_steps_leaves_the_others_rows() {
        let ran = |name| StepReport {
            name,
            outcome: StepOutcome::Passed,
            took: Duration::from_secs(61),
            log: root().join(LOGS).join(format!("{name}.log")),
        };
        let first = report("", &[ran("vm"), ran("fuzz")], 30);
        let second = report(&first, &[ran("cuts"), ran("fuzz")], 2);
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
            parse_args(&["--only", "fuzz", "--minutes", "2"]),
            Some((vec!["fuzz".into()], 2))
        );
        assert_eq!(parse_args(&["--minutes", "two"]), None);
    }
}
