//! The same scenario in coarser pages. A page stands for several of the paper's, so there are as many times fewer, and
//! each takes as many times longer. Running times stay what they are, to the coarseness.

use sublet_types::Bytes;

use super::scale::VmcaScale;
use crate::machine::guest::GuestCosts;
use crate::scenario::Scenario;
use crate::virtual_time::VirtualDuration;
use crate::workload::WorkloadSpec;

/// A scenario in pages that stand for `scale` pages each.
pub(super) fn coarsened(scenario: Scenario, scale: VmcaScale) -> Scenario {
    let mut coarse = scenario;
    coarse.host.memory = less(coarse.host.memory, scale);
    coarse.disk.latency_us = coarse.disk.latency_us.saturating_mul(scale.factor());
    coarse.disk.bandwidth = less(coarse.disk.bandwidth, scale);
    coarse.disk.backlog = less(coarse.disk.backlog, scale);
    coarse.costs = slower(coarse.costs, scale);
    for vm in &mut coarse.vms {
        for amount in [&mut vm.memory, &mut vm.reserved, &mut vm.swap] {
            *amount = less(*amount, scale);
        }
        coarsen(&mut vm.workload, scale);
    }
    coarse
}

fn less(amount: Bytes, scale: VmcaScale) -> Bytes {
    Bytes(amount.0 / scale.factor())
}

fn longer(span: VirtualDuration, scale: VmcaScale) -> VirtualDuration {
    span.times(scale.factor())
}

fn slower(costs: GuestCosts, scale: VmcaScale) -> GuestCosts {
    GuestCosts {
        touch: longer(costs.touch, scale),
        fault: longer(costs.fault, scale),
        put: longer(costs.put, scale),
        get: longer(costs.get, scale),
        refusal: longer(costs.refusal, scale),
        far: longer(costs.far, scale),
    }
}

fn coarsen(workload: &mut WorkloadSpec, scale: VmcaScale) {
    match workload {
        WorkloadSpec::GraphAnalytics(running) | WorkloadSpec::InMemoryAnalytics(running) => {
            running.scale /= scale.factor() as f64;
            running.work *= scale.factor() as f64;
        }
        WorkloadSpec::Scan(spec) => {
            spec.size = less(spec.size, scale);
            spec.think = longer(spec.think, scale);
        }
        WorkloadSpec::Zipf(spec) => {
            spec.size = less(spec.size, scale);
            spec.operations /= scale.factor();
            spec.think = longer(spec.think, scale);
        }
        WorkloadSpec::Phases(phases) => {
            let workloads = phases.iter_mut().map(|phase| &mut phase.workload);
            workloads.for_each(|workload| coarsen(workload, scale));
        }
        // vMCA's scenarios have no others.
        WorkloadSpec::Usemem(_) | WorkloadSpec::FileServer(_) | WorkloadSpec::Trace(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{JudgeMode, run};
    use crate::vmca::VmcaScenario;

    fn scaled(scenario: VmcaScenario, scale: &str) -> Scenario {
        coarsened(scenario.of_a_node(), scale.parse().expect("a scale"))
    }

    #[test]
    fn scenarios_have_only_workloads_that_can_be_coarse() {
        for scenario in VmcaScenario::ALL {
            let scenario = scenario.of_a_node();
            let mut workloads = scenario.vms.iter().flat_map(|vm| vm.workload.specs());
            assert!(workloads.all(|workload| !matches!(
                workload,
                WorkloadSpec::Usemem(_) | WorkloadSpec::FileServer(_) | WorkloadSpec::Trace(_)
            )));
        }
    }

    /// The oracle is the finer simulation.
    #[test]
    fn coarse_pages_hardly_change_the_running_times() {
        let end = |scale| {
            let mut scenario = scaled(VmcaScenario::Four, scale);
            scenario.vms.remove(0);
            scenario.host.memory = Bytes(scenario.host.memory.0 / 2);
            let mut no_files = |_: &str| Err(std::io::ErrorKind::NotFound.into());
            let outcome = run(&scenario, &mut no_files, JudgeMode::Nobody, &mut |_| {});
            outcome.expect("it runs").secs
        };
        let (coarse, fine) = (end("32"), end("8"));
        assert!((coarse / fine - 1.0).abs() < 0.15, "{coarse} {fine}");
    }
}
