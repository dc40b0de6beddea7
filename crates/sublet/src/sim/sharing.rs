//! `sublet sim sharing`: six tenants in one arena, and what each policy costs them together.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use sublet_sim::sharing::{SETS, Set, Sharing, SharingRow, play_items, play_pages};
use sublet_types::EvictionKind;

use super::progress::Progress;
use super::{How, SimError};
use crate::exit::Exit;

/// What to compare.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the traces that the sets name, with CacheLib's popularities in its folder cachelib
    #[arg(long, value_name = "FOLDER")]
    traces: PathBuf,
    /// Policies, the yard-stick first; knobs follow a colon, as in mrc:gain=1
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "mrc,weights,static-alloc,pooled",
        value_name = "NAMES"
    )]
    policies: Vec<String>,
    /// The order in which pages leave
    #[arg(long, default_value_t, value_name = "NAME")]
    eviction: EvictionKind,
    /// Requests of each trace, at the most
    #[arg(long, default_value_t = 300_000, value_name = "N")]
    requests: usize,
    /// Only the sets that have this in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Tenants of items, not of pages
    #[arg(long)]
    items: bool,
}

/// Plays the sets.
pub(super) fn run(args: &Args, how: &How) -> Result<Exit, SimError> {
    let progress = Progress::new();
    let mut sharing = Sharing {
        policies: args.policies.clone(),
        rows: Vec::new(),
    };
    let mut open = |name: &str| -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(args.traces.join(name))?))
    };
    let is_asked = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only));
    for spec in SETS.iter().filter(|spec| is_asked(spec.name)) {
        progress.say(format!("{}: its traces", spec.name));
        let set = spec.read(args.requests, &mut open)?;
        sharing.rows.push(row(args, &set, &progress)?);
    }
    progress.finish();
    let mut out = io::stdout().lock();
    Ok(Exit::written(match how.json {
        true => writeln!(out, "{:#}", sharing.json()),
        false => write!(out, "{}", sharing.text()),
    }))
}

fn row(args: &Args, set: &Set, progress: &Progress) -> Result<SharingRow, SimError> {
    let mut tenants = Vec::with_capacity(args.policies.len());
    for policy in &args.policies {
        progress.say(format!("{}: {policy}", set.name));
        let written = policy.replace(':', " ");
        tenants.push(match args.items {
            true => play_items(set, &written)?,
            false => play_pages(set, &written, args.eviction)?,
        });
    }
    Ok(SharingRow {
        set: set.name.clone(),
        of: if args.items { "items" } else { "pages" },
        percent: set.percent,
        tenants,
    })
}
