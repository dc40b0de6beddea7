//! Pages one after another.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{Kind, Step, Workload};
use crate::traces::TraceError;
use crate::virtual_time::{Moment, Nanos};
use crate::within;

/// Knobs of the scan.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// What is scanned.
    #[serde(deserialize_with = "within::some")]
    pub size: Bytes,
    /// How often.
    pub passes: u64,
    /// Whether pages are written instead of read.
    pub write: bool,
    /// Which memory.
    pub memory: Kind,
    /// Time between pages.
    pub think: Nanos,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            size: Bytes::mib(64),
            passes: 1,
            write: false,
            memory: Kind::File,
            think: Nanos::default(),
        }
    }
}

/// A scan over a device or over memory.
#[derive(Debug)]
pub struct Scan {
    spec: Spec,
    pages: u64,
    /// Pages done, over all passes.
    done: u64,
    thinks: bool,
}

impl Scan {
    /// From its knobs.
    pub fn of(spec: &Spec) -> Scan {
        Scan {
            pages: Pages::of(spec.size).0.max(1),
            done: 0,
            thinks: false,
            spec: spec.clone(),
        }
    }
}

impl Workload for Scan {
    fn next(&mut self, _: Moment) -> Result<Step, TraceError> {
        if self.thinks {
            self.thinks = false;
            return Ok(Step::Compute(self.spec.think));
        }
        if self.done >= self.pages.saturating_mul(self.spec.passes) {
            return Ok(Step::Done);
        }
        let page = self.done % self.pages;
        self.done += 1;
        self.thinks = self.spec.think > Nanos::default();
        Ok(self.spec.memory.touch(page, self.spec.write))
    }
}
