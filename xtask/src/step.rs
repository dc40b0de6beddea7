//! A step of a chore: commands that run one after the other, with a log and a time limit.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::command::{Ending, Line, Log};
use crate::machine;

/// What is run, and what it takes.
pub(crate) struct Step {
    /// What `--only` calls it.
    pub(crate) name: &'static str,
    /// Programs without which it is skipped.
    pub(crate) needs: &'static [&'static str],
    /// Seconds that it takes at most on two quiet cores beside the other lane, with nothing built before.
    pub(crate) seconds_quiet: u64,
    /// Where it runs.
    pub(crate) lane: Lane,
    /// What it runs.
    pub(crate) lines: Vec<Line>,
}

/// Steps of one lane run one after the other. The two lanes run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What builds, and what takes all cores. It is seen as it runs.
    Building,
    /// What waits for clients and clocks most of the time, with the program that the other lane built. Only its log has
    /// what it says.
    Waiting,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every command ended well.
    Passed,
    /// This command did not.
    Failed(String),
    /// This command ran past the limit.
    TooLong(String),
    /// These programs are missing.
    Skipped(Vec<&'static str>),
    /// Its log could not be written, or its commands not followed.
    Broken(String),
}

/// A step that was run.
pub(crate) struct Ran {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
    pub(crate) log: PathBuf,
}

/// A step may take so many times as long as on two quiet cores: other work beside it is no failure.
const TIMES_QUIET: u64 = 3;

/// The shortest limit, in seconds: what takes no time when quiet may wait for the rest of the machine.
const LIMIT_MIN: u64 = 120;

impl Step {
    /// After so long it is ended, and has failed.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs((self.seconds_quiet * TIMES_QUIET).max(LIMIT_MIN))
    }

    /// Runs it; its log goes to `folder`.
    pub(crate) fn run(&self, folder: &Path) -> Ran {
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
                .unwrap_or_else(|error| Outcome::Broken(error.to_string()))
        } else {
            Outcome::Skipped(missing)
        };
        Ran {
            name: self.name,
            outcome,
            took: started.elapsed(),
            log,
        }
    }

    fn follow(&self, log: &Path, started: Instant) -> io::Result<Outcome> {
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut log = Log {
            file: File::create(log)?,
            is_shown: self.lane == Lane::Building,
        };
        let deadline = started + self.limit();
        for line in &self.lines {
            match line.run(&mut log, deadline)? {
                Ending::Good => {}
                Ending::Bad => return Ok(Outcome::Failed(line.to_string())),
                Ending::TooLong => return Ok(Outcome::TooLong(line.to_string())),
            }
        }
        Ok(Outcome::Passed)
    }
}

impl Outcome {
    /// Whether the chore may call itself good with it.
    pub(crate) fn is_good(&self) -> bool {
        match self {
            Outcome::Passed => true,
            Outcome::Skipped(_) => !machine::is_strict(),
            Outcome::Failed(_) | Outcome::TooLong(_) | Outcome::Broken(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Line {
        Line::new("sh").args(["-c", script])
    }

    fn step(needs: &'static [&'static str], lines: Vec<Line>) -> Step {
        Step {
            name: "a-step",
            needs,
            seconds_quiet: 60,
            lane: Lane::Waiting,
            lines,
        }
    }

    fn run(needs: &'static [&'static str], lines: Vec<Line>) -> (Outcome, String) {
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
        assert_eq!(outcome, Outcome::Passed);
        for word in ["one\n", "two\n", "three\n"] {
            assert!(log.contains(word), "{word} is missing in {log}");
        }
    }

    #[test]
    fn a_step_stops_at_the_first_command_that_fails() {
        let (outcome, log) = run(&[], vec![shell("exit 3"), shell("echo after")]);
        assert!(matches!(outcome, Outcome::Failed(_)));
        assert!(!log.contains("after\n"));
    }

    #[test]
    fn a_program_that_cannot_start_fails_its_step() {
        let (outcome, log) = run(&[], vec![Line::new("no-program-has-this-name")]);
        assert!(matches!(outcome, Outcome::Failed(_)));
        assert!(log.contains("cannot start it"));
    }

    #[test]
    fn a_step_past_its_limit_is_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("a-step.log");
        let long_ago = Instant::now() - step(&[], Vec::new()).limit();
        let outcome = step(&[], vec![shell("sleep 600; true")]).follow(&log, long_ago);
        assert!(matches!(outcome, Ok(Outcome::TooLong(_))));
    }

    #[test]
    fn a_limit_is_three_times_what_a_quiet_machine_takes_and_two_minutes_at_least() {
        let limit = |seconds_quiet| {
            let lines = Vec::new();
            let step = Step {
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
        assert_eq!(outcome, Outcome::Skipped(vec!["no-program-has-this-name"]));
    }
}
