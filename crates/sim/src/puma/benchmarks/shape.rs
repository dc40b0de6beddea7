//! What a benchmark is made of: steps, transactions, threads, and what is counted.

use std::collections::VecDeque;
use std::ops::Range;

use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// A step of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::puma) enum BenchmarkStep {
    /// It reads neighbouring pages.
    Read(Range<u64>),
    /// It writes whole pages.
    Write(Range<u64>),
    /// It deletes a file.
    Delete(Range<u64>),
    /// It computes.
    Compute(VirtualDuration),
    /// It writes its log, and waits for the disk.
    Commit,
    /// A transaction ends. The next one begins after this time.
    End(VirtualDuration),
}

/// What a transaction of a benchmark does. Threads of one benchmark share it.
pub(in crate::puma) trait TransactionSource {
    /// Adds the steps of the next transaction.
    fn next(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>);
}

/// A benchmark, ready to run.
pub(in crate::puma) struct BenchmarkShape {
    pub(in crate::puma) source: Box<dyn TransactionSource>,
    pub(in crate::puma) threads: u32,
    /// Transactions before those that count.
    pub(in crate::puma) warm_up: u64,
    /// Transactions that count.
    pub(in crate::puma) counted: u64,
    /// Whether the figure is a rate, or a response.
    pub(in crate::puma) figure: BenchmarkFigure,
    /// MiB of the guest's memory.
    pub(in crate::puma) guest_mib: u64,
}

/// What a benchmark reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::puma) enum BenchmarkFigure {
    /// Transactions per second: more is better.
    Rate,
    /// The 90th percentile of the transactions' response: less is better.
    Response,
}

/// MiB of the guest of section 4.
pub(super) const GUEST_MIB: u64 = 1024;
