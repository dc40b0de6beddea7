//! TPC-H and TPC-C over PostgreSQL, as the pages that their transactions read and write.

use std::collections::VecDeque;

use super::shape::{BenchmarkFigure, BenchmarkShape, BenchmarkStep, GUEST_MIB, TransactionSource};
use crate::puma::setting::PumaScale;
use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// A query of TPC-H: sequences of medium length, and lookups of single pages (section 4.4.3).
struct TpcH {
    pages: u64,
}

const TPC_H_MIB: u64 = 3072;

/// Queries that run at once.
const TPC_H_STREAMS: u32 = 4;

/// Sequences of a query, each followed by as many lookups as `LOOKUPS`.
const SEQUENCES: u64 = 8;
const LOOKUPS: u64 = 4;

/// Pages of a sequence, at least and beyond that.
const SEQUENCE_LEAST: u64 = 16;
const SEQUENCE_MORE: u64 = 112;

/// Pages that one read of a sequence brings.
const SEQUENCE_READ: u64 = 8;

/// The work on a sequence. It is such that the speed-up with everything in memory comes near the paper's table 2.
const SEQUENCE_TAKES: VirtualDuration = VirtualDuration::micros(62_000);

/// One sequence in this many is followed by a write of its last page.
const WRITE_ONE_IN: u64 = 16;

impl TransactionSource for TpcH {
    fn next(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        for _ in 0..SEQUENCES {
            let length = SEQUENCE_LEAST + rng.below(SEQUENCE_MORE);
            let first = rng.below(self.pages - length);
            let mut at = first;
            while at < first + length {
                let end = (at + SEQUENCE_READ).min(first + length);
                steps.push_back(BenchmarkStep::Read(at..end));
                at = end;
            }
            if rng.below(WRITE_ONE_IN) == 0 {
                steps.push_back(BenchmarkStep::Write(at - 1..at));
            }
            for _ in 0..LOOKUPS {
                let page = rng.below(self.pages);
                steps.push_back(BenchmarkStep::Read(page..page + 1));
            }
            steps.push_back(BenchmarkStep::Compute(SEQUENCE_TAKES));
        }
        steps.push_back(BenchmarkStep::End(VirtualDuration::default()));
    }
}

pub(super) fn tpc_h(scale: PumaScale) -> BenchmarkShape {
    let pages = scale.pages(TPC_H_MIB);
    let a_query = SEQUENCES * (SEQUENCE_LEAST + SEQUENCE_MORE / 2 + LOOKUPS);
    BenchmarkShape {
        source: Box::new(TpcH { pages }),
        threads: TPC_H_STREAMS,
        warm_up: 4 * pages / a_query,
        counted: 3 * pages / a_query,
        figure: BenchmarkFigure::Rate,
        guest_mib: GUEST_MIB,
    }
}

/// A New-Order transaction of TPC-C: pages read at random, some of them written, and a commit.
struct TpcC {
    pages: u64,
    /// Pages that it reads, beside those that are always in memory.
    reads: u64,
    /// The mean time before the next one.
    think: VirtualDuration,
}

const TPC_C_MIB: u64 = 4096;

/// MiB of the large data that New-Order transactions read: 14.5 GB of the paper's "roughly 15 GB". It is such that the
/// gain comes near theirs.
const LARGE_TPC_C_MIB: u64 = 14_848;

/// MiB of the large guest.
const LARGE_GUEST_MIB: u64 = 10 * 1024;

/// Terminals.
const TPC_C_TERMINALS: u32 = 4;
const LARGE_TERMINALS: u32 = 16;

/// Pages that a transaction reads. The paper's speed-ups decide: with everything in memory, the commit is left.
const ORDER_READS: u64 = 5;
const LARGE_ORDER_READS: u64 = 12;

/// Those of them that it writes.
const ORDER_WRITES: u64 = 1;

/// The work of a transaction.
const ORDER_TAKES: VirtualDuration = VirtualDuration::micros(2_000);

impl TransactionSource for TpcC {
    fn next(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        for number in 0..self.reads {
            let page = rng.below(self.pages);
            steps.push_back(BenchmarkStep::Read(page..page + 1));
            if number < ORDER_WRITES {
                steps.push_back(BenchmarkStep::Write(page..page + 1));
            }
        }
        steps.push_back(BenchmarkStep::Compute(ORDER_TAKES));
        steps.push_back(BenchmarkStep::Commit);
        let think = self.think.0 as f64 * rng.exponential();
        steps.push_back(BenchmarkStep::End(VirtualDuration(think as u64)));
    }
}

pub(super) fn tpc_c(scale: PumaScale) -> BenchmarkShape {
    let pages = scale.pages(TPC_C_MIB);
    let source = TpcC {
        pages,
        reads: ORDER_READS,
        think: VirtualDuration::micros(50_000),
    };
    BenchmarkShape {
        source: Box::new(source),
        threads: TPC_C_TERMINALS,
        warm_up: 4 * pages / ORDER_READS,
        counted: pages / ORDER_READS,
        figure: BenchmarkFigure::Response,
        guest_mib: GUEST_MIB,
    }
}

pub(super) fn large_tpc_c(scale: PumaScale) -> BenchmarkShape {
    let pages = scale.pages(LARGE_TPC_C_MIB);
    let source = TpcC {
        pages,
        reads: LARGE_ORDER_READS,
        think: VirtualDuration::micros(300_000),
    };
    BenchmarkShape {
        source: Box::new(source),
        threads: LARGE_TERMINALS,
        warm_up: 3 * pages / LARGE_ORDER_READS,
        counted: pages / LARGE_ORDER_READS,
        figure: BenchmarkFigure::Response,
        guest_mib: LARGE_GUEST_MIB,
    }
}
