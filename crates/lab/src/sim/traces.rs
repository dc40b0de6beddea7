//! `sublet-lab sim compare --trace`: each trace with each size of the client, every variant side by side.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sublet_sim::compare::{FootprintShares, footprint, of_trace};
use sublet_sim::misses::MissComparison;
use sublet_sim::report::RunReport;
use sublet_sim::scenario::format_of;
use sublet_sim::traces::Trace;
use sublet_sim::workload::spec;
use sublet_types::Pages;

use super::compare_args::Args;
use super::error::SimError;
use super::progress::SimProgress;
use super::run_options::RunOptions;
use super::synthetic;
use crate::exit::Exit;

/// Replays all traces.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let progress = SimProgress::new();
    let mut reports = Vec::new();
    let mut misses = MissComparison::default();
    for file in &args.traces {
        let name = file.to_string_lossy();
        let format = match synthetic::is_synthetic(&name) {
            true => Some(synthetic::FORMAT.to_owned()),
            false => args.format.clone(),
        };
        let trace = spec::Trace::of_file(&name, format);
        progress.show_message(format!("{}: its footprint", file.display()));
        let pages = footprint_of(&trace)?;
        let tiers = |client| args.tier.iter().map(move |tier| (client, tier));
        for (client, tier) in args.client.iter().flat_map(tiers) {
            let shares = FootprintShares {
                guest: client.share(),
                tier: tier.share(),
            };
            let scenario = of_trace(&trace, pages, shares);
            let runs = how.play(args.variants().of(&scenario), Path::new(""), &progress)?;
            misses.add(&trace.file, shares, shares.of(pages), &runs);
            reports.push(RunReport::of(runs));
        }
    }
    progress.finish();
    show(how, &reports, &misses)
}

fn footprint_of(trace: &spec::Trace) -> Result<Pages, SimError> {
    let bytes = open_trace(&trace.file).map_err(|cause| SimError::NoTrace {
        file: trace.file.clone(),
        cause,
    })?;
    let format = format_of(trace).map_err(|cause| SimError::Format {
        file: trace.file.clone(),
        cause,
    })?;
    match footprint(Trace::open(&trace.file, Some(format), bytes)?)? {
        Pages(0) => Err(SimError::EmptyTrace(trace.file.clone())),
        pages => Ok(pages),
    }
}

/// Opens a trace. A folder can be opened, too, but is none.
pub(super) fn open_trace(file: &str) -> io::Result<Box<dyn Read>> {
    if synthetic::is_synthetic(file) {
        return synthetic::bytes(file);
    }
    let bytes = File::open(file)?;
    match bytes.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(Box::new(bytes)),
    }
}

/// Shows the misses of all traces. Programs get every run in full.
fn show(
    how: &RunOptions,
    reports: &[RunReport],
    misses: &MissComparison,
) -> Result<Exit, SimError> {
    how.draw(reports)?;
    let mut out = io::stdout().lock();
    let written = Exit::written(match how.json {
        true => writeln!(out, "{:#}", misses.json(reports)),
        false => write!(out, "{}", misses.text()),
    });
    Ok(how.exit_of(reports, written))
}
