//! A step of a chore: commands that run one after the other, with a log and a time limit.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::command::{Ending, Line};
use crate::machine;

/// What is run, and what it takes.
pub(crate) struct Step {
    /// What `--only` calls it.
    pub(crate) name: &'static str,
    /// Programs without which it is skipped.
    pub(crate) needs: &'static [&'static str],
    /// After this it is ended, and has failed.
    pub(crate) minutes_max: u64,
    /// What it runs.
    pub(crate) lines: Vec<Line>,
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

impl Step {
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
        let mut log = File::create(log)?;
        let deadline = started + Duration::from_secs(60 * self.minutes_max);
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

    fn run(
        needs: &'static [&'static str],
        minutes_max: u64,
        lines: Vec<Line>,
    ) -> (Outcome, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let step = Step {
            name: "a-step",
            needs,
            minutes_max,
            lines,
        };
        let ran = step.run(folder.path());
        let log = fs::read_to_string(ran.log).unwrap_or_default();
        (ran.outcome, log)
    }

    #[test]
    fn a_step_passes_when_every_command_does_and_its_log_holds_both_streams() {
        let (outcome, log) = run(
            &[],
            1,
            vec![shell("echo one; echo two >&2"), shell("echo three")],
        );
        assert_eq!(outcome, Outcome::Passed);
        for word in ["one\n", "two\n", "three\n"] {
            assert!(log.contains(word), "{word} is missing in {log}");
        }
    }

    #[test]
    fn a_step_stops_at_the_first_command_that_fails() {
        let (outcome, log) = run(&[], 1, vec![shell("exit 3"), shell("echo after")]);
        assert!(matches!(outcome, Outcome::Failed(_)));
        assert!(!log.contains("after\n"));
    }

    #[test]
    fn a_program_that_cannot_start_fails_its_step() {
        let (outcome, log) = run(&[], 1, vec![Line::new("no-program-has-this-name")]);
        assert!(matches!(outcome, Outcome::Failed(_)));
        assert!(log.contains("cannot start it"));
    }

    #[test]
    fn a_step_past_its_limit_is_ended() {
        let (outcome, _) = run(&[], 0, vec![shell("sleep 600; true")]);
        assert!(matches!(outcome, Outcome::TooLong(_)));
    }

    #[test]
    fn a_step_that_lacks_a_program_is_skipped_and_says_which() {
        let (outcome, _) = run(
            &["sh", "no-program-has-this-name"],
            1,
            vec![shell("exit 1")],
        );
        assert_eq!(outcome, Outcome::Skipped(vec!["no-program-has-this-name"]));
    }
}
