//! The one step after every policy: floors, ceilings and the total.
//!
//! 1. A target is raised to the tenant's floor and cut to its ceiling; where both cannot hold, the ceiling does.
//! 2. Where the targets together exceed the total, each gives in proportion to what it has above its floor. Without
//!    floors that is SmarTmem's equation 2: `target_i = total × target_i / Σ target`. Nothing is ever scaled up.
//! 3. Where the floors alone exceed the total, they are divided in proportion.
//!
//! What is left over is given to nobody.

use sublet_types::{Pages, Snapshot, Target, Targets, TenantSnapshot};

use crate::apportion::{Part, apportion};
use crate::decision::{Decision, Proposal};
use crate::explain::{Bound, Explanation};

/// Makes a decision of a policy's proposals, one for each tenant in the snapshot's order.
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

/// What each tenant gets of what a policy asks for it, `None` where it asks for no target.
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

/// The same within floors and ceilings alone.
pub(crate) fn bounded(snapshot: &Snapshot, asked: &[Option<Pages>]) -> Vec<Option<Pages>> {
    let within = |(tenant, pages): (&TenantSnapshot, &Option<Pages>)| {
        Some((*pages)?.max(floor(tenant)).min(ceiling(tenant)))
    };
    snapshot.tenants.iter().zip(asked).map(within).collect()
}

/// What a tenant has in any case, as long as there is enough for all floors.
pub(crate) fn floor(tenant: &TenantSnapshot) -> Pages {
    tenant.floor.unwrap_or_default().min(ceiling(tenant))
}

/// What a tenant never has more than.
pub(crate) fn ceiling(tenant: &TenantSnapshot) -> Pages {
    tenant.ceiling.unwrap_or(Pages(u64::MAX))
}

/// Targets that together are more than the total, made to fit; the floors first.
fn scale_down(total: u64, asked: &[(&TenantSnapshot, u64)]) -> Vec<u64> {
    let part = |tenant: &TenantSnapshot, weight| Part {
        id: tenant.id,
        weight,
    };
    let floors: Vec<Part> = asked
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
    let above: Vec<Part> = asked
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
) -> Option<Bound> {
    let (asked, within, fitted) = (asked?, within?, fitted?);
    if fitted < within {
        return Some(Bound::ScaledDown {
            asked: within,
            together,
            total,
        });
    }
    if within < asked {
        return Some(Bound::Ceiling { asked });
    }
    (within > asked).then_some(Bound::Floor { asked })
}

/// Where somebody has no target, nothing is kept from anybody.
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
