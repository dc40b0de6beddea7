//! What a guest does, one step after another, from a seed.

mod cloudsuite;
mod file_server;
mod phases;
mod replay;
mod scan;
mod staged_program;
mod step;
mod usemem;
mod zipf;

use serde::Deserialize;

use crate::rng::SimRng;
use crate::traces::{Trace, TraceError};

pub use cloudsuite::{
    GRAPH_ANALYTICS, IN_MEMORY_ANALYTICS, ProgramRuns, ProgramStage, TouchPattern,
};
pub use file_server::FileServerWorkload;
pub use phases::{Phase, PhasedWorkload};
pub use replay::ReplayWorkload;
pub use scan::ScanWorkload;
pub use staged_program::StagedProgram;
pub use step::{FileSpan, MemoryKind, Workload, WorkloadStep};
pub use usemem::UsememWorkload;
pub use zipf::ZipfWorkload;

/// A workload of a scenario, with its knobs.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadSpec {
    /// Pages by Zipf's law.
    Zipf(zipf::Spec),
    /// Pages one after another, again and again.
    Scan(scan::Spec),
    /// Other workloads, each for a while.
    Phases(Vec<phases::Spec>),
    /// SmarTmem's micro-benchmark.
    Usemem(usemem::Spec),
    /// Whole files, read, written and deleted.
    FileServer(file_server::Spec),
    /// A stand-in for CloudSuite's graph analytics.
    GraphAnalytics(ProgramRuns),
    /// A stand-in for CloudSuite's in-memory analytics.
    InMemoryAnalytics(ProgramRuns),
    /// The requests of a trace.
    Trace(replay::Spec),
}

/// Opens the traces that workloads name.
pub(crate) type TraceOpener<'a> = dyn FnMut(&replay::Spec) -> Result<Trace, TraceError> + 'a;

impl WorkloadSpec {
    /// The stretches that it begins by itself, in order. It may begin many.
    pub(crate) fn stretches(&self) -> Box<dyn Iterator<Item = String> + '_> {
        match self {
            WorkloadSpec::Usemem(spec) => Box::new(spec.stretches()),
            WorkloadSpec::GraphAnalytics(running) | WorkloadSpec::InMemoryAnalytics(running) => {
                Box::new(running.stretches())
            }
            WorkloadSpec::Phases(specs) => Box::new((1..).zip(specs).flat_map(|(number, spec)| {
                std::iter::once(spec.title(number)).chain(spec.workload.stretches())
            })),
            WorkloadSpec::Zipf(_)
            | WorkloadSpec::Scan(_)
            | WorkloadSpec::FileServer(_)
            | WorkloadSpec::Trace(_) => Box::new(std::iter::empty()),
        }
    }

    /// Builds the workload with its own random numbers.
    ///
    /// # Errors
    ///
    /// A trace cannot be opened.
    pub fn build(
        &self,
        rng: SimRng,
        open: &mut TraceOpener<'_>,
    ) -> Result<Box<dyn Workload>, TraceError> {
        Ok(match self {
            WorkloadSpec::Zipf(spec) => Box::new(ZipfWorkload::of(spec, rng)),
            WorkloadSpec::Scan(spec) => Box::new(ScanWorkload::of(spec)),
            WorkloadSpec::Phases(specs) => Box::new(PhasedWorkload::of(specs, rng, open)?),
            WorkloadSpec::Usemem(spec) => Box::new(UsememWorkload::of(spec)),
            WorkloadSpec::FileServer(spec) => Box::new(FileServerWorkload::of(spec, rng)),
            WorkloadSpec::GraphAnalytics(running) => {
                Box::new(StagedProgram::of(&GRAPH_ANALYTICS, running, rng))
            }
            WorkloadSpec::InMemoryAnalytics(running) => {
                Box::new(StagedProgram::of(&IN_MEMORY_ANALYTICS, running, rng))
            }
            WorkloadSpec::Trace(spec) => Box::new(ReplayWorkload::of(spec, open(spec)?)),
        })
    }

    /// Builds the threads of the workload that run at once. Most workloads have one.
    ///
    /// # Errors
    ///
    /// A trace cannot be opened.
    pub(crate) fn build_threads(
        &self,
        rng: SimRng,
        open: &mut TraceOpener<'_>,
    ) -> Result<Vec<Box<dyn Workload>>, TraceError> {
        let boxed = |thread| Box::new(thread) as Box<dyn Workload>;
        Ok(match self {
            WorkloadSpec::FileServer(spec) => FileServerWorkload::threads(spec, rng)
                .into_iter()
                .map(boxed)
                .collect(),
            other => vec![other.build(rng, open)?],
        })
    }

    /// The workload itself, or those of its phases.
    pub(crate) fn specs(&self) -> Box<dyn Iterator<Item = &WorkloadSpec> + '_> {
        match self {
            WorkloadSpec::Phases(phases) => {
                Box::new(phases.iter().flat_map(|phase| phase.workload.specs()))
            }
            other => Box::new(std::iter::once(other)),
        }
    }

    /// The traces that it names, including those of phases.
    pub fn traces(&self) -> impl Iterator<Item = &replay::Spec> {
        self.specs().filter_map(|spec| match spec {
            WorkloadSpec::Trace(spec) => Some(spec),
            _ => None,
        })
    }
}

/// The specifications that scenarios use to name workloads.
pub mod spec {
    pub use super::file_server::Spec as FileServer;
    pub use super::phases::Spec as Phase;
    pub use super::replay::Spec as Trace;
    pub use super::scan::Spec as Scan;
    pub use super::usemem::Spec as Usemem;
    pub use super::zipf::Spec as Zipf;
}

#[cfg(test)]
mod tests;
