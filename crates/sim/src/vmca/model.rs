//! How the nodes are modelled.

use serde::Serialize;

use super::coarse::coarsened;
use super::scale::VmcaScale;
use super::scenarios::VmcaScenario;
use crate::scenario::Scenario;

/// How the nodes are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VmcaModel {
    /// How coarse pages are.
    pub scale: VmcaScale,
    /// Microseconds until a disk gives the first byte, if not as in the scenarios.
    pub disk_latency_us: Option<u64>,
}

impl VmcaModel {
    /// What runs on a node.
    pub(super) fn of_a_node(self, scenario: VmcaScenario) -> Scenario {
        let mut scenario = scenario.of_a_node();
        if let Some(latency_us) = self.disk_latency_us {
            scenario.disk.latency_us = latency_us;
        }
        coarsened(scenario, self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_as_slow_as_the_scenario_or_the_model_says() {
        let latency = |disk_latency_us| {
            let scale = "4".parse().expect("a scale");
            let model = VmcaModel {
                scale,
                disk_latency_us,
            };
            model.of_a_node(VmcaScenario::Two).disk.latency_us
        };
        let of_scenario = VmcaScenario::Two.of_a_node().disk.latency_us;
        assert_eq!(latency(None), 4 * of_scenario);
        assert_eq!(latency(Some(8000)), 32_000);
    }
}
