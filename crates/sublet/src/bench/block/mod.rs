//! `sublet bench block`: reads of cached pages, beside nbdkit's memory over NBD and qemu-storage-daemon's over
//! vhost-user-blk; finding a disk's holes, beside qemu-nbd; and what a cache in front of a slow disk is worth.

mod drive;
mod fio;
mod holes;
pub(super) mod mounted;
mod program;
mod served;
mod slow;

use std::time::Duration;

use sublet_types::Bytes;

use super::BenchError;
use super::cores::Cores;
use super::pair::Both;
use super::progress::Progress;
use super::report::{Goal, Report, Row};
use served::{Folder, Served};

/// What is measured, with commas between.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Seconds of a round.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds of each side.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The disk's size; all of it is cached.
    #[arg(long, default_value = "256MiB")]
    size: Bytes,
    /// What is measured, with commas between.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [What::Nbd, What::Holes, What::VhostUser, What::Slow])]
    what: Vec<What>,
    #[command(flatten)]
    slow: slow::Options,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Reads of cached pages over NBD.
    Nbd,
    /// `qemu-img` over NBD, of a disk with many holes.
    Holes,
    /// Reads of cached pages over vhost-user-blk.
    VhostUser,
    /// What memory before a slow disk is worth.
    Slow,
}

/// Why disks could not be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockError {
    /// A program that is needed is not there, or refuses.
    #[error("cannot start {program}: {why}; it comes with the package {package}")]
    Start {
        /// Which.
        program: &'static str,
        /// Why.
        why: String,
        /// Debian's package.
        package: &'static str,
    },
    /// fio failed.
    #[error("fio failed: {0}")]
    Fio(String),
    /// The vhost-user driver failed.
    #[error("driving {program} over vhost-user: {why}")]
    Drive {
        /// Who was driven.
        program: &'static str,
        /// Why.
        why: String,
    },
    /// A daemon does not say what its disk did.
    #[error("asking for what the disk did: {0}")]
    Asked(#[from] sublet_client::CallError),
    /// What is above the disk answered everything.
    #[error("{0}: no read reached the disk, so what was measured is not the disk")]
    Unread(&'static str),
    /// A file of a source tree.
    #[error("a file of the tree: {0}")]
    Tree(#[from] slow::TreeError),
    /// The cgroup.
    #[error(transparent)]
    Group(#[from] super::group::GroupError),
    /// The system refused.
    #[error("the system refused what the bench needs: {0}")]
    System(#[from] std::io::Error),
}

/// Runs what was chosen.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    let mut report = Report::default();
    let chosen = |what| args.what.contains(&what);
    let nbd = fio::NBD.len() * usize::from(chosen(What::Nbd));
    let vhost = drive::DEPTHS.len() * usize::from(chosen(What::VhostUser));
    let slow = args.slow.steps() * usize::from(chosen(What::Slow));
    let holes = holes::STEPS * usize::from(chosen(What::Holes));
    progress.expect(nbd + holes + vhost + slow);
    let cores = Cores::deal(1);
    if nbd + vhost > 0 {
        report.notes.push(cores.note().to_owned());
    }
    if chosen(What::Nbd) {
        report.rows.extend(over_nbd(args, &cores, progress)?);
    }
    if chosen(What::Holes) {
        report.rows.extend(holes::run(args.rounds, progress)?);
    }
    if chosen(What::VhostUser) {
        report.rows.extend(over_vhost_user(args, &cores, progress)?);
    }
    if chosen(What::Slow) {
        slow::run(args, progress, &mut report)?;
    }
    Ok(report)
}

/// fio over a Unix socket: ours against nbdkit's memory plugin.
fn over_nbd(args: &Args, cores: &Cores, progress: &Progress) -> Result<Vec<Row>, BlockError> {
    let folder = Folder::new()?;
    let image = folder.image("ours.img", args.size)?;
    let ours = cores.on_servers(|| Served::ours(&folder, &image, None, args.size))?;
    let peer = cores.on_servers(|| Served::nbdkit(&folder, args.size))?;
    let time = Duration::from_secs_f64(args.seconds);
    let mut rows = Vec::new();
    for served in [&ours, &peer] {
        cores.on_generators(|| fio::fill(served, args.size))?;
    }
    for pattern in &fio::NBD {
        progress.say(format!("NBD, {}", pattern.name));
        let (mut rate, mut cpu, mut late) = (Both::default(), Both::default(), Both::default());
        for _ in 0..args.rounds.max(1) {
            for (served, is_ours) in [(&ours, true), (&peer, false)] {
                let before = served.cpu()?;
                let read = cores.on_generators(|| fio::run(served, pattern, args.size, time))?;
                let used = (served.cpu()? - before).as_secs_f64() * 1e6 / read.requests;
                push(&mut rate, is_ours, read.per_second);
                push(&mut cpu, is_ours, used);
                push(&mut late, is_ours, read.p99_micros);
            }
        }
        progress.step();
        let name = |what: &str| format!("NBD, {}: {what}", pattern.name);
        rows.push(
            rate.row(name("requests"), "/s")
                .goal(Goal::RatioAtLeast(pattern.rate_goal)),
        );
        let cpu = cpu.row(name("server CPU a request"), "µs");
        rows.push(match pattern.cpu_goal {
            Some(goal) => cpu.goal(Goal::RatioAtMost(goal)),
            None => cpu,
        });
        rows.push(late.row(name("p99"), "µs"));
    }
    Ok(rows)
}

fn push(both: &mut Both, is_ours: bool, figure: f64) {
    match is_ours {
        true => both.ours.push(figure),
        false => both.peer.push(figure),
    }
}

/// Our own driver: ours against qemu-storage-daemon on tmpfs.
fn over_vhost_user(
    args: &Args,
    cores: &Cores,
    progress: &Progress,
) -> Result<Vec<Row>, BlockError> {
    const GOAL: f64 = 1.5;
    let folder = Folder::new()?;
    let image = folder.image("ours.img", args.size)?;
    let ours = cores.on_servers(|| Served::ours(&folder, &image, None, args.size))?;
    let peer = cores.on_servers(|| Served::qemu(&folder, args.size))?;
    cores.on_generators(|| fio::fill(&ours, args.size))?;
    let time = Duration::from_secs_f64(args.seconds);
    let mut rows = Vec::new();
    for depth in drive::DEPTHS {
        progress.say(format!("vhost-user-blk, depth {depth}"));
        let (mut rate, mut cpu) = (Both::default(), Both::default());
        for _ in 0..args.rounds.max(1) {
            for (served, is_ours) in [(&ours, true), (&peer, false)] {
                let before = served.cpu()?;
                let read = cores.on_generators(|| drive::reads(served, depth, args.size, time))?;
                let used = (served.cpu()? - before).as_secs_f64() * 1e6 / read.requests;
                push(&mut rate, is_ours, read.per_second);
                push(&mut cpu, is_ours, used);
            }
        }
        progress.step();
        let name = |what: &str| format!("vhost-user-blk, 4 KiB random, depth {depth}: {what}");
        rows.push(
            rate.row(name("requests"), "/s")
                .goal(Goal::RatioAtLeast(GOAL)),
        );
        rows.push(cpu.row(name("server CPU a request"), "µs"));
    }
    Ok(rows)
}
