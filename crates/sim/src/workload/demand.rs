//! Memory demand over time: a program as a list of stages, each of which grows or shrinks its memory and
//! then goes over it.

use sublet_types::{Bytes, Pages};

use super::demands::{Pattern, Running, Stage};
use super::step::{Step, Workload};
use super::zipf::Scattering;
use crate::chance::{Chance, Zipf};
use crate::traces::TraceError;
use crate::virtual_time::{Moment, Nanos};

/// A program made of stages, run a number of times with a rest between.
#[derive(Debug)]
pub struct Demand {
    stages: &'static [Stage],
    running: Running,
    chance: Chance,
    run: u32,
    at: At,
    pages: u64,
    /// The first page that is new and still to be written.
    growing_from: u64,
    touches_left: u64,
    cursor: u64,
    law: Zipf,
    runs: Scattering,
    works: Option<Nanos>,
    rests: bool,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// Before the first run, and between two.
    Rest,
    /// In the stage of this number.
    Stage(usize),
    /// After the last stage, all freed.
    Over,
}

/// Pages that lie together and are popular together: what an object or a partition's record spans.
const RUN_PAGES: u64 = 8;

impl Demand {
    /// A program of these stages.
    pub fn of(stages: &'static [Stage], running: &Running, chance: Chance) -> Demand {
        Demand {
            stages,
            running: *running,
            chance,
            run: 0,
            at: At::Rest,
            pages: 0,
            growing_from: 0,
            touches_left: 0,
            cursor: 0,
            law: Zipf::of(1, 0.0),
            runs: Scattering::over(1),
            works: None,
            rests: false,
        }
    }

    fn sized(&self, memory: Bytes) -> u64 {
        (Pages::of(memory).0 as f64 * self.running.scale) as u64
    }

    /// Takes on a stage; returns what is freed for it.
    fn enter(&mut self, number: usize) -> Option<Step> {
        let stage = self.stages[number];
        let wanted = self.sized(stage.memory).max(1);
        let before = std::mem::replace(&mut self.pages, wanted);
        self.at = At::Stage(number);
        self.growing_from = before.min(wanted);
        self.touches_left = (wanted as f64 * stage.passes) as u64;
        self.cursor = 0;
        if let Pattern::Zipf(exponent) = stage.pattern {
            let runs = wanted.div_ceil(RUN_PAGES);
            self.law = Zipf::of(runs, exponent);
            self.runs = Scattering::over(runs);
        }
        (before > wanted).then_some(Step::Release {
            from: wanted,
            count: before.saturating_sub(wanted),
        })
    }

    /// A page to write or touch in this stage, if there is any left.
    fn in_stage(&mut self, number: usize) -> Option<Step> {
        let stage = self.stages[number];
        let step = if self.growing_from < self.pages {
            self.growing_from += 1;
            Step::Touch {
                page: self.growing_from - 1,
                write: true,
            }
        } else if self.touches_left > 0 {
            self.touch(stage)
        } else {
            return None;
        };
        self.works = Some(stage.work);
        Some(step)
    }

    /// The end of a stage: the next one begins, or the program frees all it has.
    fn leave(&mut self, number: usize) -> Step {
        if number + 1 < self.stages.len() {
            let freed = self.enter(number + 1);
            return freed.unwrap_or(Step::Compute(Nanos::default()));
        }
        self.at = At::Over;
        let count = std::mem::take(&mut self.pages);
        Step::Release { from: 0, count }
    }

    fn begin_run(&mut self) -> Step {
        if self.run >= self.running.runs {
            return Step::Done;
        }
        self.run += 1;
        self.enter(0);
        Step::Begin(Running::title(self.run))
    }

    fn end_run(&mut self) -> Step {
        self.at = At::Rest;
        self.rests = self.run < self.running.runs;
        Step::End
    }

    fn touch(&mut self, stage: Stage) -> Step {
        self.touches_left -= 1;
        let page = match stage.pattern {
            Pattern::Linear => self.cursor % self.pages,
            Pattern::Zipf(_) => self.popular(),
        };
        self.cursor += 1;
        Step::Touch {
            page,
            write: self.chance.happens(stage.write_share),
        }
    }

    fn popular(&mut self) -> u64 {
        let run = self.runs.place_of(self.law.draw(&mut self.chance));
        (run * RUN_PAGES + self.chance.below(RUN_PAGES)).min(self.pages - 1)
    }
}

impl Workload for Demand {
    fn next(&mut self, now: Moment) -> Result<Step, TraceError> {
        if let Some(work) = self.works.take() {
            return Ok(Step::Compute(work));
        }
        if std::mem::take(&mut self.rests) {
            return Ok(Step::Until(now + self.running.rest));
        }
        Ok(match self.at {
            At::Rest => self.begin_run(),
            At::Over => self.end_run(),
            At::Stage(number) => self.in_stage(number).unwrap_or_else(|| self.leave(number)),
        })
    }
}
