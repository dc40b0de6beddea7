//! Runs an experiment's commands, each as a process of this program, and reads what they print.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::command::Command;
use super::error::ResultsError;
use super::experiment::Experiment;
use super::played::Played;
use super::record::{Ran, Record};

/// How often a running command's memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `experiment` and returns its record.
///
/// # Errors
///
/// A command fails, or prints something else than expected.
pub(super) fn record(experiment: &Experiment, traces: &Path) -> Result<Record, ResultsError> {
    let scenarios = tempfile::tempdir().map_err(|cause| ResultsError::NotRun {
        line: experiment.name.to_owned(),
        cause,
    })?;
    let mut played = Vec::new();
    for (number, command) in (1..).zip(experiment.commands) {
        let of = experiment.commands.len();
        let begun = format!("{} ({number} of {of}): {}", experiment.name, command.line());
        print_progress(&begun);
        played.push(play(command, scenarios.path(), traces)?);
    }
    let tables = (experiment.condense)(&played)?;
    let commands = played.into_iter().map(|played| played.ran).collect();
    let today = jiff::ZonedDateTime::now().date().to_string();
    Ok(Record::of(today, commands, tables))
}

/// Tells the user how far it is.
pub(super) fn print_progress(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Runs a command to its end.
fn play(command: &Command, scenarios: &Path, traces: &Path) -> Result<Played, ResultsError> {
    let line = command.line();
    let not_run = |cause: io::Error| ResultsError::NotRun {
        line: line.clone(),
        cause,
    };
    write_scenario(command, scenarios, traces)?;
    let mut printed = tempfile::tempfile().map_err(not_run)?;
    let begun = Instant::now();
    let child = start(command, scenarios, traces, &printed).map_err(not_run)?;
    let (status, peak_mib) = wait(child).map_err(not_run)?;
    let secs = begun.elapsed().as_secs_f64();
    if !status.success() {
        return Err(ResultsError::Failed(line));
    }
    print_progress(&format!("  {secs:.0} s"));
    let mut text = String::new();
    printed.rewind().map_err(not_run)?;
    printed.read_to_string(&mut text).map_err(not_run)?;
    let json = serde_json::from_str(&text).map_err(|cause| ResultsError::Shape {
        line: line.clone(),
        cause,
    })?;
    let secs = (secs * 10.0).round() / 10.0;
    let ran = Ran {
        line,
        secs,
        peak_mib,
    };
    Ok(Played { ran, json })
}

/// Writes the scenario of the command's own into `scenarios`.
fn write_scenario(command: &Command, scenarios: &Path, traces: &Path) -> Result<(), ResultsError> {
    let Some(edited) = command.scenario else {
        return Ok(());
    };
    let text = edited.text(traces);
    let text =
        text.ok_or_else(|| ResultsError::Lacks(format!("{:?} in {}", edited.from, edited.of)))?;
    let file = scenarios.join(edited.file);
    fs::write(&file, text).map_err(|cause| ResultsError::Unwritable {
        file: file.display().to_string(),
        cause,
    })
}

fn start(command: &Command, scenarios: &Path, traces: &Path, printed: &File) -> io::Result<Child> {
    std::process::Command::new(std::env::current_exe()?)
        .args(command.resolved(scenarios, traces))
        .current_dir(traces)
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .spawn()
}

/// Waits for a process; returns its status and the most memory that it held, in MiB.
fn wait(mut child: Child) -> io::Result<(ExitStatus, f64)> {
    let status_file = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak_kib = 0u64;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, (peak_kib / 1024) as f64));
        }
        peak_kib = peak_kib.max(peak_of(&status_file));
        thread::sleep(LOOK_EVERY);
    }
}

/// The most memory that the process has held so far, in KiB; 0 if it has ended.
pub(in crate::sim) fn peak_of(status_file: &Path) -> u64 {
    let status = fs::read_to_string(status_file).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0)
}
