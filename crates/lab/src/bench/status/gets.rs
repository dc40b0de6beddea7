//! Gets of one tenant, alone and beside a scrape a second.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::super::both::Both;
use super::super::keyspace::Keyspace;
use super::super::load::{Load, Until, Waiting};
use super::super::pair::micros;
use super::super::progress::Progress;
use super::super::report::{Goal, Row};
use super::super::stream::{Mix, Stream};
use super::args::Args;
use super::daemon::Daemon;
use super::error::StatusError;
use super::scrape;

/// An operation costs no more beside scrapes than so many times what it costs without.
const CPU_RATIO: f64 = 1.02;

const KEYS: u32 = 20_000;
const KEY_BYTES: usize = 30;
const VALUE_BYTES: usize = 100;
const ALPHA: f64 = 0.99;

/// One connection, a request at a time but for [`FILLING`].
const LOAD: Load = Load {
    pipeline: 1,
    connections: 1,
    waiting: Waiting::Polling,
};
const FILLING: Load = Load {
    pipeline: 64,
    ..LOAD
};

const SCRAPE_EVERY: Duration = Duration::from_secs(1);

/// Rounds of either kind.
pub(super) fn steps(args: &Args) -> usize {
    args.rounds.get()
}

/// What is got.
pub(super) fn keyspace() -> Keyspace {
    Keyspace::new(KEY_BYTES, VALUE_BYTES)
}

/// Stores all keys.
pub(super) fn fill(daemon: &Daemon, keyspace: &Keyspace) -> Result<(), StatusError> {
    let stream = Stream::filling(keyspace, 0..KEYS);
    FILLING.run(&[daemon.address()], &stream, Until::End)?;
    Ok(())
}

/// Gets without scrapes and beside them in turns; a missed key ends the bench.
pub(super) fn beside_scrapes(
    args: &Args,
    daemon: &Daemon,
    keyspace: &Keyspace,
    progress: &Progress,
) -> Result<Row, StatusError> {
    progress.say("gets, alone and beside a scrape a second");
    let stream = Stream::mixed(keyspace, KEYS, Mix::GET, ALPHA, LOAD.pipeline);
    let time = Duration::from_secs_f64(args.seconds.clamp(0.1, 3600.0));
    let mut cpu = Both::default();
    for _ in 0..steps(args) {
        cpu.peer.push(cpu_an_operation(daemon, &stream, time)?);
        cpu.ours
            .push(beside(daemon, || cpu_an_operation(daemon, &stream, time))?);
        progress.step();
    }
    let name = "gets beside a scrape a second, and alone: server CPU an operation";
    Ok(cpu.row(name, "µs").goal(Goal::RatioAtMost(CPU_RATIO)))
}

/// Microseconds.
fn cpu_an_operation(
    daemon: &Daemon,
    stream: &Stream<'_>,
    time: Duration,
) -> Result<f64, StatusError> {
    let before = daemon.cpu()?;
    let outcome = LOAD.run(&[daemon.address()], stream, Until::Elapsed(time))?;
    let used = daemon.cpu()?.saturating_sub(before);
    Ok(micros(used) / outcome.requests as f64)
}

/// Works while somebody scrapes.
fn beside<R>(
    daemon: &Daemon,
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

fn scrape_until(daemon: &Daemon, ended: &Receiver<()>) -> io::Result<()> {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SCRAPE_EVERY) {
        scrape::page(daemon.metrics())?;
    }
    Ok(())
}
