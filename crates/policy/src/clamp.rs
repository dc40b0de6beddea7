//! The one step after every policy: it applies floors, ceilings and the total.
//!
//! 1. A target is raised to the tenant's floor and cut to its ceiling. The ceiling wins if both cannot hold.
//! 2. If the targets together exceed the total, each tenant gives in proportion to what it has above its floor. Without
//!    floors that is SmarTmem's equation 2: `target_i = total × target_i / Σ target`. Nothing is ever scaled up.
//! 3. If the floors alone exceed the total, they are divided in proportion.
//!
//! What is left over is given to nobody.

use sublet_types::{Pages, Snapshot, Target, Targets, TenantSnapshot};

use crate::apportion::{WeightedClaim, apportion};
use crate::decision::{Decision, Proposal};
use crate::explain::{Explanation, TargetBound};

/// Makes a decision from a policy's proposals. There is one proposal per tenant, in the snapshot's order.
pub(crate) fn settle(snapshot: &Snapshot, proposals: Vec<Proposal>) -> Decision {
    let asked: Vec<Option<Pages>> = proposals.iter().map(|proposal| proposal.pages).collect();
    let within = bounded(snapshot, &asked);
    let together = within.iter().flatten().copied().sum();
    let fitted = fit(snapshot, &asked);
    let guards: Vec<Option<Pages>> = proposals.iter().map(|proposal| proposal.guard).collect();
    let guards = fit(snapshot, &guards);
    let mut decision = Decision::default();
    for (n, (tenant, proposal)) in snapshot.tenants.iter().zip(&proposals).enumerate() {
        decision.targets.tenants.push(Target {
            id: tenant.id,
            pages: fitted[n],
            wanted: proposal.wanted,
            guard: guards[n],
            giving: proposal.giving,
        });
        decision.explanations.push(Explanation {
            id: tenant.id,
            before: tenant.target,
            after: fitted[n],
            reason: proposal.reason,
            bound: bound(asked[n], within[n], fitted[n], together, snapshot.total),
        });
    }
    decision.targets.unassigned = unassigned(snapshot.total, &decision.targets);
    decision
}

/// What each tenant gets of what a policy asks for it. `None` stands for a tenant without a target.
pub(crate) fn fit(snapshot: &Snapshot, asked: &[Option<Pages>]) -> Vec<Option<Pages>> {
    let within = bounded(snapshot, asked);
    let together = u128_sum(within.iter().flatten().map(|pages| pages.0));
    if together <= u128::from(snapshot.total.0) {
        return within;
    }
    let bound_ones: Vec<(&TenantSnapshot, u64)> = snapshot
        .tenants
        .iter()
        .zip(&within)
        .filter_map(|(tenant, pages)| Some((tenant, (*pages)?.0)))
        .collect();
    let mut scaled = scale_down(snapshot.total.0, &bound_ones).into_iter();
    let next = |pages: Option<Pages>| pages.and_then(|_| scaled.next()).map(Pages);
    within.into_iter().map(next).collect()
}

/// What each tenant gets within floors and ceilings alone.
pub(crate) fn bounded(snapshot: &Snapshot, asked: &[Option<Pages>]) -> Vec<Option<Pages>> {
    let within = |(tenant, pages): (&TenantSnapshot, &Option<Pages>)| {
        Some((*pages)?.max(floor(tenant)).min(ceiling(tenant)))
    };
    snapshot.tenants.iter().zip(asked).map(within).collect()
}

/// What a tenant has in any case, provided there is enough for all floors.
pub(crate) fn floor(tenant: &TenantSnapshot) -> Pages {
    tenant.floor.unwrap_or_default().min(ceiling(tenant))
}

/// The most that a tenant may have.
pub(crate) fn ceiling(tenant: &TenantSnapshot) -> Pages {
    tenant.ceiling.unwrap_or(Pages(u64::MAX))
}

/// Scales down targets that together exceed the total. Floors are served first.
fn scale_down(total: u64, asked: &[(&TenantSnapshot, u64)]) -> Vec<u64> {
    let part = |tenant: &TenantSnapshot, weight| WeightedClaim {
        id: tenant.id,
        weight,
    };
    let floors: Vec<WeightedClaim> = asked
        .iter()
        .map(|(tenant, _)| part(tenant, floor(tenant).0))
        .collect();
    let floors_sum = u128_sum(floors.iter().map(|floor| floor.weight));
    let Some(rest) = u64::try_from(floors_sum)
        .ok()
        .and_then(|sum| total.checked_sub(sum))
    else {
        return apportion(total, &floors);
    };
    let above: Vec<WeightedClaim> = asked
        .iter()
        .map(|(tenant, pages)| part(tenant, pages - floor(tenant).0))
        .collect();
    let given = apportion(rest, &above);
    floors
        .iter()
        .zip(given)
        .map(|(floor, given)| floor.weight + given)
        .collect()
}

fn bound(
    asked: Option<Pages>,
    within: Option<Pages>,
    fitted: Option<Pages>,
    together: Pages,
    total: Pages,
) -> Option<TargetBound> {
    let (asked, within, fitted) = (asked?, within?, fitted?);
    if fitted < within {
        return Some(TargetBound::ScaledDown {
            asked: within,
            together,
            total,
        });
    }
    if within < asked {
        return Some(TargetBound::Ceiling { asked });
    }
    (within > asked).then_some(TargetBound::Floor { asked })
}

/// What the targets leave over. It is nothing if some tenant has no target.
fn unassigned(total: Pages, targets: &Targets) -> Pages {
    let pages = targets.tenants.iter().map(|target| target.pages);
    let assigned: Option<u64> = pages.map(|pages| Some(pages?.0)).sum();
    Pages(assigned.map_or(0, |assigned| total.0 - assigned))
}

fn u128_sum(amounts: impl Iterator<Item = u64>) -> u128 {
    amounts.map(u128::from).sum()
}

#[cfg(test)]
mod tests;
