//! Other workloads, one after another, each for a while.

use serde::Deserialize;

use super::step::{Step, Workload};
use super::{Opener, WorkloadSpec};
use crate::chance::Chance;
use crate::traces::TraceError;
use crate::virtual_time::{Moment, Nanos};

/// One phase: a workload and how long it lasts at most.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name in the report.
    pub name: Option<String>,
    /// How long; without it, until the workload is done.
    pub lasts: Option<Nanos>,
    /// What happens in it.
    pub workload: WorkloadSpec,
}

impl Spec {
    /// What the phase of that number, from 1, is called.
    pub(super) fn title(&self, number: usize) -> String {
        let name = self.name.clone();
        name.unwrap_or_else(|| format!("phase {number}"))
    }
}

/// A phase made ready.
pub struct Phase {
    /// Its name in the report.
    pub name: String,
    /// How long it lasts at most.
    pub lasts: Option<Nanos>,
    /// What happens in it.
    pub workload: Box<dyn Workload>,
}

/// The workload.
pub struct Phases {
    phases: std::vec::IntoIter<Phase>,
    current: Option<Running>,
}

struct Running {
    workload: Box<dyn Workload>,
    until: Moment,
}

impl Phases {
    /// From its phases' knobs.
    ///
    /// # Errors
    ///
    /// A trace that cannot be opened.
    pub fn of(
        specs: &[Spec],
        mut chance: Chance,
        open: &mut Opener<'_>,
    ) -> Result<Phases, TraceError> {
        let phase = |(number, spec): (usize, &Spec)| {
            Ok(Phase {
                name: spec.title(number + 1),
                lasts: spec.lasts,
                workload: spec.workload.build(Chance::seeded(chance.bits()), open)?,
            })
        };
        let phases: Result<Vec<Phase>, TraceError> = specs.iter().enumerate().map(phase).collect();
        Ok(Phases {
            phases: phases?.into_iter(),
            current: None,
        })
    }

    fn advance(&mut self, now: Moment) -> Step {
        let Some(phase) = self.phases.next() else {
            self.current = None;
            return Step::Done;
        };
        self.current = Some(Running {
            workload: phase.workload,
            until: phase.lasts.map_or(Moment::NEVER, |lasts| now + lasts),
        });
        Step::Begin(phase.name)
    }
}

impl Workload for Phases {
    fn next(&mut self, now: Moment) -> Result<Step, TraceError> {
        let Some(current) = self.current.as_mut().filter(|current| now < current.until) else {
            return Ok(self.advance(now));
        };
        match current.workload.next(now)? {
            Step::Done => Ok(self.advance(now)),
            step => Ok(step),
        }
    }

    fn is_open(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.workload.is_open())
    }
}
