//! Other workloads, one after another, each for a while.

use serde::Deserialize;

use super::step::{Workload, WorkloadStep};
use super::{TraceOpener, WorkloadSpec};
use crate::rng::SimRng;
use crate::traces::TraceError;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// One phase: a workload and how long it lasts at most.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name in the report.
    pub name: Option<String>,
    /// How long it lasts. Without it, until the workload is done.
    pub lasts: Option<VirtualDuration>,
    /// What happens in it.
    pub workload: WorkloadSpec,
}

impl Spec {
    /// The name of this phase, given its number from 1.
    pub(super) fn title(&self, number: usize) -> String {
        let name = self.name.clone();
        name.unwrap_or_else(|| format!("phase {number}"))
    }
}

/// A phase that is ready to run.
pub struct Phase {
    /// Its name in the report.
    pub name: String,
    /// How long it lasts at most.
    pub lasts: Option<VirtualDuration>,
    /// What happens in it.
    pub workload: Box<dyn Workload>,
}

/// The workload.
pub struct PhasedWorkload {
    phases: std::vec::IntoIter<Phase>,
    current: Option<CurrentPhase>,
}

struct CurrentPhase {
    workload: Box<dyn Workload>,
    until: VirtualInstant,
}

impl PhasedWorkload {
    /// Builds the workload from the knobs of its phases.
    ///
    /// # Errors
    ///
    /// A trace cannot be opened.
    pub fn of(
        specs: &[Spec],
        mut rng: SimRng,
        open: &mut TraceOpener<'_>,
    ) -> Result<PhasedWorkload, TraceError> {
        let phase = |(number, spec): (usize, &Spec)| {
            Ok(Phase {
                name: spec.title(number + 1),
                lasts: spec.lasts,
                workload: spec.workload.build(SimRng::seeded(rng.bits()), open)?,
            })
        };
        let phases: Result<Vec<Phase>, TraceError> = specs.iter().enumerate().map(phase).collect();
        Ok(PhasedWorkload {
            phases: phases?.into_iter(),
            current: None,
        })
    }

    fn advance(&mut self, now: VirtualInstant) -> WorkloadStep {
        let Some(phase) = self.phases.next() else {
            self.current = None;
            return WorkloadStep::Done;
        };
        self.current = Some(CurrentPhase {
            workload: phase.workload,
            until: phase
                .lasts
                .map_or(VirtualInstant::NEVER, |lasts| now + lasts),
        });
        WorkloadStep::Begin(phase.name)
    }
}

impl Workload for PhasedWorkload {
    fn next(&mut self, now: VirtualInstant) -> Result<WorkloadStep, TraceError> {
        let Some(current) = self.current.as_mut().filter(|current| now < current.until) else {
            return Ok(self.advance(now));
        };
        match current.workload.next(now)? {
            WorkloadStep::Done => Ok(self.advance(now)),
            step => Ok(step),
        }
    }

    fn is_open(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.workload.is_open())
    }
}
