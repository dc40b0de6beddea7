//! One benchmark on one guest: what is varied, and what it came to.

use std::collections::VecDeque;

use serde::Serialize;

use super::benchmarks::shape::{BenchmarkFigure, BenchmarkShape, BenchmarkStep, TransactionSource};
use super::borrowing_guest::BorrowingGuest;
use super::borrowing_store::{BLOCK_PAGES, FarCounts};
use super::setting::PumaScale;
use super::variants::BenchmarkRun;
use crate::machine::disk_model::DiskCounts;
use crate::machine::tier_store::StoreTierError;
use crate::rng::SimRng;
use crate::virtual_time::{EventQueue, VirtualDuration, VirtualInstant};

impl BenchmarkRun {
    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// There is no memory for a store.
    pub(super) fn play(
        &self,
        scale: PumaScale,
        seed: u64,
    ) -> Result<BenchmarkOutcome, StoreTierError> {
        let shape = self.benchmark.shape(scale);
        let far_blocks = scale.pages(self.far.0) / BLOCK_PAGES;
        let memory = cache_pages(scale, shape.guest_mib);
        let guest = BorrowingGuest::of(self, memory, far_blocks, seed)?;
        let mut running = RunningBenchmark::of(guest, shape, seed);
        running.play_until_counted();
        Ok(running.play_counted())
    }
}

/// The pages of a guest of this many MiB that its page cache may take. The kernel and its programs take an eighth.
pub(super) fn cache_pages(scale: PumaScale, guest_mib: u64) -> u64 {
    scale.pages(guest_mib) / 8 * 7
}

/// What a benchmark came to. All counts are of the transactions that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BenchmarkOutcome {
    /// Transactions.
    pub transactions: u64,
    /// Seconds that they took.
    pub secs: f64,
    /// Their performance: transactions per second, or one by the 90th percentile of the response in seconds.
    pub performance: f64,
    /// What crossed the link.
    pub far: FarCounts,
    /// What the disk did.
    pub disk: DiskCounts,
}

/// A benchmark's threads on their guest.
pub(super) struct RunningBenchmark {
    pub(super) guest: BorrowingGuest,
    source: Box<dyn TransactionSource>,
    threads: Vec<BenchmarkThread>,
    events: EventQueue<usize>,
    rng: SimRng,
    figure: BenchmarkFigure,
    warm_up: u64,
    counted: u64,
    /// The responses of transactions, while they count.
    responses: Vec<VirtualDuration>,
}

#[derive(Default)]
struct BenchmarkThread {
    steps: VecDeque<BenchmarkStep>,
    began: VirtualInstant,
}

impl RunningBenchmark {
    pub(super) fn of(guest: BorrowingGuest, shape: BenchmarkShape, seed: u64) -> RunningBenchmark {
        let mut events = EventQueue::default();
        let threads = 0..shape.threads as usize;
        threads
            .clone()
            .for_each(|thread| events.schedule(VirtualInstant::START, thread));
        RunningBenchmark {
            guest,
            source: shape.source,
            threads: threads.map(|_| BenchmarkThread::default()).collect(),
            events,
            rng: SimRng::of_part(seed, 0x50_55_4d_41),
            figure: shape.figure,
            warm_up: shape.warm_up,
            counted: shape.counted,
            responses: Vec::new(),
        }
    }

    /// Runs the transactions that do not count. Returns the time.
    pub(super) fn play_until_counted(&mut self) -> VirtualInstant {
        let mut now = VirtualInstant::START;
        while self.responses.len() < self.warm_up as usize {
            now = self.step();
        }
        self.responses.clear();
        now
    }

    fn play_counted(&mut self) -> BenchmarkOutcome {
        let (far, disk) = (self.guest.far_counts(), self.guest.disk_counts());
        let began = self.events.next_at();
        let mut now = began;
        while self.responses.len() < self.counted as usize {
            now = self.step();
        }
        let secs = now.since(began).as_secs();
        let transactions = self.responses.len() as u64;
        BenchmarkOutcome {
            transactions,
            secs,
            performance: match self.figure {
                BenchmarkFigure::Rate => transactions as f64 / secs.max(f64::MIN_POSITIVE),
                BenchmarkFigure::Response => 1.0 / self.response(0.9).max(f64::MIN_POSITIVE),
            },
            far: self.guest.far_counts().since(far),
            disk: self.guest.disk_counts().since(disk),
        }
    }

    /// The response in seconds that this share of the transactions stays below.
    pub(super) fn response(&self, share: f64) -> f64 {
        self.response_since(0, share)
    }

    /// The same without the first `first` transactions.
    pub(super) fn response_since(&self, first: usize, share: f64) -> f64 {
        let mut responses = self.responses.get(first..).unwrap_or(&[]).to_vec();
        responses.sort_unstable();
        let at = (responses.len() as f64 * share) as usize;
        responses.get(at).copied().unwrap_or_default().as_secs()
    }

    /// The transactions that were counted so far.
    pub(super) fn responses(&self) -> usize {
        self.responses.len()
    }

    /// Does the next step of a thread. Returns its time.
    pub(super) fn step(&mut self) -> VirtualInstant {
        let Some((now, number)) = self.events.pop() else {
            return VirtualInstant::NEVER;
        };
        let thread = &mut self.threads[number];
        if thread.steps.is_empty() {
            self.source.next(&mut self.rng, &mut thread.steps);
            thread.began = now;
        }
        let guest = &mut self.guest;
        let done = match thread.steps.pop_front() {
            Some(BenchmarkStep::Read(pages)) => guest.read(pages, now),
            Some(BenchmarkStep::Write(pages)) => guest.write(pages, now),
            Some(BenchmarkStep::Delete(pages)) => guest.delete(pages, now),
            Some(BenchmarkStep::Compute(span)) => now + span,
            Some(BenchmarkStep::Commit) => guest.commit(now),
            Some(BenchmarkStep::End(pause)) => {
                self.responses.push(now.since(thread.began));
                now + pause
            }
            None => now,
        };
        self.events.schedule(done, number);
        now
    }
}

impl FarCounts {
    fn since(self, before: FarCounts) -> FarCounts {
        FarCounts {
            fetched: self.fetched - before.fetched,
            sent: self.sent - before.sent,
            pages_wrong: self.pages_wrong,
        }
    }
}

impl DiskCounts {
    fn since(self, before: DiskCounts) -> DiskCounts {
        DiskCounts {
            reads: self.reads - before.reads,
            pages_read: self.pages_read - before.pages_read,
            writes: self.writes - before.writes,
            pages_written: self.pages_written - before.pages_written,
            seeks: self.seeks - before.seeks,
        }
    }
}
