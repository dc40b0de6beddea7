//! SmarTmem's micro-benchmark (§IV). Memory grows in steps of 128 MB to 1 GB. After each step all of it is traversed
//! linearly, writing and reading.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{Workload, WorkloadStep};
use crate::bounds;
use crate::traces::{PageOp, TraceError};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// Knobs of usemem. The defaults are the paper's, but the time per page is ours.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// By how much it grows.
    #[serde(deserialize_with = "bounds::some")]
    pub step: Bytes,
    /// The most memory.
    #[serde(deserialize_with = "bounds::some")]
    pub most: Bytes,
    /// Traversals after each step. Each consists of one that writes and one that reads.
    pub passes: u32,
    /// Traversals at the end. The paper's program goes on until it is stopped.
    pub passes_at_most: u32,
    /// Computing time per page.
    pub work: VirtualDuration,
}

/// A page is written and read word by word: 4 KiB at some 400 MB/s, in a nested guest, take about 10 µs.
impl Default for Spec {
    fn default() -> Spec {
        Spec {
            step: Bytes::mib(128),
            most: Bytes::gib(1),
            passes: 1,
            passes_at_most: 4,
            work: VirtualDuration::micros(10),
        }
    }
}

impl Spec {
    fn step_pages(&self) -> u64 {
        Pages::of(self.step).0.max(1)
    }

    /// The names of its stretches.
    pub(super) fn stretches(&self) -> impl Iterator<Item = String> + use<> {
        let (step, most) = (self.step_pages(), Pages::of(self.most).0);
        (1..=most.div_ceil(step)).map(move |steps| title((steps * step).min(most)))
    }
}

/// The name of the stretch with this many pages.
fn title(pages: u64) -> String {
    format!("{} MiB", pages >> 8)
}

/// The workload.
#[derive(Debug)]
pub struct UsememWorkload {
    spec: Spec,
    /// Pages that it has now.
    pages: u64,
    /// Half passes left over what it has. Even ones write.
    halves: u32,
    page: u64,
    works: bool,
}

impl UsememWorkload {
    /// A workload with these knobs.
    pub fn of(spec: &Spec) -> UsememWorkload {
        UsememWorkload {
            spec: spec.clone(),
            pages: 0,
            halves: 0,
            page: 0,
            works: false,
        }
    }

    fn grow(&mut self) -> WorkloadStep {
        let most = Pages::of(self.spec.most).0;
        if self.pages >= most {
            return WorkloadStep::Done;
        }
        self.pages = (self.pages + self.spec.step_pages()).min(most);
        let passes = match self.pages == most {
            true => self.spec.passes_at_most,
            false => self.spec.passes,
        };
        self.halves = passes.max(1).saturating_mul(2);
        self.page = 0;
        WorkloadStep::Begin(title(self.pages))
    }
}

impl Workload for UsememWorkload {
    fn next(&mut self, _: VirtualInstant) -> Result<WorkloadStep, TraceError> {
        if self.works {
            self.works = false;
            return Ok(WorkloadStep::Compute(self.spec.work));
        }
        if self.halves == 0 {
            return Ok(self.grow());
        }
        let step = WorkloadStep::Touch {
            page: self.page,
            op: match self.halves.is_multiple_of(2) {
                true => PageOp::Write,
                false => PageOp::Read,
            },
        };
        self.works = true;
        self.page += 1;
        if self.page == self.pages {
            self.page = 0;
            self.halves -= 1;
        }
        Ok(step)
    }
}
