//! `sublet-lab sim disk`: ways of caching a guest's disk side by side, on traces or on a synthetic one.

use std::io::{self, Write};
use std::path::PathBuf;

use sublet_sim::cached_disk::{
    CachedDiskCounts, CachingComparison, PlaybackError, ReplayableTrace, synthetic_requests,
};
use sublet_sim::compare::FootprintShares;
use sublet_sim::scenario::format_of;
use sublet_sim::traces::Trace;
use sublet_sim::workload::spec;

use super::compare_args::Percent;
use super::error::SimError;
use super::progress::SimProgress;
use super::run_all::side_by_side;
use super::run_options::{RunOptions, write_plot};
use super::traces;
use crate::exit::Exit;

/// Options of the comparison.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Replay this trace instead of a synthetic one; repeat it for several. A trace that is not there is skipped
    #[arg(long = "trace", value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// Read the traces in this format; without it, their names tell the format
    #[arg(long, value_name = "NAME", requires = "traces")]
    format: Option<String>,
    /// Give the guest this memory, in percent of a trace's footprint; each is tried
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,10",
        value_name = "PERCENT"
    )]
    client: Vec<Percent>,
    /// Give the disk this memory, in percent of a trace's footprint
    #[arg(long, default_value = "10", value_name = "PERCENT")]
    tier: Percent,
}

/// Runs the comparison.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let progress = SimProgress::new();
    let mut comparison = CachingComparison::default();
    if args.traces.is_empty() {
        let accesses = synthetic_requests(how.seed());
        let recording = ReplayableTrace::of(move || Ok(Trace::of(accesses.clone())))?;
        play("made", &recording, args, how, &progress, &mut comparison)?;
    }
    for file in &args.traces {
        let name = file.to_string_lossy();
        progress.show_message(name.to_string());
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
fn record(file: &str, format: Option<String>) -> Result<Option<ReplayableTrace>, SimError> {
    let trace = spec::Trace::of_file(file, format);
    let format = format_of(&trace).map_err(|cause| SimError::Format {
        file: file.to_owned(),
        cause,
    })?;
    match traces::open_trace(file) {
        Ok(_) => {
            let name = file.to_owned();
            let open = move || {
                let bytes = traces::open_trace(&name).map_err(PlaybackError::Gone)?;
                Ok(Trace::open(&name, Some(format.clone()), bytes)?)
            };
            Ok(Some(ReplayableTrace::of(open)?))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(SimError::NoTrace {
            file: file.to_owned(),
            cause,
        }),
    }
}

/// Replays a trace on every setup, once for each size of the guest.
fn play(
    name: &str,
    recording: &ReplayableTrace,
    args: &Args,
    how: &RunOptions,
    progress: &SimProgress,
    comparison: &mut CachingComparison,
) -> Result<(), SimError> {
    for client in &args.client {
        let shares = FootprintShares {
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
    recording: &ReplayableTrace,
    shares: FootprintShares,
    how: &RunOptions,
    progress: &SimProgress,
    comparison: &CachingComparison,
) -> Result<Vec<CachedDiskCounts>, SimError> {
    let setups = &comparison.setups;
    progress.expect(setups.len());
    let counts = side_by_side(setups.len(), |number| {
        let setup = setups[number];
        progress.show_message(format!("{name}: {setup}"));
        let counts = recording.replay(shares, setup, how.seed());
        progress.end();
        counts
    });
    let counts: Result<Vec<CachedDiskCounts>, _> = counts.into_iter().collect();
    Ok(counts?)
}

fn show(how: &RunOptions, comparison: &CachingComparison) -> Result<Exit, SimError> {
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
