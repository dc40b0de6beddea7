//! Records by Zipf's law.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{FileSpan, MemoryKind, Workload, WorkloadStep};
use crate::bounds;
use crate::rate::Rate;
use crate::rng::{SimRng, Zipf};
use crate::traces::{PageOp, TraceError};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// Knobs of the Zipf workload.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The size of all records together.
    #[serde(deserialize_with = "bounds::some")]
    pub size: Bytes,
    /// The size of a record. A record of more than a page is a file of its own. Only files have larger records.
    #[serde(deserialize_with = "bounds::some")]
    pub record: Bytes,
    /// The law's exponent: 0 is uniform, 0.8 is Mortar's web load, and 0.99 is YCSB's.
    #[serde(deserialize_with = "bounds::exponent")]
    pub exponent: f64,
    /// The total number of accesses.
    #[serde(deserialize_with = "bounds::some")]
    pub operations: u64,
    /// The share of them that writes.
    #[serde(deserialize_with = "bounds::share")]
    pub write_share: f64,
    /// The kind of memory.
    pub memory: MemoryKind,
    /// Time between accesses.
    pub think: VirtualDuration,
    /// Accesses come this often, whether or not those before them are done.
    pub arrivals: Option<Rate>,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            size: Bytes::mib(64),
            record: Bytes::kib(4),
            exponent: 0.8,
            operations: 100_000,
            write_share: 0.0,
            memory: MemoryKind::File,
            think: VirtualDuration::default(),
            arrivals: None,
        }
    }
}

/// Accesses to records by Zipf's law. Records that are neighbours in rank are not neighbours in place.
#[derive(Debug)]
pub struct ZipfWorkload {
    spec: Spec,
    record_pages: u32,
    records: Permutation,
    law: Zipf,
    rng: SimRng,
    left: u64,
    pauses: bool,
}

impl ZipfWorkload {
    /// A workload with these knobs.
    pub fn of(spec: &Spec, rng: SimRng) -> ZipfWorkload {
        let record_pages = Pages::of(spec.record).0.clamp(1, 1 << 20) as u32;
        let records = (Pages::of(spec.size).0 / u64::from(record_pages)).max(1);
        ZipfWorkload {
            record_pages,
            records: Permutation::over(records),
            law: Zipf::of(records, spec.exponent),
            rng,
            left: spec.operations,
            pauses: spec.arrivals.is_some(),
            spec: spec.clone(),
        }
    }

    /// The pause before the next access, if there is one.
    fn pause(&mut self, now: VirtualInstant) -> WorkloadStep {
        match self.spec.arrivals {
            Some(arrivals) => WorkloadStep::Until(now + arrivals.gap(&mut self.rng)),
            None => WorkloadStep::Compute(self.spec.think),
        }
    }

    fn access(&mut self) -> WorkloadStep {
        let record = self.records.place_of(self.law.draw(&mut self.rng));
        let op = PageOp::drawn(self.spec.write_share, &mut self.rng);
        if self.record_pages == 1 {
            return self.spec.memory.access_step(record, op);
        }
        let span = FileSpan {
            object: record,
            from: 0,
            count: self.record_pages,
            end: self.record_pages,
        };
        match op {
            PageOp::Write => WorkloadStep::Write(span),
            PageOp::Read => WorkloadStep::Read(span),
        }
    }
}

impl Workload for ZipfWorkload {
    fn next(&mut self, now: VirtualInstant) -> Result<WorkloadStep, TraceError> {
        if std::mem::take(&mut self.pauses) {
            return Ok(self.pause(now));
        }
        if self.left == 0 {
            return Ok(WorkloadStep::Done);
        }
        self.left -= 1;
        self.pauses = self.is_open() || self.spec.think > VirtualDuration::default();
        Ok(self.access())
    }

    fn is_open(&self) -> bool {
        self.spec.arrivals.is_some()
    }
}

/// A permutation of `0..places` that moves neighbours apart, in steps of about the golden section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    places: u64,
    stride: u64,
}

impl Permutation {
    pub(super) fn over(places: u64) -> Permutation {
        let golden = (places as f64 * 0.618_033_988_749_895) as u64;
        let mut stride = golden.max(1);
        while gcd(stride, places) != 1 {
            stride += 1;
        }
        Permutation { places, stride }
    }

    pub(super) fn place_of(self, rank: u64) -> u64 {
        match rank.checked_mul(self.stride) {
            Some(far) => far % self.places,
            // A division of 128 bits takes ten times as long.
            None => (u128::from(rank) * u128::from(self.stride) % u128::from(self.places)) as u64,
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}
