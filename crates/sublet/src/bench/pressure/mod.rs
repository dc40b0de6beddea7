//! `sublet bench pressure`: a program takes memory as fast as it can, and the host must not feel that
//! Sublet had it.

mod container;
mod daemon;
mod eater;
mod files;
mod limit;
pub(super) mod swap;
mod touch;
mod vitals;
pub(super) mod warmth;

use std::time::Duration;

use sublet_types::Bytes;

use super::BenchError;
use super::group::GroupError;
use super::keeper::{self, KeepArgs};
use super::progress::Progress;
use super::report::Report;

use crate::exit::Exit;
use daemon::{DaemonError, TetherArgs};
use eater::{EaterArgs, EaterError, Pages};
use files::FilesError;

/// What the bench has other processes do: this binary again.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Chore {
    /// The program that takes memory
    #[command(hide = true, name = "bench-eat")]
    Eat(EaterArgs),
    /// Changes the host for as long as a bench needs it
    #[command(hide = true, name = "bench-keep")]
    Keep(KeepArgs),
    /// A command that ends when the bench does
    #[command(hide = true, name = "bench-tether")]
    Tether(TetherArgs),
}

impl Chore {
    /// Does it.
    pub(crate) fn run(&self) -> Exit {
        match self {
            Chore::Eat(args) => eater::eat(args),
            Chore::Keep(args) => keeper::keep(args),
            Chore::Tether(args) => daemon::tether(args),
        }
    }
}

/// What is tried.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// A size for test machines: an arena of 1 GiB, three pairs, some ten seconds.
    #[arg(long)]
    small: bool,
    /// Only take this much memory, beside whatever runs, and say whether that did harm.
    #[arg(long, value_name = "AMOUNT")]
    take: Option<Bytes>,
    /// How long to keep what was taken, in seconds.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = seconds)]
    keep: Duration,
    /// The pages that are touched.
    #[arg(long, value_enum, default_value_t = Pages::Huge)]
    pages: Pages,
    /// Pairs of runs with and without Sublet [default: 11, small: 3].
    #[arg(long)]
    pairs: Option<usize>,
    /// Try these only, with commas between [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
}

/// What can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// A program takes half of the memory.
    Touch,
    /// A program reads the same files again and again.
    Files,
    /// A program takes half of a cgroup's memory.
    Cgroup,
    /// An arena grows beside a container that thrashes at its own limit; not with `--small`.
    Container,
}

/// Why it could not be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PressureError {
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The program that takes memory.
    #[error(transparent)]
    Eater(#[from] EaterError),
    /// The files that are read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The cgroup with a limit.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The host's figures.
    #[error(transparent)]
    Host(#[from] sublet_host::headroom::ReadError),
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// The arena, where it is not all that is idle.
    arena: Option<Bytes>,
    /// What the program takes of the host.
    take: Bytes,
    /// The files that are read again and again.
    files: Bytes,
    /// The cgroup's limit.
    limit: Bytes,
    pairs: usize,
}

/// With this much memory free or less, there is nothing to try.
const FREE_MIN: Bytes = Bytes::mib(512);

impl Scale {
    fn of(args: &Args) -> Result<Scale, PressureError> {
        let host = vitals::figures()?;
        let small = Bytes::gib(1).min(Bytes(host.free.0 / 2)).max(FREE_MIN);
        Ok(if args.small {
            Scale {
                arena: Some(small),
                take: Bytes(small.0 / 2),
                files: Bytes(small.0 / 2),
                limit: small,
                pairs: args.pairs.unwrap_or(3).max(1),
            }
        } else {
            Scale {
                arena: None,
                take: Bytes(host.memory.0 / 2),
                files: Bytes::gib(6).min(Bytes(host.memory.0 / 4)),
                limit: Bytes(host.memory.0 / 2),
                pairs: args.pairs.unwrap_or(11).max(1),
            }
        })
    }
}

/// Tries what was asked for.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    Ok(try_all(args, progress)?)
}

fn try_all(args: &Args, progress: &Progress) -> Result<Report, PressureError> {
    if let Some(amount) = args.take {
        return touch::take(amount, args.pages, args.keep, progress);
    }
    let scale = Scale::of(args)?;
    let tries = |part| args.only.is_empty() || args.only.contains(&part);
    let mut report = Report::default();
    let (_swap, note) = swap::on();
    report.notes.push(note);
    let (_warmth, note) = warmth::on();
    report.notes.extend(note);
    if tries(Part::Touch) {
        touch::run(&scale, progress, &mut report)?;
    }
    if tries(Part::Files) {
        files::run(&scale, progress, &mut report)?;
    }
    if tries(Part::Cgroup) {
        limit::run(&scale, progress, &mut report)?;
    }
    if tries(Part::Container) && !args.small {
        container::run(&scale, progress, &mut report)?;
    }
    Ok(report)
}

/// Why a time was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time: write seconds such as 10s, or minutes such as 2m")]
struct TimeError(String);

fn seconds(text: &str) -> Result<Duration, TimeError> {
    let (digits, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60.0),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let number: Option<f64> = digits.parse().ok();
    number
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .ok_or_else(|| TimeError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_do() {
        assert_eq!(seconds("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "-1s", "ten", "inf"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
