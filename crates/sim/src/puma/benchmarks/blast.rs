//! BLAST: a scan of the database, with lookups in its index between.

use std::collections::VecDeque;

use super::shape::{BenchmarkFigure, BenchmarkShape, BenchmarkStep, GUEST_MIB, TransactionSource};
use crate::puma::setting::PumaScale;
use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// MiB that are scanned, and MiB of the index. Both together are the paper's 3 GB. The paper says that "a large part" is
/// sequential.
const SCANNED_MIB: u64 = 2944;
const INDEX_MIB: u64 = 128;

/// Pages of the scan between two computations.
const SCANNED_PAGES: u64 = 32;

/// The work on that many pages. The paper does not name it. With the lookups, it brings the filter's gain near theirs.
const SCAN_TAKES: VirtualDuration = VirtualDuration::micros(2_000);

/// A lookup follows one in this many parts of the scan.
const LOOKUP_ONE_IN: u64 = 12;

/// Pages of a lookup.
const LOOKUP_PAGES: u64 = 4;

/// Pages between the beginnings of two lookups.
const LOOKUPS_APART: u64 = 1024;

/// Passes over the database before those that count, so that most of the index was looked up once.
const WARM_UP_PASSES: u64 = 8;

const COUNTED_PASSES: u64 = 3;

struct Blast {
    scanned: u64,
    index: u64,
    next: u64,
}

impl TransactionSource for Blast {
    fn next(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        for part in 0..SCANNED_PAGES / 8 {
            let from = self.next + 8 * part;
            steps.push_back(BenchmarkStep::Read(from..from + 8));
        }
        self.next = (self.next + SCANNED_PAGES) % self.scanned;
        steps.push_back(BenchmarkStep::Compute(SCAN_TAKES));
        if rng.below(LOOKUP_ONE_IN) == 0 {
            // Lookups lie behind the scanned part and far from each other, so that none seems to continue another.
            let number = rng.below(self.index / LOOKUP_PAGES);
            let at = 2 * self.scanned + number * LOOKUPS_APART;
            steps.push_back(BenchmarkStep::Read(at..at + LOOKUP_PAGES));
        }
        steps.push_back(BenchmarkStep::End(VirtualDuration::default()));
    }
}

pub(super) fn shape(scale: PumaScale) -> BenchmarkShape {
    let scanned = scale.pages(SCANNED_MIB);
    let parts = scanned / SCANNED_PAGES;
    BenchmarkShape {
        source: Box::new(Blast {
            scanned,
            index: scale.pages(INDEX_MIB),
            next: 0,
        }),
        threads: 1,
        warm_up: WARM_UP_PASSES * parts,
        counted: COUNTED_PASSES * parts,
        figure: BenchmarkFigure::Rate,
        guest_mib: GUEST_MIB,
    }
}
