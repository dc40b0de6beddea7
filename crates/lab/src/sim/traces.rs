//! `sublet-lab sim compare --trace`: each trace with each size of the client, every variant side by side.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sublet_sim::compare::{Shares, footprint, of_trace};
use sublet_sim::misses::Misses;
use sublet_sim::report::Report;
use sublet_sim::scenario::format_of;
use sublet_sim::traces::Trace;
use sublet_sim::workload::spec;
use sublet_types::Pages;

use super::compare_args::Args;
use super::error::SimError;
use super::how::How;
use super::made;
use super::progress::Progress;
use crate::exit::Exit;

/// Replays them all.
pub(super) fn run(args: &Args, how: &How) -> Result<Exit, SimError> {
    let progress = Progress::new();
    let mut reports = Vec::new();
    let mut misses = Misses::default();
    for file in &args.traces {
        let name = file.to_string_lossy();
        let format = match made::is_made(&name) {
            true => Some(made::FORMAT.to_owned()),
            false => args.format.clone(),
        };
        let trace = spec::Trace::of_file(&name, format);
        progress.say(format!("{}: its footprint", file.display()));
        let pages = footprint_of(&trace)?;
        let tiers = |client| args.tier.iter().map(move |tier| (client, tier));
        for (client, tier) in args.client.iter().flat_map(tiers) {
            let shares = Shares {
                guest: client.share(),
                tier: tier.share(),
            };
            let scenario = of_trace(&trace, pages, shares);
            let runs = how.play(args.variants().of(&scenario), Path::new(""), &progress)?;
            misses.add(&trace.file, shares, shares.of(pages), &runs);
            reports.push(Report::of(runs));
        }
    }
    progress.finish();
    show(how, &reports, &misses)
}

fn footprint_of(trace: &spec::Trace) -> Result<Pages, SimError> {
    let bytes = opened(&trace.file).map_err(|cause| SimError::NoTrace {
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

/// A trace's bytes; a folder opens, too, and is none.
pub(super) fn opened(file: &str) -> io::Result<Box<dyn Read>> {
    if made::is_made(file) {
        return made::bytes(file);
    }
    let bytes = File::open(file)?;
    match bytes.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(Box::new(bytes)),
    }
}

/// The misses of all, and every run in full for programs.
fn show(how: &How, reports: &[Report], misses: &Misses) -> Result<Exit, SimError> {
    how.draw(reports)?;
    let mut out = io::stdout().lock();
    let written = Exit::written(match how.json {
        true => writeln!(out, "{:#}", misses.json(reports)),
        false => write!(out, "{}", misses.text()),
    });
    Ok(how.judged(reports, written))
}
