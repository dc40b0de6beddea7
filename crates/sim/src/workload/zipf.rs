//! Records by Zipf's law.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{FileSpan, Kind, Step, Workload};
use crate::chance::{Chance, Zipf};
use crate::rate::Rate;
use crate::traces::TraceError;
use crate::virtual_time::{Moment, Nanos};
use crate::within;

/// Knobs of the Zipf workload.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// What all records take together.
    #[serde(deserialize_with = "within::some")]
    pub size: Bytes,
    /// What a record takes: a file of its own where it is more than a page. Only files have larger ones.
    #[serde(deserialize_with = "within::some")]
    pub record: Bytes,
    /// The law's exponent: 0 is uniform, 0.8 is Mortar's web load, 0.99 is YCSB's.
    #[serde(deserialize_with = "within::exponent")]
    pub exponent: f64,
    /// Accesses in all.
    #[serde(deserialize_with = "within::some")]
    pub operations: u64,
    /// Of these, the share that writes.
    #[serde(deserialize_with = "within::share")]
    pub write_share: f64,
    /// Which memory.
    pub memory: Kind,
    /// Time between accesses.
    pub think: Nanos,
    /// Accesses come this often, whether those before them are done or not.
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
            memory: Kind::File,
            think: Nanos::default(),
            arrivals: None,
        }
    }
}

/// Accesses to records by Zipf's law; neighbours in rank are not neighbours in place.
#[derive(Debug)]
pub struct ZipfAccess {
    spec: Spec,
    record_pages: u32,
    records: Scattering,
    law: Zipf,
    chance: Chance,
    left: u64,
    pauses: bool,
}

impl ZipfAccess {
    /// From its knobs.
    pub fn of(spec: &Spec, chance: Chance) -> ZipfAccess {
        let record_pages = Pages::of(spec.record).0.clamp(1, 1 << 20) as u32;
        let records = (Pages::of(spec.size).0 / u64::from(record_pages)).max(1);
        ZipfAccess {
            record_pages,
            records: Scattering::over(records),
            law: Zipf::of(records, spec.exponent),
            chance,
            left: spec.operations,
            pauses: spec.arrivals.is_some(),
            spec: spec.clone(),
        }
    }

    /// What passes before the next access, if anything does.
    fn pause(&mut self, now: Moment) -> Step {
        match self.spec.arrivals {
            Some(arrivals) => Step::Until(now + arrivals.gap(&mut self.chance)),
            None => Step::Compute(self.spec.think),
        }
    }

    fn access(&mut self) -> Step {
        let record = self.records.place_of(self.law.draw(&mut self.chance));
        let write = self.chance.happens(self.spec.write_share);
        if self.record_pages == 1 {
            return self.spec.memory.touch(record, write);
        }
        let span = FileSpan {
            object: record,
            from: 0,
            count: self.record_pages,
            end: self.record_pages,
        };
        match write {
            true => Step::Write(span),
            false => Step::Read(span),
        }
    }
}

impl Workload for ZipfAccess {
    fn next(&mut self, now: Moment) -> Result<Step, TraceError> {
        if std::mem::take(&mut self.pauses) {
            return Ok(self.pause(now));
        }
        if self.left == 0 {
            return Ok(Step::Done);
        }
        self.left -= 1;
        self.pauses = self.is_open() || self.spec.think > Nanos::default();
        Ok(self.access())
    }

    fn is_open(&self) -> bool {
        self.spec.arrivals.is_some()
    }
}

/// A permutation of `0..places` that tears neighbours apart: a step of about the golden section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scattering {
    places: u64,
    stride: u64,
}

impl Scattering {
    pub(super) fn over(places: u64) -> Scattering {
        let golden = (places as f64 * 0.618_033_988_749_895) as u64;
        let mut stride = golden.max(1);
        while gcd(stride, places) != 1 {
            stride += 1;
        }
        Scattering { places, stride }
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
