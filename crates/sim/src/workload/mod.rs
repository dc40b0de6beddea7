//! What a guest does: one step after another, from a seed.

mod demand;
mod demands;
mod file_server;
mod phases;
mod replay;
mod scan;
mod step;
mod usemem;
mod zipf;

use serde::Deserialize;

use crate::chance::Chance;
use crate::traces::{Trace, TraceError};

pub use demand::Demand;
pub use demands::{GRAPH_ANALYTICS, IN_MEMORY_ANALYTICS, Pattern, Running, Stage};
pub use file_server::FileServer;
pub use phases::{Phase, Phases};
pub use replay::Replay;
pub use scan::Scan;
pub use step::{FileSpan, Kind, Step, Workload};
pub use usemem::Usemem;
pub use zipf::ZipfAccess;

/// What a scenario says of a workload: one of them, with its knobs.
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
    GraphAnalytics(Running),
    /// A stand-in for CloudSuite's in-memory analytics.
    InMemoryAnalytics(Running),
    /// The requests of a trace.
    Trace(replay::Spec),
}

/// Opens the traces that workloads name.
pub(crate) type Opener<'a> = dyn FnMut(&replay::Spec) -> Result<Trace, TraceError> + 'a;

impl WorkloadSpec {
    /// The stretches that it begins by itself, in their order; it may begin many.
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

    /// The workload itself, with luck of its own.
    ///
    /// # Errors
    ///
    /// A trace that cannot be opened.
    pub fn build(
        &self,
        chance: Chance,
        open: &mut Opener<'_>,
    ) -> Result<Box<dyn Workload>, TraceError> {
        Ok(match self {
            WorkloadSpec::Zipf(spec) => Box::new(ZipfAccess::of(spec, chance)),
            WorkloadSpec::Scan(spec) => Box::new(Scan::of(spec)),
            WorkloadSpec::Phases(specs) => Box::new(Phases::of(specs, chance, open)?),
            WorkloadSpec::Usemem(spec) => Box::new(Usemem::of(spec)),
            WorkloadSpec::FileServer(spec) => Box::new(FileServer::of(spec, chance)),
            WorkloadSpec::GraphAnalytics(running) => {
                Box::new(Demand::of(&GRAPH_ANALYTICS, running, chance))
            }
            WorkloadSpec::InMemoryAnalytics(running) => {
                Box::new(Demand::of(&IN_MEMORY_ANALYTICS, running, chance))
            }
            WorkloadSpec::Trace(spec) => Box::new(Replay::of(spec, open(spec)?)),
        })
    }

    /// The threads of it that run at once; most workloads have one.
    ///
    /// # Errors
    ///
    /// A trace that cannot be opened.
    pub(crate) fn build_threads(
        &self,
        chance: Chance,
        open: &mut Opener<'_>,
    ) -> Result<Vec<Box<dyn Workload>>, TraceError> {
        let boxed = |thread| Box::new(thread) as Box<dyn Workload>;
        Ok(match self {
            WorkloadSpec::FileServer(spec) => FileServer::threads(spec, chance)
                .into_iter()
                .map(boxed)
                .collect(),
            other => vec![other.build(chance, open)?],
        })
    }

    /// Itself, or those of its phases.
    pub(crate) fn specs(&self) -> Box<dyn Iterator<Item = &WorkloadSpec> + '_> {
        match self {
            WorkloadSpec::Phases(phases) => {
                Box::new(phases.iter().flat_map(|phase| phase.workload.specs()))
            }
            other => Box::new(std::iter::once(other)),
        }
    }

    /// The traces that it names, phases included.
    pub fn traces(&self) -> impl Iterator<Item = &replay::Spec> {
        self.specs().filter_map(|spec| match spec {
            WorkloadSpec::Trace(spec) => Some(spec),
            _ => None,
        })
    }
}

/// The specifications by which scenarios name workloads.
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
