//! `sublet-lab bench block`: reads of cached pages, beside nbdkit's memory over NBD and qemu-storage-daemon's over
//! vhost-user-blk; finding a disk's holes, beside qemu-nbd; and what a cache in front of a slow disk is worth.

mod args;
mod drive;
pub(super) mod error;
mod fio;
mod holes;
pub(super) mod mounted;
mod program;
mod served;
mod slow;

use std::time::Duration;

use super::both::Both;
use super::cores::Cores;
use super::folder::Folder;
use super::progress::Progress;
use super::report::{Goal, Report, Row};
pub(super) use args::Args;
use args::What;
use error::BlockError;
use served::Served;

/// Runs what was chosen.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BlockError> {
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
        report.rows.extend(holes::run(args, progress)?);
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
    let sublet = args.ours.program()?;
    let folder = Folder::new()?;
    let image = folder.image("ours.img", args.size)?;
    let ours = cores.on_servers(|| Served::ours(&sublet, &folder, &image, None, args.size))?;
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
                rate.push(is_ours, read.per_second);
                cpu.push(is_ours, used);
                late.push(is_ours, read.p99_micros);
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
    cores: &Cores,
    progress: &Progress,
) -> Result<Vec<Row>, BlockError> {
    const GOAL: f64 = 1.5;
    let sublet = args.ours.program()?;
    let folder = Folder::new()?;
    let image = folder.image("ours.img", args.size)?;
    let ours = cores.on_servers(|| Served::ours(&sublet, &folder, &image, None, args.size))?;
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
                rate.push(is_ours, read.per_second);
                cpu.push(is_ours, used);
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
