//! `sublet bench block`: reads of cached pages, beside nbdkit's memory over NBD and qemu-storage-daemon's over
//! vhost-user-blk; and what a cache in front of a slow disk is worth.

mod drive;
mod fio;
mod served;

use std::time::Duration;

use sublet_types::Bytes;

use super::BenchError;
use super::cores::Cores;
use super::pair::Both;
use super::progress::Progress;
use super::report::{Goal, Report, Row};
use fio::Pattern;
use served::{Folder, Served};

/// What is measured.
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
    /// What is measured: nbd, vhost-user and slow
    #[arg(long, value_delimiter = ',', default_values_t = ["nbd".to_owned(), "vhost-user".to_owned(), "slow".to_owned()])]
    what: Vec<String>,
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
    /// The system refused.
    #[error("the system refused what the bench needs: {0}")]
    System(#[from] std::io::Error),
}

/// Runs what was chosen.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    let mut report = Report::default();
    let chosen = |what: &str| args.what.iter().any(|one| one == what);
    let nbd = fio::NBD.len() * usize::from(chosen("nbd"));
    let vhost = drive::DEPTHS.len() * usize::from(chosen("vhost-user"));
    let slow = SHARES.len() * usize::from(chosen("slow"));
    progress.expect(nbd + vhost + slow);
    let cores = Cores::deal(1);
    report.notes.push(cores.note().to_owned());
    if chosen("nbd") {
        report.rows.extend(over_nbd(args, &cores, progress)?);
    }
    if chosen("vhost-user") {
        report.rows.extend(over_vhost_user(args, &cores, progress)?);
    }
    if chosen("slow") {
        report.rows.extend(before_a_slow_disk(args, progress)?);
        report.notes.push(SLOW_NOTE.to_owned());
    }
    Ok(report)
}

/// fio over a Unix socket: ours against nbdkit's memory plugin.
fn over_nbd(args: &Args, cores: &Cores, progress: &Progress) -> Result<Vec<Row>, BlockError> {
    let folder = Folder::new()?;
    let ours = cores.on_servers(|| Served::ours(&folder, args.size, None, args.size))?;
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
    let ours = cores.on_servers(|| Served::ours(&folder, args.size, None, args.size))?;
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

/// Parts of the disk that memory may hold, in per cent.
const SHARES: [u64; 4] = [5, 10, 25, 50];

const SLOW_NOTE: &str = "The slow disk answers after 4 ms, at 100 MB/s; the peer is the same disk through the same daemon with the least memory that it takes.";

/// Zipf reads of a disk that answers after 4 ms: with memory for a part of it, and with next to none.
fn before_a_slow_disk(args: &Args, progress: &Progress) -> Result<Vec<Row>, BlockError> {
    const SLOW: &str = "4ms, 100MB/s";
    let time = Duration::from_secs_f64(args.seconds);
    let mut rows = Vec::new();
    for share in SHARES {
        progress.say(format!("slow disk, memory for {share} %"));
        let (with, without) = (Folder::new()?, Folder::new()?);
        let memory = Bytes(args.size.0 * share / 100);
        let ours = Served::ours(&with, args.size, Some(SLOW), memory)?;
        let bare = Served::ours(&without, args.size, Some(SLOW), Bytes::mib(2))?;
        let pattern = Pattern::ZIPF;
        fio::run(&ours, &pattern, args.size, 4 * time)?;
        let mut rate = Both::default();
        for _ in 0..args.rounds.max(1) {
            rate.ours
                .push(fio::run(&ours, &pattern, args.size, time)?.per_second);
            rate.peer
                .push(fio::run(&bare, &pattern, args.size, time)?.per_second);
        }
        progress.step();
        let name = format!("4 ms disk, Zipf 1.1, memory for {share} %: requests");
        rows.push(rate.row(name, "/s"));
    }
    Ok(rows)
}
