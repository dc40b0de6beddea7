//! `sublet-lab bench status`: what a scrape of a large daemon costs, and what it costs concurrent gets.

mod args;
mod daemon;
pub(super) mod error;
mod fill;
mod gets;
mod scrape;
mod store_snapshot;

use std::thread;
use std::time::Duration;

use sublet_types::PAGE_BYTES;

use super::cores::CoreAssignment;
use super::folder::ScratchFolder;
use super::pair::micros;
use super::progress::BenchProgress;
use super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
pub(super) use args::Args;
use daemon::{DISKS, ManyTenantDaemon};
use error::StatusError;

/// The most milliseconds of a scrape.
const SCRAPE_MILLIS: f64 = 5.0;

/// The time from one scrape to the next. A daemon may answer requests that are less than a second apart with the same
/// figures.
const SCRAPE_EVERY: Duration = Duration::from_millis(1050);

/// The most times that each disk is read. While the host is short of memory, the arena does not grow.
const PASSES_MAX: u32 = 4;

/// Measures snapshots of a large store, then scrapes of a large daemon.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, StatusError> {
    progress.expect(store_snapshot::STEPS + 2 + gets::steps(args));
    let mut report = BenchReport::default();
    store_snapshot::run(args, progress, &mut report)?;
    let folder = ScratchFolder::new()?;
    let cores = CoreAssignment::deal(1);
    let daemon = cores.on_servers(|| ManyTenantDaemon::start(args, &folder))?;
    let keyspace = gets::keyspace();
    cores.on_generators(|| gets::fill(&daemon, &keyspace))?;
    report.notes.push(fill_arena(args, &daemon, progress)?);
    progress.show_message("scraping");
    let millis = cores.on_generators(|| scrapes(&daemon, args.scrapes))?;
    report.rows.extend(scrape_rows(&millis, args));
    progress.step();
    let row = cores.on_generators(|| gets::beside_scrapes(args, &daemon, &keyspace, progress))?;
    report.rows.push(row);
    report.notes.push(cores.description().to_owned());
    report.notes.push(
        "No get waits for a lock that a scrape holds: the test a_look_waits_for_no_lock_of_puts_gets_and_releases \
         looks while all their locks are held."
            .to_owned(),
    );
    Ok(report)
}

/// Fills the arena by reading every disk. Returns what it holds.
fn fill_arena(
    args: &Args,
    daemon: &ManyTenantDaemon,
    progress: &BenchProgress,
) -> Result<String, StatusError> {
    let wanted = args.arena.0 / PAGE_BYTES;
    let mut there = 0;
    for _ in 0..PASSES_MAX {
        for number in 0..DISKS {
            progress.show_message(format!(
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
fn scrapes(daemon: &ManyTenantDaemon, count: u32) -> Result<Vec<f64>, StatusError> {
    let scrape = |_| {
        thread::sleep(SCRAPE_EVERY);
        Ok(micros(scrape::timed(daemon.metrics())?) / 1000.0)
    };
    (0..count).map(scrape).collect()
}

fn scrape_rows(millis: &[f64], args: &Args) -> [BenchRow; 2] {
    let what = format!(
        "scrape of /metrics, {} full, {} tenants",
        args.arena, args.tenants
    );
    let measured = RoundsSummary::of(millis);
    [
        BenchRow::new(format!("{what}: median"), "ms", measured)
            .goal(Goal::OursAtMost(SCRAPE_MILLIS)),
        BenchRow::new(
            format!("{what}: worst"),
            "ms",
            RoundsSummary::once(measured.most),
        ),
    ]
}
