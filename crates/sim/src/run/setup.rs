//! What a scenario names is made here: its tier, its virtual machines, and the memory of its host over time.

use std::io;

use sublet_types::{Bytes, Pages, PoolFlags, TenantNameError, WindowEviction};

use super::{FileOpener, RunError, RunningVm, VmState, headroom};
use crate::machine::guest::Guest;
use crate::machine::tier::Tier;
use crate::machine::tier_map::{MapTier, NoTier};
use crate::machine::tier_store::{StoreShape, StoreTenant, StoreTier};
use crate::rng::SimRng;
use crate::scenario::{MemoryChange, Scenario, TierEngine, TierSizing, VmInstance, format_of};
use crate::traces::{HostSample, HostSeries, Trace};
use crate::virtual_time::VirtualInstant;
use crate::workload::spec;

/// The tier that a scenario asks for, as large as its host lets it be at first.
pub(crate) fn tier_of(scenario: &Scenario, host: &HostSeries) -> Result<Box<dyn Tier>, RunError> {
    let machines = scenario.machines();
    let total = Pages::of(host.free_at(VirtualInstant::START));
    Ok(match scenario.tier.engine {
        TierEngine::Store => Box::new(store_tier(scenario, &machines, host, total)?),
        TierEngine::Tables => Box::new(MapTier::of(total, machines.len(), scenario.tier.shrink)),
        TierEngine::None => Box::new(NoTier::of(machines.len())),
    })
}

fn store_tier(
    scenario: &Scenario,
    machines: &[VmInstance<'_>],
    host: &HostSeries,
    total: Pages,
) -> Result<StoreTier, RunError> {
    let tenant = |vm: &VmInstance<'_>| {
        Ok(StoreTenant {
            settings: vm.settings()?,
            swap_pages: vm.shape.swap_pages,
        })
    };
    let tenants: Result<Vec<StoreTenant>, TenantNameError> = machines.iter().map(tenant).collect();
    let shape = StoreShape {
        total,
        most: Pages::of(host.most()),
        eviction: scenario.tier.eviction,
        shards: scenario.tier.shards.0,
        shrinking: scenario.tier.shrink,
        files: PoolFlags::default(),
        windows: WindowEviction::default(),
        seed: scenario.seed,
    };
    Ok(StoreTier::of(&shape, &tenants?)?)
}

/// The virtual machines, before they begin.
pub(super) fn running<'a>(
    scenario: &Scenario,
    machines: &'a [VmInstance<'a>],
    files: &mut FileOpener<'_>,
) -> Result<Vec<RunningVm<'a>>, RunError> {
    let mut running = Vec::with_capacity(machines.len());
    for (number, vm) in (0u64..).zip(machines) {
        let mut refused = None;
        let mut open = |spec: &spec::Trace| {
            let format = format_of(spec).ok();
            let bytes = files(&spec.file).unwrap_or_else(|cause| {
                refused = Some((spec.file.clone(), cause));
                Box::new(io::empty())
            });
            Trace::open(&spec.file, format, bytes)
        };
        let rng = SimRng::of_part(scenario.seed, number);
        let threads = vm.spec.workload.build_threads(rng, &mut open);
        if let Some((name, cause)) = refused {
            return Err(RunError::File { name, cause });
        }
        running.push(RunningVm {
            guest: Guest::of(vm.shape),
            threads: threads?.into_iter().map(Some).collect(),
            state: VmState::Waiting,
            stretches: Vec::new(),
            answered_at: VirtualInstant::START,
            vm,
        });
    }
    Ok(running)
}

/// How large the tier may be over time.
pub(crate) fn host_series(
    scenario: &Scenario,
    files: &mut FileOpener<'_>,
) -> Result<HostSeries, RunError> {
    let host = &scenario.host;
    let mut series = match &host.follow {
        None => HostSeries::of_changes(host.memory, &host.changes),
        Some(follow) => {
            let name = follow.file.clone();
            let bytes = files(&name).map_err(|cause| RunError::File { name, cause })?;
            let read = HostSeries::read(&follow.file, follow.format(), &follow.host, bytes)?;
            read.condensed(follow.speed, follow.peak)
        }
    };
    if host.store == TierSizing::Fixed {
        let free = series.least() - headroom::reserve(host, &series);
        let at = VirtualInstant::START;
        series.samples = vec![HostSample { at, free }];
    }
    Ok(series)
}

impl HostSeries {
    fn of_changes(memory: Bytes, changes: &[MemoryChange]) -> HostSeries {
        let first = HostSample {
            at: VirtualInstant::START,
            free: memory,
        };
        let changed = changes.iter().map(|change| HostSample {
            at: VirtualInstant::START + change.at,
            free: change.memory,
        });
        let mut samples: Vec<HostSample> = std::iter::once(first).chain(changed).collect();
        samples.sort_by_key(|sample| sample.at);
        HostSeries { samples }
    }
}
