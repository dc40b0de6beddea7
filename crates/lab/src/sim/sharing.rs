//! `sublet-lab sim sharing`: six tenants in one arena, and what each policy costs them together.

use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use sublet_sim::eviction::AnyEviction;
use sublet_sim::scenario::PolicySpec;
use sublet_sim::sharing::{
    SEED, SETS, SharingComparison, SharingRow, TraceSet, play_items, play_pages,
};

use super::error::SimError;
use super::progress::SimProgress;
use super::run_options::{RunOptions, write_plot};
use crate::exit::Exit;

/// Options of the comparison.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Read the sets' traces from this folder, with CacheLib's popularities in its folder cachelib
    #[arg(long, value_name = "FOLDER")]
    traces: PathBuf,
    /// Compare these policies, the yard-stick first; knobs follow a colon, as in mrc:gain=1
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "mrc,weights,static-alloc,pooled",
        value_parser = policy_of,
        value_name = "NAMES"
    )]
    policies: Vec<String>,
    /// Let pages leave in this order
    #[arg(long, default_value_t, value_name = "NAME")]
    eviction: AnyEviction,
    /// Replay at most this many requests of each trace
    #[arg(long, default_value = "300000", value_name = "N")]
    requests: NonZeroUsize,
    /// Replay only the sets that have this in their name
    #[arg(long, value_parser = part_of_a_name, value_name = "TEXT")]
    only: Option<String>,
    /// Use tenants of items instead of pages
    #[arg(long)]
    items: bool,
}

/// Checks that a policy exists, and returns its text.
fn policy_of(written: &str) -> Result<String, String> {
    let read = written.parse::<PolicySpec>();
    read.map(|_| written.to_owned())
        .map_err(|error| error.to_string())
}

/// Parses a part of a set's name.
fn part_of_a_name(text: &str) -> Result<String, String> {
    let names: Vec<&str> = SETS.iter().map(|set| set.name).collect();
    match names.iter().any(|name| name.contains(text)) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "no set has that in its name; there are: {}",
            names.join(", ")
        )),
    }
}

/// Replays the sets.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let progress = SimProgress::new();
    let mut sharing = SharingComparison {
        policies: args.policies.clone(),
        rows: Vec::new(),
    };
    let mut open = |name: &str| -> io::Result<Box<dyn Read>> {
        let path = args.traces.join(name);
        let named =
            |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
        Ok(Box::new(File::open(&path).map_err(named)?))
    };
    let is_asked = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only));
    for spec in SETS.iter().filter(|spec| is_asked(spec.name)) {
        progress.show_message(format!("{}: its traces", spec.name));
        let set = spec.read(args.requests.get(), &mut open)?;
        sharing.rows.push(row(args, &set, how, &progress)?);
    }
    progress.finish();
    if let Some(plot) = &how.plot {
        write_plot(plot, &sharing.draw()?)?;
    }
    let mut out = io::stdout().lock();
    Ok(Exit::written(match how.json {
        true => writeln!(out, "{:#}", sharing.json()),
        false => write!(out, "{}", sharing.text()),
    }))
}

fn row(
    args: &Args,
    set: &TraceSet,
    how: &RunOptions,
    progress: &SimProgress,
) -> Result<SharingRow, SimError> {
    let seed = how.seed.unwrap_or(SEED);
    let mut tenants = Vec::with_capacity(args.policies.len());
    for policy in &args.policies {
        progress.show_message(format!("{}: {policy}", set.name));
        let written = policy.replace(':', " ");
        tenants.push(match args.items {
            true => play_items(set, &written, seed)?,
            false => play_pages(set, &written, args.eviction, seed)?,
        });
    }
    Ok(SharingRow {
        set: set.name.clone(),
        of: if args.items { "items" } else { "pages" },
        percent: set.percent,
        tenants,
    })
}
