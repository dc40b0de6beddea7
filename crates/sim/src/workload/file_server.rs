//! Whole files by Zipf's law, read in pieces, written and deleted, as filebench's web and file servers do.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{FileSpan, Step, Workload};
use super::zipf::Scattering;
use crate::chance::{Chance, Zipf};
use crate::traces::TraceError;
use crate::virtual_time::{Moment, Nanos};
use crate::within;

/// Knobs of the file server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Files.
    #[serde(deserialize_with = "within::some")]
    pub files: u64,
    /// Their mean size.
    #[serde(deserialize_with = "within::some")]
    pub mean_size: Bytes,
    /// Deviation of the sizes' logarithm: 0 makes all alike.
    #[serde(deserialize_with = "within::deviation")]
    pub sigma: f64,
    /// Exponent of Zipf's law over the files.
    #[serde(deserialize_with = "within::exponent")]
    pub exponent: f64,
    /// Whole-file requests in all.
    #[serde(deserialize_with = "within::some")]
    pub operations: u64,
    /// Of these, the share that rewrites the file.
    #[serde(deserialize_with = "within::share")]
    pub write_share: f64,
    /// The share that deletes it; it is written anew when it is next wanted.
    #[serde(deserialize_with = "within::share")]
    pub delete_share: f64,
    /// What one read call asks for.
    #[serde(deserialize_with = "within::some")]
    pub piece: Bytes,
    /// Time between requests.
    pub think: Nanos,
    /// Threads, each with its share of the operations, that run at once: while one waits for the disk, the
    /// others go on.
    #[serde(deserialize_with = "within::some")]
    pub threads: u16,
    /// Whole-file requests of a thread before it appends to the log.
    #[serde(deserialize_with = "within::some")]
    pub requests_a_log: u32,
    /// What it appends; nothing without it.
    pub log: Bytes,
}

/// filebench's webserver: 1,000 files of 16 KiB in the mean by a gamma law; here more and larger, so that
/// read-ahead windows are many to a file, and the sizes log-normal as measured ones are (Douceur and
/// Bolosky 1999: a deviation of about 1).
impl Default for Spec {
    fn default() -> Spec {
        Spec {
            files: 2_000,
            mean_size: Bytes::kib(256),
            sigma: 1.0,
            exponent: 0.8,
            operations: 10_000,
            write_share: 0.0,
            delete_share: 0.0,
            piece: Bytes::kib(32),
            think: Nanos::default(),
            threads: 1,
            requests_a_log: 10,
            log: Bytes::ZERO,
        }
    }
}

/// No file has more pages: 1 GiB.
const FILE_PAGES_MAX: f64 = 262_144.0;

/// The log of a server: a file behind all others.
const LOG: u64 = 1 << 32;

/// The workload: one thread of it.
#[derive(Clone, Debug)]
pub struct FileServer {
    spec: Spec,
    /// Pages of each file.
    pages: Vec<u32>,
    deleted: Vec<bool>,
    places: Scattering,
    law: Zipf,
    chance: Chance,
    /// Of all threads.
    thread: u64,
    left: u64,
    /// Requests since the log was last written.
    unlogged: u32,
    /// The log's pages that this thread has written.
    logged: u32,
    job: Option<Job>,
    thinks: bool,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct Job {
    file: usize,
    writes: bool,
    from: u32,
}

impl FileServer {
    /// All threads of a server, from its knobs: they share its files, each has luck of its own.
    pub fn threads(spec: &Spec, chance: Chance) -> Vec<FileServer> {
        let first = FileServer::of(spec, chance);
        let threads = u64::from(spec.threads.clamp(1, 256));
        let seed = first.chance.clone().bits();
        let thread = |number: u64| FileServer {
            chance: Chance::of_part(seed, number),
            left: spec.operations / threads + u64::from(number < spec.operations % threads),
            thread: number,
            ..first.clone()
        };
        (0..threads).map(thread).collect()
    }

    /// A server of one thread.
    pub fn of(spec: &Spec, mut chance: Chance) -> FileServer {
        let files = spec.files.clamp(1, 1 << 24);
        // The mean of a log-normal law is exp(mu + sigma² / 2).
        let mean = (Pages::of(spec.mean_size).0.max(1)) as f64;
        let mu = libm::log(mean) - spec.sigma * spec.sigma / 2.0;
        let mut size = |_| libm::exp(mu + spec.sigma * chance.normal());
        let pages = (0..files).map(|n| size(n).clamp(1.0, FILE_PAGES_MAX) as u32);
        FileServer {
            pages: pages.collect(),
            deleted: vec![false; files as usize],
            places: Scattering::over(files),
            law: Zipf::of(files, spec.exponent),
            thread: 0,
            left: spec.operations,
            unlogged: 0,
            logged: 0,
            job: None,
            thinks: false,
            chance,
            spec: spec.clone(),
        }
    }

    /// Pages of all files.
    pub fn footprint(&self) -> u64 {
        self.pages.iter().map(|pages| u64::from(*pages)).sum()
    }

    /// The next request: what it begins with where that is not a piece of a file.
    fn begin(&mut self) -> Option<Step> {
        let file = self.places.place_of(self.law.draw(&mut self.chance)) as usize;
        let luck = self.chance.share();
        if luck < self.spec.delete_share && !self.deleted[file] {
            self.deleted[file] = true;
            return Some(Step::Delete {
                object: file as u64,
                pages: self.pages[file],
            });
        }
        let is_absent = std::mem::take(&mut self.deleted[file]);
        let writes = is_absent || luck < self.spec.delete_share + self.spec.write_share;
        self.job = Some(Job {
            file,
            writes,
            from: 0,
        });
        None
    }

    /// The next piece of a job; the job ends with its last.
    fn piece(&mut self, job: Job) -> Step {
        let end = self.pages[job.file];
        let most = Pages::of(self.spec.piece).0.clamp(1, 1 << 20) as u32;
        let span = FileSpan {
            object: job.file as u64,
            from: job.from,
            count: most.min(end - job.from),
            end,
        };
        let from = job.from + span.count;
        self.job = (from < end).then_some(Job { from, ..job });
        match job.writes {
            true => Step::Write(span),
            false => Step::Read(span),
        }
    }

    /// What is due in the log. Each thread has a part of it, so that no page has two writers.
    fn append(&mut self) -> Option<Step> {
        let count = Pages::of(self.spec.log).0.min(1 << 20) as u32;
        if count == 0 || self.unlogged < self.spec.requests_a_log {
            return None;
        }
        self.unlogged = 0;
        let from = self.logged;
        self.logged = from.wrapping_add(count);
        Some(Step::Write(FileSpan {
            object: LOG + self.thread,
            from,
            count,
            end: from.saturating_add(count),
        }))
    }
}

impl Workload for FileServer {
    fn next(&mut self, _: Moment) -> Result<Step, TraceError> {
        if std::mem::take(&mut self.thinks) {
            return Ok(Step::Compute(self.spec.think));
        }
        if let Some(job) = self.job {
            return Ok(self.piece(job));
        }
        if let Some(step) = self.append() {
            return Ok(step);
        }
        if self.left == 0 {
            return Ok(Step::Done);
        }
        self.left -= 1;
        self.unlogged += 1;
        self.thinks = self.spec.think > Nanos::default();
        match (self.begin(), self.job) {
            (Some(step), _) => Ok(step),
            (None, Some(job)) => Ok(self.piece(job)),
            (None, None) => Ok(Step::Done),
        }
    }
}
