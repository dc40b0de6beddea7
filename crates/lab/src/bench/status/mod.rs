//! `sublet-lab bench status`: what a look at a large daemon costs, and what it costs those who get meanwhile.

mod args;
mod daemon;
pub(super) mod error;
mod fill;
mod gets;
mod scrape;
mod snapshot;

use std::thread;
use std::time::Duration;

use sublet_types::PAGE_BYTES;

use super::cores::Cores;
use super::folder::Folder;
use super::pair::micros;
use super::progress::Progress;
use super::report::{Goal, Measured, Report, Row};
pub(super) use args::Args;
use daemon::{DISKS, Daemon};
use error::StatusError;

/// A scrape takes no longer, in milliseconds.
const SCRAPE_MILLIS: f64 = 5.0;

/// From one scrape to the next: a daemon may answer those who ask within a second of one another by the same figures.
const SCRAPE_EVERY: Duration = Duration::from_millis(1050);

/// How often each disk is read at the most: while the host is short, the arena does not grow.
const PASSES_MAX: u32 = 4;

/// Looks at a large store, then at a large daemon.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, StatusError> {
    progress.expect(snapshot::STEPS + 2 + gets::steps(args));
    let mut report = Report::default();
    snapshot::run(args, progress, &mut report)?;
    let folder = Folder::new()?;
    let cores = Cores::deal(1);
    let daemon = cores.on_servers(|| Daemon::start(args, &folder))?;
    let keyspace = gets::keyspace();
    cores.on_generators(|| gets::fill(&daemon, &keyspace))?;
    report.notes.push(filled(args, &daemon, progress)?);
    progress.say("scraping");
    let millis = cores.on_generators(|| scrapes(&daemon, args.scrapes))?;
    report.rows.extend(scrape_rows(&millis, args));
    progress.step();
    let row = cores.on_generators(|| gets::beside_scrapes(args, &daemon, &keyspace, progress))?;
    report.rows.push(row);
    report.notes.push(cores.note().to_owned());
    report.notes.push(
        "No get waits for a lock that a scrape holds: the test a_look_waits_for_no_lock_of_puts_gets_and_releases \
         looks while all their locks are held."
            .to_owned(),
    );
    Ok(report)
}

/// Fills the arena by reading every disk. Says what it holds.
fn filled(args: &Args, daemon: &Daemon, progress: &Progress) -> Result<String, StatusError> {
    let wanted = args.arena.0 / PAGE_BYTES;
    let mut there = 0;
    for _ in 0..PASSES_MAX {
        for number in 0..DISKS {
            progress.say(format!(
                "filling {}: disk {} of {DISKS}",
                args.arena,
                number + 1
            ));
            fill::read_all(&daemon.vhost_user(number), args.disk_size())?;
        }
        there = scrape::disk_pages(&scrape::page(daemon.metrics())?);
        if there >= wanted - wanted / 20 {
            progress.step();
            return Ok(format!(
                "The daemon's arena holds {there} pages of {DISKS} disks."
            ));
        }
    }
    Err(StatusError::Small { there, wanted })
}

/// Milliseconds of each scrape.
fn scrapes(daemon: &Daemon, count: u32) -> Result<Vec<f64>, StatusError> {
    let scrape = |_| {
        thread::sleep(SCRAPE_EVERY);
        Ok(micros(scrape::timed(daemon.metrics())?) / 1000.0)
    };
    (0..count).map(scrape).collect()
}

fn scrape_rows(millis: &[f64], args: &Args) -> [Row; 2] {
    let what = format!(
        "scrape of /metrics, {} full, {} tenants",
        args.arena, args.tenants
    );
    let measured = Measured::of(millis);
    [
        Row::new(format!("{what}: median"), "ms", measured).goal(Goal::OursAtMost(SCRAPE_MILLIS)),
        Row::new(
            format!("{what}: worst"),
            "ms",
            Measured::once(measured.most),
        ),
    ]
}
