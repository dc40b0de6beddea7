//! Judges together.

use sublet_types::Shrinking;

use super::content::Content;
use super::frames::Frames;
use super::sums::Sums;
use super::targets::Obedience;
use super::{Happening, Judge, Verdict};
use crate::virtual_time::Moment;

/// Judges together, and what they found.
#[derive(Default)]
pub(crate) struct Court {
    /// Each with how much it found.
    judges: Vec<(Box<dyn Judge>, u64)>,
    /// What they found, the first [`VERDICTS_MAX`] of each.
    pub verdicts: Vec<Verdict>,
    /// How much there was in all.
    pub count: u64,
}

/// Verdicts of one judge that are kept: the first ones tell the story.
const VERDICTS_MAX: u64 = 20;

impl Court {
    /// A court of nobody: nothing is ever wrong.
    pub(crate) fn none() -> Court {
        Court::default()
    }

    /// All judges, for a tier of so many tenants.
    pub(crate) fn full(tenants: usize, shrinking: Shrinking) -> Court {
        let mut judges: Vec<Box<dyn Judge>> = vec![
            Box::new(Content::default()),
            Box::new(Frames::default()),
            Box::new(Sums::of(tenants)),
        ];
        if shrinking == Shrinking::Active {
            judges.push(Box::new(Obedience::of(tenants)));
        }
        Court {
            judges: judges.into_iter().map(|judge| (judge, 0)).collect(),
            ..Court::default()
        }
    }

    /// Whether it is nobody's.
    pub(super) fn is_empty(&self) -> bool {
        self.judges.is_empty()
    }

    /// Has every judge hear of what happened.
    pub(super) fn hear(&mut self, at: Moment, happening: &Happening<'_>) {
        for (judge, found) in &mut self.judges {
            let Some(wrong) = judge.hear(at, happening) else {
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
