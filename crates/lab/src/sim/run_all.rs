//! Scenarios side by side. Each is one thread's work and shares nothing, so as many run at once as there are cores.
//! Outcomes come in the scenarios' order.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sublet_sim::outcome::RunOutcome;
use sublet_sim::run::{self, JudgeMode};
use sublet_sim::scenario::Scenario;

use super::error::SimError;
use super::progress::SimProgress;
use super::scenario::files_beside;

/// Runs each of `scenarios`. Their files lie in `folder`.
pub(super) fn all(
    scenarios: &[Scenario],
    folder: &Path,
    watch: JudgeMode,
    progress: &SimProgress,
) -> Result<Vec<RunOutcome>, SimError> {
    progress.expect(scenarios.len());
    let one = |number: usize| one(&scenarios[number], folder, watch, progress);
    side_by_side(scenarios.len(), one).into_iter().collect()
}

/// Does pieces of work number 0 to `count`, as many at once as there are cores. The results come in that order.
pub(super) fn side_by_side<T: Send + Sync>(
    count: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    let take_turns = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = results.get(number) else {
                return;
            };
            result.get_or_init(|| work(number));
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores().min(count) {
            scope.spawn(take_turns);
        }
    });
    results
        .into_iter()
        .filter_map(OnceLock::into_inner)
        .collect()
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn one(
    scenario: &Scenario,
    folder: &Path,
    watch: JudgeMode,
    progress: &SimProgress,
) -> Result<RunOutcome, SimError> {
    progress.begin(scenario);
    let mut files = files_beside(folder);
    let outcome = run::run(scenario, &mut files, watch, &mut |at| progress.update(at));
    progress.end();
    outcome.map_err(|cause| SimError::Run {
        scenario: scenario.name.clone(),
        label: scenario.label(),
        cause: Box::new(cause),
    })
}
