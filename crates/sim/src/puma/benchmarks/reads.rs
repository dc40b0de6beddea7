//! Filebench's random and sequential reads.

use std::collections::VecDeque;

use super::shape::{BenchmarkFigure, BenchmarkShape, BenchmarkStep, GUEST_MIB, TransactionSource};
use crate::puma::setting::PumaScale;
use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// MiB of the file.
const FILE_MIB: u64 = 4096;

/// The thread's own time for a random read.
const READ_TAKES: VirtualDuration = VirtualDuration::micros(4);

/// Pages of a sequential read.
const SEQUENTIAL_PAGES: u64 = 8;

/// One thread reads single pages. The paper's offsets are not aligned, so that its reads touch two pages.
struct RandomReads {
    pages: u64,
    /// At first each page is read once, in a mixed order, so that all caches are full soon.
    read: u64,
}

/// An odd factor mixes the numbers below a power of two without repeating one.
const MIXED: u64 = 0x9e37_79b9;

impl TransactionSource for RandomReads {
    fn next(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        let page = match self.read < self.pages {
            true => self.read.wrapping_mul(MIXED) % self.pages,
            false => rng.below(self.pages),
        };
        self.read += 1;
        steps.push_back(BenchmarkStep::Compute(READ_TAKES));
        steps.push_back(BenchmarkStep::Read(page..page + 1));
        steps.push_back(BenchmarkStep::End(VirtualDuration::default()));
    }
}

pub(super) fn random(scale: PumaScale) -> BenchmarkShape {
    let pages = scale.pages(FILE_MIB);
    BenchmarkShape {
        source: Box::new(RandomReads { pages, read: 0 }),
        threads: 1,
        warm_up: 3 * pages,
        counted: pages,
        figure: BenchmarkFigure::Rate,
        guest_mib: GUEST_MIB,
    }
}

struct SequentialReads {
    pages: u64,
    next: u64,
}

impl TransactionSource for SequentialReads {
    fn next(&mut self, _: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        let end = self.next + SEQUENTIAL_PAGES;
        steps.push_back(BenchmarkStep::Read(self.next..end));
        steps.push_back(BenchmarkStep::End(VirtualDuration::default()));
        self.next = end % self.pages;
    }
}

pub(super) fn sequential(scale: PumaScale) -> BenchmarkShape {
    let pages = scale.pages(FILE_MIB);
    let reads = pages / SEQUENTIAL_PAGES;
    BenchmarkShape {
        source: Box::new(SequentialReads { pages, next: 0 }),
        threads: 1,
        warm_up: 2 * reads,
        counted: 2 * reads,
        figure: BenchmarkFigure::Rate,
        guest_mib: GUEST_MIB,
    }
}
