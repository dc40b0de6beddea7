//! The summary at the end of a task: each step, how it ended, how long it took, and where its log is.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::machine;
use crate::step::{StepOutcome, StepReport};

/// Lines of a failed step's log that are shown again at the end.
const LOG_TAIL_LINES: usize = 60;

/// Characters shown of the reason why a test failed.
const REASON_MAX: usize = 600;

/// Prints the summary of steps that took `together` in total. The exit code is good if every step is.
pub(crate) fn close(ran: &[StepReport], together: Duration) -> ExitCode {
    for failed in ran.iter().filter(|step| !step.outcome.is_good()) {
        show_tail(failed);
    }
    println!("\n{}", table(ran, together));
    print_skipped(ran);
    println!("{}", closing_line(ran));
    if !ran.is_empty() && ran.iter().all(|step| step.outcome.is_good()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The row of a step.
pub(crate) fn row(ran: &StepReport) -> String {
    format!(
        "{:<16} {:<9} {:>6}  {}",
        ran.name,
        word(&ran.outcome),
        clock(ran.took),
        short(&ran.log)
    )
}

/// The head of the table.
pub(crate) fn head() -> String {
    format!("{:<16} {:<9} {:>6}  {}", "step", "result", "time", "log")
}

/// One row per step, and the total time. It is less than the sum if steps ran side by side.
pub(crate) fn table(ran: &[StepReport], together: Duration) -> String {
    let mut rows = vec![head()];
    rows.extend(ran.iter().map(row));
    rows.push(format!("{:<16} {:<9} {:>6}", "all", "", clock(together)));
    rows.join("\n")
}

fn show_tail(step: &StepReport) {
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

/// The tests that failed, as `cargo test` names them, and why, if they panicked. Tests that ran after them may have
/// filled the end of the log.
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

fn print_skipped(ran: &[StepReport]) {
    for step in ran {
        if let StepOutcome::Skipped(_) = step.outcome {
            println!("skipped {}: {}", step.name, reason(&step.outcome));
        }
    }
}

/// How many steps ended in which way.
pub(crate) fn closing_line(ran: &[StepReport]) -> String {
    let skipped = ran
        .iter()
        .filter(|s| matches!(s.outcome, StepOutcome::Skipped(_)))
        .count();
    let passed = ran
        .iter()
        .filter(|s| s.outcome == StepOutcome::Passed)
        .count();
    let failed = ran.len() - passed - skipped;
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

fn word(outcome: &StepOutcome) -> &'static str {
    match outcome {
        StepOutcome::Passed => "passed",
        StepOutcome::Failed(_) | StepOutcome::Broken(_) => "FAILED",
        StepOutcome::TimedOut(_) => "TOO LONG",
        StepOutcome::Skipped(_) if machine::is_strict() => "MISSING",
        StepOutcome::Skipped(_) => "skipped",
    }
}

fn reason(outcome: &StepOutcome) -> String {
    match outcome {
        StepOutcome::Passed => String::new(),
        StepOutcome::Failed(line) => format!("this command failed: {line}"),
        StepOutcome::TimedOut(line) => format!("ended at the step's time limit: {line}"),
        StepOutcome::Skipped(missing) => format!("not on this machine: {}", missing.join(", ")),
        StepOutcome::Broken(error) => format!("could not be followed: {error}"),
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

    fn ran(name: &'static str, outcome: StepOutcome, secs: u64) -> StepReport {
        StepReport {
            name,
            outcome,
            took: Duration::from_secs(secs),
            log: "x.log".into(),
        }
    }

    #[test]
    fn the_closing_line_counts_each_kind() {
        let all = [
            ran("a", StepOutcome::Passed, 1),
            ran("b", StepOutcome::Failed("false".into()), 2),
            ran("c", StepOutcome::TimedOut("sleep".into()), 2),
            ran("d", StepOutcome::Skipped(vec!["go"]), 0),
        ];
        assert_eq!(closing_line(&all), "1 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn the_table_has_a_row_a_step_and_the_time_of_all() {
        let steps = [
            ran("a", StepOutcome::Passed, 61),
            ran("b", StepOutcome::Passed, 2),
        ];
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
