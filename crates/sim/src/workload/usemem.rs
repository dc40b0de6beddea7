//! SmarTmem's micro-benchmark (§IV): memory grows in steps of 128 MB to 1 GB; after each step all of it is
//! traversed linearly, writing and reading.

use serde::Deserialize;
use sublet_types::{Bytes, Pages};

use super::step::{Step, Workload};
use crate::traces::TraceError;
use crate::virtual_time::{Moment, Nanos};
use crate::within;

/// Knobs of usemem; the defaults are the paper's, the time a page takes is ours.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// By how much it grows.
    #[serde(deserialize_with = "within::some")]
    pub step: Bytes,
    /// Up to where.
    #[serde(deserialize_with = "within::some")]
    pub most: Bytes,
    /// Traversals after each step: of each, one writes and one reads.
    pub passes: u32,
    /// Traversals at the end; the paper's goes on until it is stopped.
    pub passes_at_most: u32,
    /// Computing time a page.
    pub work: Nanos,
}

/// A page is written and read word by word: 4 KiB at some 400 MB/s, in a nested guest, take about 10 µs.
impl Default for Spec {
    fn default() -> Spec {
        Spec {
            step: Bytes::mib(128),
            most: Bytes::gib(1),
            passes: 1,
            passes_at_most: 4,
            work: Nanos::micros(10),
        }
    }
}

impl Spec {
    fn step_pages(&self) -> u64 {
        Pages::of(self.step).0.max(1)
    }

    /// What its stretches are called.
    pub(super) fn stretches(&self) -> impl Iterator<Item = String> + use<> {
        let (step, most) = (self.step_pages(), Pages::of(self.most).0);
        (1..=most.div_ceil(step)).map(move |steps| title((steps * step).min(most)))
    }
}

/// What the stretch with so many pages is called.
fn title(pages: u64) -> String {
    format!("{} MiB", pages >> 8)
}

/// The workload.
#[derive(Debug)]
pub struct Usemem {
    spec: Spec,
    /// Pages that it has now.
    pages: u64,
    /// Traversals left of what it has, half passes: even ones write.
    halves: u32,
    page: u64,
    works: bool,
}

impl Usemem {
    /// From its knobs.
    pub fn of(spec: &Spec) -> Usemem {
        Usemem {
            spec: spec.clone(),
            pages: 0,
            halves: 0,
            page: 0,
            works: false,
        }
    }

    fn grow(&mut self) -> Step {
        let most = Pages::of(self.spec.most).0;
        if self.pages >= most {
            return Step::Done;
        }
        self.pages = (self.pages + self.spec.step_pages()).min(most);
        let passes = match self.pages == most {
            true => self.spec.passes_at_most,
            false => self.spec.passes,
        };
        self.halves = passes.max(1).saturating_mul(2);
        self.page = 0;
        Step::Begin(title(self.pages))
    }
}

impl Workload for Usemem {
    fn next(&mut self, _: Moment) -> Result<Step, TraceError> {
        if self.works {
            self.works = false;
            return Ok(Step::Compute(self.spec.work));
        }
        if self.halves == 0 {
            return Ok(self.grow());
        }
        let step = Step::Touch {
            page: self.page,
            write: self.halves.is_multiple_of(2),
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
