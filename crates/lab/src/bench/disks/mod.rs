//! `sublet-lab bench block` measures:
//!
//! - reads of cached pages, beside nbdkit's memory over NBD and qemu-storage-daemon's over vhost-user-blk;
//! - finding a disk's holes, beside qemu-nbd;
//! - the gain from a cache in front of a slow disk.

mod args;
pub(super) mod disk_server;
pub(super) mod drive;
pub(super) mod error;
pub(super) mod fio;
mod holes;
pub(super) mod mounted;
pub(super) mod program;
pub(super) mod slow;

use std::time::Duration;

use super::cores::CoreAssignment;
use super::folder::ScratchFolder;
use super::paired_rounds::{PairedRounds, Side};
use super::progress::BenchProgress;
use super::report::{BenchReport, BenchRow, Goal};
pub(super) use args::Args;
use args::BlockBenchKind;
use disk_server::DiskServer;
use drive::PlaceSeed;
use error::BlockError;

/// Runs the chosen measurements.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BlockError> {
    let mut report = BenchReport::default();
    let chosen = |what| args.what.contains(&what);
    let nbd = fio::NBD.len() * usize::from(chosen(BlockBenchKind::Nbd));
    let vhost = drive::DEPTHS.len() * usize::from(chosen(BlockBenchKind::VhostUser));
    let slow = args.slow.steps() * usize::from(chosen(BlockBenchKind::Slow));
    let holes = holes::STEPS * usize::from(chosen(BlockBenchKind::Holes));
    progress.expect(nbd + holes + vhost + slow);
    let cores = CoreAssignment::deal(1);
    if nbd + vhost > 0 {
        report.notes.push(cores.description().to_owned());
    }
    if chosen(BlockBenchKind::Nbd) {
        report.rows.extend(over_nbd(args, &cores, progress)?);
    }
    if chosen(BlockBenchKind::Holes) {
        report.rows.extend(holes::run(args, progress)?);
    }
    if chosen(BlockBenchKind::VhostUser) {
        report.rows.extend(over_vhost_user(args, &cores, progress)?);
    }
    if chosen(BlockBenchKind::Slow) {
        slow::run(args, progress, &mut report)?;
    }
    Ok(report)
}

/// fio over a Unix socket: ours against nbdkit's memory plugin.
fn over_nbd(
    args: &Args,
    cores: &CoreAssignment,
    progress: &BenchProgress,
) -> Result<Vec<BenchRow>, BlockError> {
    let sublet = args.ours.program()?;
    let folder = ScratchFolder::new()?;
    let image = folder.image("ours.img", args.size)?;
    let ours = cores.on_servers(|| DiskServer::ours(&sublet, &folder, &image, None, args.size))?;
    let peer = cores.on_servers(|| DiskServer::nbdkit(&folder, args.size))?;
    let time = Duration::from_secs_f64(args.seconds);
    let mut rows = Vec::new();
    for served in [&ours, &peer] {
        cores.on_generators(|| fio::fill(served, args.size))?;
    }
    for pattern in &fio::NBD {
        progress.show_message(format!("NBD, {}", pattern.name));
        let (mut rate, mut cpu, mut late) = (
            PairedRounds::default(),
            PairedRounds::default(),
            PairedRounds::default(),
        );
        for _ in 0..args.rounds.max(1) {
            for (served, side) in [(&ours, Side::Ours), (&peer, Side::Peer)] {
                let before = served.cpu()?;
                let read = cores.on_generators(|| fio::run(served, pattern, args.size, time))?;
                let used = (served.cpu()? - before).as_secs_f64() * 1e6 / read.requests;
                rate.push(side, read.per_second);
                cpu.push(side, used);
                late.push(side, read.p99_micros);
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

/// Our own driver: ours against qemu-storage-daemon on tmpfs.
fn over_vhost_user(
    args: &Args,
    cores: &CoreAssignment,
    progress: &BenchProgress,
) -> Result<Vec<BenchRow>, BlockError> {
    const GOAL: f64 = 1.5;
    let sublet = args.ours.program()?;
    let folder = ScratchFolder::new()?;
    let image = folder.image("ours.img", args.size)?;
    let ours = cores.on_servers(|| DiskServer::ours(&sublet, &folder, &image, None, args.size))?;
    let peer = cores.on_servers(|| DiskServer::qemu(&folder, args.size))?;
    cores.on_generators(|| fio::fill(&ours, args.size))?;
    let time = Duration::from_secs_f64(args.seconds);
    let mut rows = Vec::new();
    for depth in drive::DEPTHS {
        progress.show_message(format!("vhost-user-blk, depth {depth}"));
        let (mut rate, mut cpu) = (PairedRounds::default(), PairedRounds::default());
        for _ in 0..args.rounds.max(1) {
            for (served, side) in [(&ours, Side::Ours), (&peer, Side::Peer)] {
                let before = served.cpu()?;
                let read = cores
                    .on_generators(|| drive::reads(served, depth, args.size, PlaceSeed(7), time))?;
                let used = (served.cpu()? - before).as_secs_f64() * 1e6 / read.requests;
                rate.push(side, read.per_second);
                cpu.push(side, used);
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
