//! What is expected of each scenario, and whether the simulation meets it.

use super::policies::VmcaPolicy;
use super::report::{Gain, VmcaReport, percent_of};
use super::scenarios::VmcaScenario;
use crate::figures::Acceptance;

/// Everything that is expected of a report. Figures that are not there are left out.
pub(super) fn all(report: &VmcaReport) -> Vec<Acceptance> {
    let scenarios = report.scenarios().iter();
    scenarios
        .flat_map(|scenario| of_scenario(report, *scenario))
        .flatten()
        .collect()
}

fn of_scenario(report: &VmcaReport, scenario: VmcaScenario) -> [Option<Acceptance>; 4] {
    let gain = |of, over| report.gain(Gain { scenario, of, over });
    let two_level = report.best_of(scenario, VmcaPolicy::two_level());
    let ours = report.best_of(scenario, VmcaPolicy::OURS.into_iter());
    let remote = VmcaPolicy::GreedyRemote;
    [
        Acceptance::of(
            &format!("scenario {scenario}, greedy-remote takes less time than greedy-local, %"),
            gain(remote, VmcaPolicy::GreedyLocal),
            12.0..=77.0,
        ),
        Acceptance::of(
            &format!("scenario {scenario}, the best TLP takes less time than greedy-remote, %"),
            two_level.and_then(|best| gain(best, remote)),
            7.0..=37.5,
        ),
        Acceptance::of(
            &format!("scenario {scenario}, P of the best TLP, %"),
            two_level.and_then(percent_of),
            2.0..=6.0,
        ),
        Acceptance::of(
            &format!("scenario {scenario}, our best policy takes less time than the best TLP, %"),
            two_level
                .zip(ours)
                .and_then(|(paper, ours)| gain(ours, paper)),
            0.0..=f64::INFINITY,
        ),
    ]
}
