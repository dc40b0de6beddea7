//! Whole files by Zipf's law, read in pieces, written and deleted, as by filebench's web and file servers.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{FileSpan, Workload, WorkloadStep};
use super::zipf::Permutation;
use crate::bounds;
use crate::rng::{SimRng, Zipf};
use crate::traces::TraceError;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// Knobs of the file server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Files.
    #[serde(deserialize_with = "bounds::some")]
    pub files: u64,
    /// Their mean size.
    #[serde(deserialize_with = "bounds::some")]
    pub mean_size: Bytes,
    /// Deviation of the sizes' logarithm. 0 makes all files alike.
    #[serde(deserialize_with = "bounds::deviation")]
    pub sigma: f64,
    /// Exponent of Zipf's law over the files.
    #[serde(deserialize_with = "bounds::exponent")]
    pub exponent: f64,
    /// The total number of whole-file requests.
    #[serde(deserialize_with = "bounds::some")]
    pub operations: u64,
    /// The share of them that rewrites the file.
    #[serde(deserialize_with = "bounds::share")]
    pub write_share: f64,
    /// The share of them that deletes it. The file is written anew when it is next wanted.
    #[serde(deserialize_with = "bounds::share")]
    pub delete_share: f64,
    /// The size of one read call.
    #[serde(deserialize_with = "bounds::some")]
    pub piece: Bytes,
    /// Time between requests.
    pub think: VirtualDuration,
    /// Threads that run at once, each with its share of the operations. While one waits for the disk, the others go on.
    #[serde(deserialize_with = "bounds::some")]
    pub threads: u16,
    /// Whole-file requests of a thread before it appends to the log.
    #[serde(deserialize_with = "bounds::some")]
    pub requests_a_log: u32,
    /// What it appends. It appends nothing without this.
    pub log: Bytes,
}

/// filebench's webserver has 1,000 files of 16 KiB in the mean by a gamma law. Here files are more and larger, so that
/// a file has many read-ahead windows. Sizes are log-normal, as measured ones are (Douceur and Bolosky 1999: a
/// deviation of about 1).
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
            think: VirtualDuration::default(),
            threads: 1,
            requests_a_log: 10,
            log: Bytes::ZERO,
        }
    }
}

/// The most pages of a file: 1 GiB.
const FILE_PAGES_MAX: f64 = 262_144.0;

/// The log of a server, a file behind all others.
const LOG: u64 = 1 << 32;

/// One thread of the workload.
#[derive(Clone, Debug)]
pub struct FileServerWorkload {
    spec: Spec,
    /// Pages of each file.
    pages: Vec<u32>,
    deleted: Vec<bool>,
    places: Permutation,
    law: Zipf,
    rng: SimRng,
    /// The number of all threads.
    thread: u64,
    left: u64,
    /// Requests since the log was last written.
    unlogged: u32,
    /// The log's pages that this thread has written.
    logged: u32,
    job: Option<FileJob>,
    thinks: bool,
}

/// A request in progress.
#[derive(Clone, Copy, Debug)]
struct FileJob {
    file: usize,
    writes: bool,
    from: u32,
}

impl FileServerWorkload {
    /// All threads of a server. They share its files, and each has its own random numbers.
    pub fn threads(spec: &Spec, rng: SimRng) -> Vec<FileServerWorkload> {
        let first = FileServerWorkload::of(spec, rng);
        let threads = u64::from(spec.threads.clamp(1, 256));
        let seed = first.rng.clone().bits();
        let thread = |number: u64| FileServerWorkload {
            rng: SimRng::of_part(seed, number),
            left: spec.operations / threads + u64::from(number < spec.operations % threads),
            thread: number,
            ..first.clone()
        };
        (0..threads).map(thread).collect()
    }

    /// A server of one thread.
    pub fn of(spec: &Spec, mut rng: SimRng) -> FileServerWorkload {
        let files = spec.files.clamp(1, 1 << 24);
        // The mean of a log-normal law is exp(mu + sigma² / 2).
        let mean = (Pages::of(spec.mean_size).0.max(1)) as f64;
        let mu = libm::log(mean) - spec.sigma * spec.sigma / 2.0;
        let mut size = |_| libm::exp(mu + spec.sigma * rng.normal());
        let pages = (0..files).map(|n| size(n).clamp(1.0, FILE_PAGES_MAX) as u32);
        FileServerWorkload {
            pages: pages.collect(),
            deleted: vec![false; files as usize],
            places: Permutation::over(files),
            law: Zipf::of(files, spec.exponent),
            thread: 0,
            left: spec.operations,
            unlogged: 0,
            logged: 0,
            job: None,
            thinks: false,
            rng,
            spec: spec.clone(),
        }
    }

    /// Pages of all files.
    pub fn footprint(&self) -> u64 {
        self.pages.iter().map(|pages| u64::from(*pages)).sum()
    }

    /// The first step of the next request, if that is not a piece of a file.
    fn begin(&mut self) -> Option<WorkloadStep> {
        let file = self.places.place_of(self.law.draw(&mut self.rng)) as usize;
        let drawn = self.rng.share();
        if drawn < self.spec.delete_share && !self.deleted[file] {
            self.deleted[file] = true;
            return Some(WorkloadStep::Delete {
                object: file as u64,
                pages: self.pages[file],
            });
        }
        let is_absent = std::mem::take(&mut self.deleted[file]);
        let writes = is_absent || drawn < self.spec.delete_share + self.spec.write_share;
        self.job = Some(FileJob {
            file,
            writes,
            from: 0,
        });
        None
    }

    /// The next piece of a job. The job ends with its last piece.
    fn piece(&mut self, job: FileJob) -> WorkloadStep {
        let end = self.pages[job.file];
        let most = Pages::of(self.spec.piece).0.clamp(1, 1 << 20) as u32;
        let span = FileSpan {
            object: job.file as u64,
            from: job.from,
            count: most.min(end - job.from),
            end,
        };
        let from = job.from + span.count;
        self.job = (from < end).then_some(FileJob { from, ..job });
        match job.writes {
            true => WorkloadStep::Write(span),
            false => WorkloadStep::Read(span),
        }
    }

    /// The append to the log that is due. Each thread has its own part of the log, so that no page has two writers.
    fn append(&mut self) -> Option<WorkloadStep> {
        let count = Pages::of(self.spec.log).0.min(1 << 20) as u32;
        if count == 0 || self.unlogged < self.spec.requests_a_log {
            return None;
        }
        self.unlogged = 0;
        let from = self.logged;
        self.logged = from.wrapping_add(count);
        Some(WorkloadStep::Write(FileSpan {
            object: LOG + self.thread,
            from,
            count,
            end: from.saturating_add(count),
        }))
    }
}

impl Workload for FileServerWorkload {
    fn next(&mut self, _: VirtualInstant) -> Result<WorkloadStep, TraceError> {
        if std::mem::take(&mut self.thinks) {
            return Ok(WorkloadStep::Compute(self.spec.think));
        }
        if let Some(job) = self.job {
            return Ok(self.piece(job));
        }
        if let Some(step) = self.append() {
            return Ok(step);
        }
        if self.left == 0 {
            return Ok(WorkloadStep::Done);
        }
        self.left -= 1;
        self.unlogged += 1;
        self.thinks = self.spec.think > VirtualDuration::default();
        match (self.begin(), self.job) {
            (Some(step), _) => Ok(step),
            (None, Some(job)) => Ok(self.piece(job)),
            (None, None) => Ok(WorkloadStep::Done),
        }
    }
}
