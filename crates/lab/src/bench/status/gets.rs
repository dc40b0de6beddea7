//! Gets of one tenant, alone and beside one scrape per second.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::super::keyspace::Keyspace;
use super::super::load_generator::{LoadProfile, ReplyWait, RunEnd};
use super::super::pair::micros;
use super::super::paired_rounds::PairedRounds;
use super::super::progress::BenchProgress;
use super::super::report::{BenchRow, Goal};
use super::super::request_stream::{RequestMix, RequestStream};
use super::args::Args;
use super::daemon::ManyTenantDaemon;
use super::error::StatusError;
use super::scrape;

/// The most that an operation may cost beside scrapes, relative to without.
const CPU_RATIO: f64 = 1.02;

const KEYS: u32 = 20_000;
const KEY_BYTES: usize = 30;
const VALUE_BYTES: usize = 100;
const ALPHA: f64 = 0.99;

/// One connection with one request at a time, except for [`FILLING`].
const LOAD: LoadProfile = LoadProfile {
    pipeline: 1,
    connections: 1,
    waiting: ReplyWait::Polling,
};
const FILLING: LoadProfile = LoadProfile {
    pipeline: 64,
    ..LOAD
};

const SCRAPE_EVERY: Duration = Duration::from_secs(1);

/// The number of rounds of both kinds.
pub(super) fn steps(args: &Args) -> usize {
    args.rounds.get()
}

/// The keys that are got.
pub(super) fn keyspace() -> Keyspace {
    Keyspace::new(KEY_BYTES, VALUE_BYTES)
}

/// Stores all keys.
pub(super) fn fill(daemon: &ManyTenantDaemon, keyspace: &Keyspace) -> Result<(), StatusError> {
    let stream = RequestStream::filling(keyspace, 0..KEYS);
    FILLING.run(&[daemon.address()], &stream, RunEnd::End)?;
    Ok(())
}

/// Measures gets without scrapes and beside them in turns. A missed key ends the bench.
pub(super) fn beside_scrapes(
    args: &Args,
    daemon: &ManyTenantDaemon,
    keyspace: &Keyspace,
    progress: &BenchProgress,
) -> Result<BenchRow, StatusError> {
    progress.show_message("gets, alone and beside a scrape a second");
    let stream = RequestStream::mixed(keyspace, KEYS, RequestMix::GET, ALPHA, LOAD.pipeline);
    let time = Duration::from_secs_f64(args.seconds.clamp(0.1, 3600.0));
    let mut cpu = PairedRounds::default();
    for _ in 0..steps(args) {
        cpu.peer.push(cpu_an_operation(daemon, &stream, time)?);
        cpu.ours
            .push(beside(daemon, || cpu_an_operation(daemon, &stream, time))?);
        progress.step();
    }
    let name = "gets beside a scrape a second, and alone: server CPU an operation";
    Ok(cpu.row(name, "µs").goal(Goal::RatioAtMost(CPU_RATIO)))
}

/// CPU microseconds per operation.
fn cpu_an_operation(
    daemon: &ManyTenantDaemon,
    stream: &RequestStream<'_>,
    time: Duration,
) -> Result<f64, StatusError> {
    let before = daemon.cpu()?;
    let outcome = LOAD.run(&[daemon.address()], stream, RunEnd::Elapsed(time))?;
    let used = daemon.cpu()?.saturating_sub(before);
    Ok(micros(used) / outcome.requests as f64)
}

/// Runs `work` while a thread scrapes.
fn beside<R>(
    daemon: &ManyTenantDaemon,
    work: impl FnOnce() -> Result<R, StatusError>,
) -> Result<R, StatusError> {
    thread::scope(|scope| {
        let (end, ended) = channel();
        let scraping = scope.spawn(move || scrape_until(daemon, &ended));
        let worked = work();
        drop(end);
        match scraping.join() {
            Ok(scraped) => scraped?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        worked
    })
}

fn scrape_until(daemon: &ManyTenantDaemon, ended: &Receiver<()>) -> io::Result<()> {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SCRAPE_EVERY) {
        scrape::page(daemon.metrics())?;
    }
    Ok(())
}
