//! What is said at the end of a chore: each step, how it ended, how long it took, where its log is.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::machine;
use crate::step::{Outcome, Ran};

/// Lines of a failed step's log that are shown again at the end.
const LOG_TAIL_LINES: usize = 60;

/// Characters shown of the reason why a test failed.
const REASON_MAX: usize = 600;

/// Prints the summary of steps that took so long together; the code is good when every step is.
pub(crate) fn close(ran: &[Ran], together: Duration) -> ExitCode {
    for failed in ran.iter().filter(|step| !step.outcome.is_good()) {
        show_tail(failed);
    }
    println!("\n{}", table(ran, together));
    say_skipped(ran);
    println!("{}", closing_line(ran));
    if !ran.is_empty() && ran.iter().all(|step| step.outcome.is_good()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// How a step ended.
pub(crate) fn row(ran: &Ran) -> String {
    format!(
        "{:<16} {:<9} {:>6}  {}",
        ran.name,
        word(&ran.outcome),
        clock(ran.took),
        short(&ran.log)
    )
}

/// What stands over the rows.
pub(crate) fn head() -> String {
    format!("{:<16} {:<9} {:>6}  {}", "step", "result", "time", "log")
}

/// One row a step, and what all took together: less than the sum, where steps ran side by side.
pub(crate) fn table(ran: &[Ran], together: Duration) -> String {
    let mut rows = vec![head()];
    rows.extend(ran.iter().map(row));
    rows.push(format!("{:<16} {:<9} {:>6}", "all", "", clock(together)));
    rows.join("\n")
}

fn show_tail(step: &Ran) {
    println!(
        "\n==== {} {}: {}",
        step.name,
        word(&step.outcome),
        reason(&step.outcome)
    );
    let log = fs::read_to_string(&step.log).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    let failures = failures(&lines);
    if !failures.is_empty() {
        println!("==== what failed, by {}:", short(&step.log));
    }
    for line in failures.iter().take(LOG_TAIL_LINES) {
        println!("{line}");
    }
    println!("==== the end of {}:", short(&step.log));
    for line in &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..] {
        println!("{line}");
    }
}

/// Which tests failed, as `cargo test` says it, and why, where they panicked: what ran after them may have filled the end of
/// the log.
fn failures<'a>(lines: &[&'a str]) -> Vec<String> {
    let name = |line: &'a str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED");
    let failed: Vec<_> = lines.iter().filter_map(|line| name(line)).collect();
    let names = failed.iter().map(|name| format!("{name} failed"));
    let thread = |line: &'a str| line.strip_prefix("thread '")?.split('\'').next();
    let is_why = |lines: &&[&'a str]| {
        lines[0].contains(" panicked at ")
            && thread(lines[0]).is_some_and(|name| failed.contains(&name))
    };
    let why = lines.windows(2).filter(is_why);
    let why = why.map(|lines| lines.join("\n").chars().take(REASON_MAX).collect());
    names.chain(why).collect()
}

fn say_skipped(ran: &[Ran]) {
    for step in ran {
        if let Outcome::Skipped(_) = step.outcome {
            println!("skipped {}: {}", step.name, reason(&step.outcome));
        }
    }
}

/// How many steps ended how.
pub(crate) fn closing_line(ran: &[Ran]) -> String {
    let skipped = ran
        .iter()
        .filter(|s| matches!(s.outcome, Outcome::Skipped(_)))
        .count();
    let passed = ran.iter().filter(|s| s.outcome == Outcome::Passed).count();
    let failed = ran.len() - passed - skipped;
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) | Outcome::Broken(_) => "FAILED",
        Outcome::TooLong(_) => "TOO LONG",
        Outcome::Skipped(_) if machine::is_strict() => "MISSING",
        Outcome::Skipped(_) => "skipped",
    }
}

fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => String::new(),
        Outcome::Failed(line) => format!("this command failed: {line}"),
        Outcome::TooLong(line) => format!("ended at the step's time limit: {line}"),
        Outcome::Skipped(missing) => format!("not on this machine: {}", missing.join(", ")),
        Outcome::Broken(error) => format!("could not be followed: {error}"),
    }
}

fn clock(took: Duration) -> String {
    format!("{}:{:02}", took.as_secs() / 60, took.as_secs() % 60)
}

fn short(log: &Path) -> std::path::Display<'_> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.and_then(|root| log.strip_prefix(root).ok())
        .unwrap_or(log)
        .display()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &'static str, outcome: Outcome, secs: u64) -> Ran {
        Ran {
            name,
            outcome,
            took: Duration::from_secs(secs),
            log: "x.log".into(),
        }
    }

    #[test]
    fn the_closing_line_counts_each_kind() {
        let all = [
            ran("a", Outcome::Passed, 1),
            ran("b", Outcome::Failed("false".into()), 2),
            ran("c", Outcome::TooLong("sleep".into()), 2),
            ran("d", Outcome::Skipped(vec!["go"]), 0),
        ];
        assert_eq!(closing_line(&all), "1 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn the_table_has_a_row_a_step_and_the_time_of_all() {
        let steps = [ran("a", Outcome::Passed, 61), ran("b", Outcome::Passed, 2)];
        let table = table(&steps, Duration::from_secs(62));
        assert_eq!(table.lines().count(), 4);
        assert!(table.contains("1:01"));
        assert!(table.ends_with("1:02"));
    }

    #[test]
    fn who_failed_is_found_in_the_middle_of_a_log() {
        let log = "test a::fits ... ok\n\
                   test a::breaks ... FAILED\n\
                   thread 'a::fits' (7) panicked at src/a.rs:1:\nas it should\n\
                   thread 'a::breaks' (8) panicked at src/a.rs:2:\n3 is not 4\nstack backtrace:\n\
                   test result: FAILED. 1 passed";
        let lines: Vec<_> = log.lines().collect();
        let why = "thread 'a::breaks' (8) panicked at src/a.rs:2:\n3 is not 4";
        assert_eq!(failures(&lines), ["a::breaks failed", why]);
    }
}
