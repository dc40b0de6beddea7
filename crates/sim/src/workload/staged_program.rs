//! Memory demand over time. A program is a list of stages. Each stage grows or shrinks its memory and then goes over
//! it.

use sublet_types::{Bytes, Pages};

use super::cloudsuite::{ProgramRuns, ProgramStage, TouchPattern};
use super::step::{Workload, WorkloadStep};
use super::zipf::Permutation;
use crate::rng::{SimRng, Zipf};
use crate::traces::{PageOp, TraceError};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// A program made of stages. It runs a number of times with a rest between.
#[derive(Debug)]
pub struct StagedProgram {
    stages: &'static [ProgramStage],
    running: ProgramRuns,
    rng: SimRng,
    run: u32,
    at: ProgramPosition,
    pages: u64,
    /// The first page that is new and still to be written.
    growing_from: u64,
    touches_left: u64,
    cursor: u64,
    law: Zipf,
    runs: Permutation,
    works: Option<VirtualDuration>,
    rests: bool,
}

#[derive(Clone, Copy, Debug)]
enum ProgramPosition {
    /// Before the first run, and between two runs.
    Rest,
    /// In the stage of this number.
    Stage(usize),
    /// After the last stage, when all is freed.
    Over,
}

/// Pages that lie together and are popular together: an object, or the record of a partition, spans them.
const RUN_PAGES: u64 = 8;

impl StagedProgram {
    /// A program of these stages.
    pub fn of(
        stages: &'static [ProgramStage],
        running: &ProgramRuns,
        rng: SimRng,
    ) -> StagedProgram {
        StagedProgram {
            stages,
            running: *running,
            rng,
            run: 0,
            at: ProgramPosition::Rest,
            pages: 0,
            growing_from: 0,
            touches_left: 0,
            cursor: 0,
            law: Zipf::of(1, 0.0),
            runs: Permutation::over(1),
            works: None,
            rests: false,
        }
    }

    fn sized(&self, memory: Bytes) -> u64 {
        (Pages::of(memory).0 as f64 * self.running.scale) as u64
    }

    /// Enters a stage. Returns what is freed for it.
    fn enter(&mut self, number: usize) -> Option<WorkloadStep> {
        let stage = self.stages[number];
        let wanted = self.sized(stage.memory).max(1);
        let before = std::mem::replace(&mut self.pages, wanted);
        self.at = ProgramPosition::Stage(number);
        self.growing_from = before.min(wanted);
        self.touches_left = (wanted as f64 * stage.passes) as u64;
        self.cursor = 0;
        if let TouchPattern::Zipf(exponent) = stage.pattern {
            let runs = wanted.div_ceil(RUN_PAGES);
            self.law = Zipf::of(runs, exponent);
            self.runs = Permutation::over(runs);
        }
        (before > wanted).then_some(WorkloadStep::Release {
            from: wanted,
            count: before.saturating_sub(wanted),
        })
    }

    /// Writes or touches a page in this stage, if there is any left.
    fn in_stage(&mut self, number: usize) -> Option<WorkloadStep> {
        let stage = self.stages[number];
        let step = if self.growing_from < self.pages {
            self.growing_from += 1;
            WorkloadStep::Touch {
                page: self.growing_from - 1,
                op: PageOp::Write,
            }
        } else if self.touches_left > 0 {
            self.touch(stage)
        } else {
            return None;
        };
        self.works = Some(self.slowed(stage.work));
        Some(step)
    }

    fn slowed(&self, work: VirtualDuration) -> VirtualDuration {
        VirtualDuration((work.0 as f64 * self.running.work) as u64)
    }

    /// Ends a stage. The next one begins, or the program frees all it has.
    fn leave(&mut self, number: usize) -> WorkloadStep {
        if number + 1 < self.stages.len() {
            let freed = self.enter(number + 1);
            return freed.unwrap_or(WorkloadStep::Compute(VirtualDuration::default()));
        }
        self.at = ProgramPosition::Over;
        let count = std::mem::take(&mut self.pages);
        WorkloadStep::Release { from: 0, count }
    }

    fn begin_run(&mut self) -> WorkloadStep {
        if self.run >= self.running.runs {
            return WorkloadStep::Done;
        }
        self.run += 1;
        self.enter(0);
        WorkloadStep::Begin(ProgramRuns::title(self.run))
    }

    fn end_run(&mut self) -> WorkloadStep {
        self.at = ProgramPosition::Rest;
        self.rests = self.run < self.running.runs;
        WorkloadStep::End
    }

    fn touch(&mut self, stage: ProgramStage) -> WorkloadStep {
        self.touches_left -= 1;
        let page = match stage.pattern {
            TouchPattern::Linear => self.cursor % self.pages,
            TouchPattern::Zipf(_) => self.popular(),
        };
        self.cursor += 1;
        WorkloadStep::Touch {
            page,
            op: PageOp::drawn(stage.write_share, &mut self.rng),
        }
    }

    fn popular(&mut self) -> u64 {
        let run = self.runs.place_of(self.law.draw(&mut self.rng));
        (run * RUN_PAGES + self.rng.below(RUN_PAGES)).min(self.pages - 1)
    }
}

impl Workload for StagedProgram {
    fn next(&mut self, now: VirtualInstant) -> Result<WorkloadStep, TraceError> {
        if let Some(work) = self.works.take() {
            return Ok(WorkloadStep::Compute(work));
        }
        if std::mem::take(&mut self.rests) {
            return Ok(WorkloadStep::Until(now + self.running.rest));
        }
        Ok(match self.at {
            ProgramPosition::Rest => self.begin_run(),
            ProgramPosition::Over => self.end_run(),
            ProgramPosition::Stage(number) => {
                self.in_stage(number).unwrap_or_else(|| self.leave(number))
            }
        })
    }
}
