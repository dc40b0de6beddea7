//! Pages one after another.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{MemoryKind, Workload, WorkloadStep};
use crate::bounds;
use crate::traces::{PageOp, TraceError};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// Knobs of the scan.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// How much is scanned.
    #[serde(deserialize_with = "bounds::some")]
    pub size: Bytes,
    /// How often it is scanned.
    pub passes: u64,
    /// Whether pages are written instead of read.
    pub write: bool,
    /// The kind of memory.
    pub memory: MemoryKind,
    /// Time between pages.
    pub think: VirtualDuration,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            size: Bytes::mib(64),
            passes: 1,
            write: false,
            memory: MemoryKind::File,
            think: VirtualDuration::default(),
        }
    }
}

/// A scan over a device or over memory.
#[derive(Debug)]
pub struct ScanWorkload {
    spec: Spec,
    pages: u64,
    /// Pages done, over all passes.
    done: u64,
    thinks: bool,
}

impl ScanWorkload {
    /// A scan with these knobs.
    pub fn of(spec: &Spec) -> ScanWorkload {
        ScanWorkload {
            pages: Pages::of(spec.size).0.max(1),
            done: 0,
            thinks: false,
            spec: spec.clone(),
        }
    }
}

impl Workload for ScanWorkload {
    fn next(&mut self, _: VirtualInstant) -> Result<WorkloadStep, TraceError> {
        if self.thinks {
            self.thinks = false;
            return Ok(WorkloadStep::Compute(self.spec.think));
        }
        if self.done >= self.pages.saturating_mul(self.spec.passes) {
            return Ok(WorkloadStep::Done);
        }
        let page = self.done % self.pages;
        self.done += 1;
        self.thinks = self.spec.think > VirtualDuration::default();
        let op = match self.spec.write {
            true => PageOp::Write,
            false => PageOp::Read,
        };
        Ok(self.spec.memory.access_step(page, op))
    }
}
