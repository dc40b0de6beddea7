//! A group of judges.

use sublet_types::ShrinkMode;

use super::content::ContentJudge;
use super::counts::CountsJudge;
use super::frames::FramesJudge;
use super::targets::TargetsJudge;
use super::{Judge, TierEvent, Verdict};
use crate::virtual_time::VirtualInstant;

/// A group of judges, and what they found.
#[derive(Default)]
pub(crate) struct JudgePanel {
    /// Each judge, and how many violations it found.
    judges: Vec<(Box<dyn Judge>, u64)>,
    /// What they found: the first [`VERDICTS_MAX`] of each judge.
    pub verdicts: Vec<Verdict>,
    /// How many violations there were in total.
    pub count: u64,
}

/// The number of verdicts kept per judge. The first ones suffice to explain the rest.
const VERDICTS_MAX: u64 = 20;

impl JudgePanel {
    /// A panel without judges: nothing is ever wrong.
    pub(crate) fn none() -> JudgePanel {
        JudgePanel::default()
    }

    /// All judges, for a tier of `tenants` tenants.
    pub(crate) fn full(tenants: usize, shrinking: ShrinkMode) -> JudgePanel {
        let mut judges: Vec<Box<dyn Judge>> = vec![
            Box::new(ContentJudge::default()),
            Box::new(FramesJudge::default()),
            Box::new(CountsJudge::of(tenants)),
        ];
        if shrinking == ShrinkMode::Active {
            judges.push(Box::new(TargetsJudge::of(tenants)));
        }
        JudgePanel {
            judges: judges.into_iter().map(|judge| (judge, 0)).collect(),
            ..JudgePanel::default()
        }
    }

    /// Returns whether the panel has no judges.
    pub(super) fn is_empty(&self) -> bool {
        self.judges.is_empty()
    }

    /// Shows an event to every judge.
    pub(super) fn observe(&mut self, at: VirtualInstant, event: &TierEvent<'_>) {
        for (judge, found) in &mut self.judges {
            let Some(wrong) = judge.check(at, event) else {
                continue;
            };
            self.count += 1;
            *found += 1;
            if *found <= VERDICTS_MAX {
                let judge = judge.name();
                self.verdicts.push(Verdict { at, judge, wrong });
            }
        }
    }
}
