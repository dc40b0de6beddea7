//! Scenarios side by side: each is one thread's work and shares nothing, so that as many run at once as
//! there are cores. Outcomes come in the scenarios' order.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sublet_sim::outcome::Outcome;
use sublet_sim::run::{self, Watch};
use sublet_sim::scenario::Scenario;

use super::SimError;
use super::progress::Progress;
use super::scenario::files_beside;

/// Runs each of `scenarios`, whose files lie in `folder`.
pub(super) fn all(
    scenarios: &[Scenario],
    folder: &Path,
    watch: Watch,
    progress: &Progress,
) -> Result<Vec<Outcome>, SimError> {
    progress.expect(scenarios.len());
    let next = AtomicUsize::new(0);
    let outcomes: Vec<OnceLock<Result<Outcome, SimError>>> =
        scenarios.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(scenario) = scenarios.get(number) else {
                return;
            };
            outcomes[number].get_or_init(|| one(scenario, folder, watch, progress));
        }
    };
    thread::scope(|scope| {
        for _ in 0..cores().min(scenarios.len()) {
            scope.spawn(work);
        }
    });
    outcomes
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
    watch: Watch,
    progress: &Progress,
) -> Result<Outcome, SimError> {
    progress.begin(scenario);
    let mut files = files_beside(folder);
    let outcome = run::run(scenario, &mut files, watch, &mut |at| progress.hear(at));
    progress.end();
    outcome.map_err(|cause| SimError::Run {
        scenario: scenario.name.clone(),
        label: scenario.label(),
        cause: Box::new(cause),
    })
}
