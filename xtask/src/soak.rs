//! `cargo xtask soak`: the long forms of the checks. What came of the last run is kept in `docs/soak.md`.

use std::fs;
use std::process::ExitCode;

use crate::command::Line;
use crate::step::{Ran, Step};
use crate::{ci, fuzz, root, summary, wrong_usage};

/// Where the summary of the last run is.
const PAGE: &str = "docs/soak.md";

/// Minutes for each fuzz target and each random client run, unless asked otherwise.
const MINUTES: u64 = 30;

/// Runs the long steps that `words` ask for, all of them by default.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let Some((only, minutes)) = asked_for(words) else {
        return wrong_usage();
    };
    let steps = ci::chosen(steps(minutes), &only);
    let ran = ci::run_all(&steps, &root().join("target/soak"));
    if let Err(error) = fs::write(root().join(PAGE), page(&ran, minutes)) {
        eprintln!("cannot write {PAGE}: {error}");
        return ExitCode::FAILURE;
    }
    summary::close(&ran)
}

/// What is kept of a run.
fn page(ran: &[Ran], minutes: u64) -> String {
    format!(
        "# The last long run\n\nWritten by `cargo xtask soak --minutes {minutes}`: so long for each fuzz target \
         and for random clients.\n\n```text\n{}\n{}\n```\n",
        summary::table(ran),
        summary::closing_line(ran)
    )
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
        minutes_max: minutes * lines.len() as u64 + 30,
        lines,
    };
    vec![
        step("fuzz", fuzz::TARGETS.map(fuzz).to_vec()),
        step("clients", vec![build.clone(), random]),
        vm(build),
        step("deb", deb()),
    ]
}

/// Minutes that the long form with real guests takes at most: 50 power cuts, 20 deaths of the server for each way in.
const VM_MINUTES_MAX: u64 = 120;

/// Real guests, the long form.
fn vm(build: Line) -> Step {
    Step {
        name: "vm",
        needs: ci::VM_NEEDS,
        minutes_max: VM_MINUTES_MAX,
        lines: vec![build, ci::guests().env("VM_LONG", "1")],
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
    use super::*;

    #[test]
    fn words_become_steps_and_minutes() {
        assert_eq!(
            asked_for(&["--only", "fuzz", "--minutes", "2"]),
            Some((vec!["fuzz".into()], 2))
        );
        assert_eq!(asked_for(&["--minutes", "two"]), None);
    }
}
