//! `sublet-lab sim disk`: ways of caching a guest's disk side by side, on traces or on a made one.

use std::io::{self, Write};
use std::path::PathBuf;

use sublet_sim::cached_disk::{Comparison, DiskCounts, PlayError, Recording, made};
use sublet_sim::compare::Shares;
use sublet_sim::scenario::format_of;
use sublet_sim::traces::Trace;
use sublet_sim::workload::spec;

use super::compare_args::Percent;
use super::error::SimError;
use super::how::{How, write_plot};
use super::play::side_by_side;
use super::progress::Progress;
use super::traces;
use crate::exit::Exit;

/// What to compare.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Replay this trace instead of a made one; may be given several times. One that is not there is skipped
    #[arg(long = "trace", value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// The traces' format; their names tell it where it is not given
    #[arg(long, value_name = "NAME", requires = "traces")]
    format: Option<String>,
    /// The guest's own memory, in percent of a trace's footprint; each is tried
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,10",
        value_name = "PERCENT"
    )]
    client: Vec<Percent>,
    /// The disk's memory, in percent of a trace's footprint
    #[arg(long, default_value = "10", value_name = "PERCENT")]
    tier: Percent,
}

/// Compares.
pub(super) fn run(args: &Args, how: &How) -> Result<Exit, SimError> {
    let progress = Progress::new();
    let mut comparison = Comparison::default();
    if args.traces.is_empty() {
        let accesses = made(how.seed());
        let recording = Recording::of(move || Ok(Trace::of(accesses.clone())))?;
        play("made", &recording, args, how, &progress, &mut comparison)?;
    }
    for file in &args.traces {
        let name = file.to_string_lossy();
        progress.say(name.to_string());
        match record(&name, args.format.clone())? {
            Some(recording) => play(&name, &recording, args, how, &progress, &mut comparison)?,
            None => comparison
                .notes
                .push(format!("Skipped: there is no {name}.")),
        }
    }
    progress.finish();
    if comparison.rows.is_empty() {
        let file = args.traces[0].to_string_lossy().into_owned();
        let cause = io::ErrorKind::NotFound.into();
        return Err(SimError::NoTrace { file, cause });
    }
    show(how, &comparison)
}

/// Reads a trace, if it is there.
fn record(file: &str, format: Option<String>) -> Result<Option<Recording>, SimError> {
    let trace = spec::Trace::of_file(file, format);
    let format = format_of(&trace).map_err(|cause| SimError::Format {
        file: file.to_owned(),
        cause,
    })?;
    match traces::opened(file) {
        Ok(_) => {
            let name = file.to_owned();
            let open = move || {
                let bytes = traces::opened(&name).map_err(PlayError::Gone)?;
                Ok(Trace::open(&name, Some(format.clone()), bytes)?)
            };
            Ok(Some(Recording::of(open)?))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(SimError::NoTrace {
            file: file.to_owned(),
            cause,
        }),
    }
}

/// Has every setup do a recording, once for each size of the guest.
fn play(
    name: &str,
    recording: &Recording,
    args: &Args,
    how: &How,
    progress: &Progress,
    comparison: &mut Comparison,
) -> Result<(), SimError> {
    for client in &args.client {
        let shares = Shares {
            guest: client.share(),
            tier: args.tier.share(),
        };
        let counts = play_all(name, recording, shares, how, progress, comparison)?;
        comparison.add(name, shares, counts);
    }
    Ok(())
}

fn play_all(
    name: &str,
    recording: &Recording,
    shares: Shares,
    how: &How,
    progress: &Progress,
    comparison: &Comparison,
) -> Result<Vec<DiskCounts>, SimError> {
    let setups = &comparison.setups;
    progress.expect(setups.len());
    let counts = side_by_side(setups.len(), |number| {
        let setup = setups[number];
        progress.say(format!("{name}: {setup}"));
        let counts = recording.play(shares, setup, how.seed());
        progress.end();
        counts
    });
    let counts: Result<Vec<DiskCounts>, _> = counts.into_iter().collect();
    Ok(counts?)
}

fn show(how: &How, comparison: &Comparison) -> Result<Exit, SimError> {
    if let Some(plot) = &how.plot {
        write_plot(plot, &comparison.draw()?)?;
    }
    let mut out = io::stdout().lock();
    let written = match how.json {
        true => writeln!(out, "{:#}", comparison.json()),
        false => write!(out, "{}", comparison.text()),
    };
    Ok(match comparison.holds() {
        true => Exit::written(written),
        false => Exit::failed("pages came back that were not those put last; please report it"),
    })
}
