//! A step of a task: commands that run one after the other, with a log and a time limit.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::command::{CommandLine, CommandLog, CommandOutcome};
use crate::machine;

/// A step and its requirements.
pub(crate) struct CheckStep {
    /// Its name for `--only`.
    pub(crate) name: &'static str,
    /// Programs without which it is skipped.
    pub(crate) needs: &'static [&'static str],
    /// The most seconds that it takes on two quiet cores beside the other lane, with nothing built before.
    pub(crate) seconds_quiet: u64,
    /// The lane in which it runs.
    pub(crate) lane: StepLane,
    /// The commands that it runs.
    pub(crate) lines: Vec<CommandLine>,
}

/// Steps of one lane run one after the other. The two lanes run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepLane {
    /// Steps that build or take all cores. Their output is shown as they run.
    Building,
    /// Steps that mostly wait for clients and clocks, with the program that the other lane built. Their output goes to
    /// their log only.
    Waiting,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// Every command succeeded.
    Passed,
    /// This command failed.
    Failed(String),
    /// This command ran past the limit.
    TimedOut(String),
    /// These programs are missing.
    Skipped(Vec<&'static str>),
    /// Its log could not be written, or its commands could not be followed.
    Broken(String),
}

/// The report of a step.
pub(crate) struct StepReport {
    pub(crate) name: &'static str,
    pub(crate) outcome: StepOutcome,
    pub(crate) took: Duration,
    pub(crate) log: PathBuf,
}

/// A step may take this many times as long as on two quiet cores: other work beside it is no failure.
const TIMES_QUIET: u64 = 3;

/// The shortest limit, in seconds. A step that takes no time on a quiet machine may wait for the rest of the machine.
const LIMIT_MIN: u64 = 120;

impl CheckStep {
    /// After this time the step is ended, and has failed.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs((self.seconds_quiet * TIMES_QUIET).max(LIMIT_MIN))
    }

    /// Runs the step. Its log goes to `folder`.
    pub(crate) fn run(&self, folder: &Path) -> StepReport {
        let started = Instant::now();
        let log = folder.join(format!("{}.log", self.name));
        let missing: Vec<_> = self
            .needs
            .iter()
            .copied()
            .filter(|p| !machine::has(p))
            .collect();
        let outcome = if missing.is_empty() {
            self.follow(&log, started)
                .unwrap_or_else(|error| StepOutcome::Broken(error.to_string()))
        } else {
            StepOutcome::Skipped(missing)
        };
        StepReport {
            name: self.name,
            outcome,
            took: started.elapsed(),
            log,
        }
    }

    fn follow(&self, log: &Path, started: Instant) -> io::Result<StepOutcome> {
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut log = CommandLog {
            file: File::create(log)?,
            is_shown: self.lane == StepLane::Building,
        };
        let deadline = started + self.limit();
        for line in &self.lines {
            match line.run(&mut log, deadline)? {
                CommandOutcome::Succeeded => {}
                CommandOutcome::Failed => return Ok(StepOutcome::Failed(line.to_string())),
                CommandOutcome::TimedOut => return Ok(StepOutcome::TimedOut(line.to_string())),
            }
        }
        Ok(StepOutcome::Passed)
    }
}

impl StepOutcome {
    /// Whether the task may still succeed with this outcome.
    pub(crate) fn is_good(&self) -> bool {
        match self {
            StepOutcome::Passed => true,
            StepOutcome::Skipped(_) => !machine::is_strict(),
            StepOutcome::Failed(_) | StepOutcome::TimedOut(_) | StepOutcome::Broken(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> CommandLine {
        CommandLine::new("sh").args(["-c", script])
    }

    fn step(needs: &'static [&'static str], lines: Vec<CommandLine>) -> CheckStep {
        CheckStep {
            name: "a-step",
            needs,
            seconds_quiet: 60,
            lane: StepLane::Waiting,
            lines,
        }
    }

    fn run(needs: &'static [&'static str], lines: Vec<CommandLine>) -> (StepOutcome, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = step(needs, lines).run(folder.path());
        let log = fs::read_to_string(ran.log).unwrap_or_default();
        (ran.outcome, log)
    }

    #[test]
    fn a_step_passes_when_every_command_does_and_its_log_holds_both_streams() {
        let (outcome, log) = run(
            &[],
            vec![shell("echo one; echo two >&2"), shell("echo three")],
        );
        assert_eq!(outcome, StepOutcome::Passed);
        for word in ["one\n", "two\n", "three\n"] {
            assert!(log.contains(word), "{word} is missing in {log}");
        }
    }

    #[test]
    fn a_step_stops_at_the_first_command_that_fails() {
        let (outcome, log) = run(&[], vec![shell("exit 3"), shell("echo after")]);
        assert!(matches!(outcome, StepOutcome::Failed(_)));
        assert!(!log.contains("after\n"));
    }

    #[test]
    fn a_program_that_cannot_start_fails_its_step() {
        let (outcome, log) = run(&[], vec![CommandLine::new("no-program-has-this-name")]);
        assert!(matches!(outcome, StepOutcome::Failed(_)));
        assert!(log.contains("cannot start it"));
    }

    #[test]
    fn a_step_past_its_limit_is_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("a-step.log");
        let long_ago = Instant::now() - step(&[], Vec::new()).limit();
        let outcome = step(&[], vec![shell("sleep 600; true")]).follow(&log, long_ago);
        assert!(matches!(outcome, Ok(StepOutcome::TimedOut(_))));
    }

    #[test]
    fn a_limit_is_three_times_what_a_quiet_machine_takes_and_two_minutes_at_least() {
        let limit = |seconds_quiet| {
            let lines = Vec::new();
            let step = CheckStep {
                seconds_quiet,
                ..step(&[], lines)
            };
            step.limit().as_secs()
        };
        assert_eq!([1, 100].map(limit), [120, 300]);
    }

    #[test]
    fn a_step_that_lacks_a_program_is_skipped_and_says_which() {
        let (outcome, _) = run(&["sh", "no-program-has-this-name"], vec![shell("exit 1")]);
        assert_eq!(
            outcome,
            StepOutcome::Skipped(vec!["no-program-has-this-name"])
        );
    }
}
