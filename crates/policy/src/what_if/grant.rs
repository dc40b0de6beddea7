//! One tenant with other memory than it has: which tenants pay or gain.

use sublet_types::{Pages, TenantId};

use super::replay::{PageBounds, PolicyModel};
use super::{HistoryRecord, TenantHistory, TenantRecord};
use crate::apportion::{WeightedClaim, apportion};
use crate::catalogue::PolicyChoice;

/// One tenant's part of a hypothetical change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoldingChange {
    /// The tenant.
    pub id: TenantId,
    /// What it holds.
    pub before: Pages,
    /// What it would hold.
    pub after: Pages,
    /// The part of its gets that hit by its curve with what it holds, from 0 to 1. `None` while it is not measured.
    pub hits_before: Option<f64>,
    /// The same part with what it would hold.
    pub hits_after: Option<f64>,
}

/// What would be if a tenant had other memory.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantOutcome {
    /// What everybody holds and would hold, in the record's order.
    pub changes: Vec<HoldingChange>,
    /// What nobody holds.
    pub free_before: Pages,
    /// What nobody would hold.
    pub free_after: Pages,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GrantRefusal {
    /// There is no such tenant.
    Unknown,
    /// It has no curve yet, or nothing was asked for.
    NotMeasured,
    /// No memory brings so many hits.
    OutOfReach {
        /// The most that any memory brings, from 0 to 1.
        most: f64,
        /// The least memory that does.
        with: Pages,
    },
    /// Its ceiling is lower.
    Ceiling {
        /// What it would need.
        needs: Pages,
        /// Its ceiling.
        ceiling: Pages,
        /// Its hits with that ceiling, if they are known.
        hits: Option<f64>,
    },
    /// There is not so much memory, even if all others fall to their floors.
    NoRoom {
        /// What it would need.
        needs: Pages,
        /// What it can have.
        most: Pages,
        /// Its hits with that, if they are known.
        hits: Option<f64>,
    },
}

/// What a tenant would need so that a given part of its gets hits, and who would pay.
pub fn for_hits(
    records: &[HistoryRecord],
    policy: &PolicyChoice,
    id: TenantId,
    ratio: f64,
) -> Result<GrantOutcome, GrantRefusal> {
    let history = TenantHistory { records, id };
    own(records, id)?;
    let most = history
        .ratio(history.reach())
        .ok_or(GrantRefusal::NotMeasured)?;
    let needs = history
        .least(ratio)
        .ok_or_else(|| GrantRefusal::OutOfReach {
            most,
            with: history.least(most).unwrap_or_default(),
        })?;
    with_memory(records, policy, id, needs)
}

/// What a tenant would gain from a given amount of memory, and who would pay. The last record says how things stand.
pub fn with_memory(
    records: &[HistoryRecord],
    policy: &PolicyChoice,
    id: TenantId,
    memory: Pages,
) -> Result<GrantOutcome, GrantRefusal> {
    let (now, tenant_record) = own(records, id)?;
    let history = TenantHistory { records, id };
    if let Some(ceiling) = tenant_record.ceiling.filter(|ceiling| *ceiling < memory) {
        return Err(GrantRefusal::Ceiling {
            needs: memory,
            ceiling,
            hits: history.ratio(ceiling),
        });
    }
    let most = most_for(now, tenant_record);
    if most < memory {
        return Err(GrantRefusal::NoRoom {
            needs: memory,
            most,
            hits: history.ratio(most),
        });
    }
    let held: Vec<u64> = now
        .tenants
        .iter()
        .map(|tenant_record| tenant_record.held.0)
        .collect();
    let after = match memory > tenant_record.held {
        true => holdings_after_gain(now, policy, id, memory),
        false => holdings_after_loss(now, policy, id, memory),
    };
    Ok(outcome_of(records, now, &held, &after))
}

fn own(
    records: &[HistoryRecord],
    id: TenantId,
) -> Result<(&HistoryRecord, &TenantRecord), GrantRefusal> {
    let now = records.last().ok_or(GrantRefusal::Unknown)?;
    let tenant_record = now
        .tenants
        .iter()
        .find(|tenant_record| tenant_record.id == id);
    Ok((now, tenant_record.ok_or(GrantRefusal::Unknown)?))
}

fn free(record: &HistoryRecord, held: &[u64]) -> u64 {
    record.total.0.saturating_sub(held.iter().sum())
}

/// What a tenant has if all others fall to their floors.
fn most_for(record: &HistoryRecord, tenant: &TenantRecord) -> Pages {
    let others = record
        .tenants
        .iter()
        .filter(|tenant_record| tenant_record.id != tenant.id);
    let kept: u64 = others
        .map(|tenant_record| tenant_record.floor.min(tenant_record.held).0)
        .sum();
    Pages(record.total.0.saturating_sub(kept).max(tenant.held.0))
}

/// What everybody holds once the tenant has more. First the free memory goes. Then goes what the policy in force would
/// lower if this were the tenant's floor. Then goes what is most above its weighted share.
fn holdings_after_gain(
    record: &HistoryRecord,
    policy: &PolicyChoice,
    id: TenantId,
    memory: Pages,
) -> Vec<u64> {
    let held: Vec<u64> = record
        .tenants
        .iter()
        .map(|tenant_record| tenant_record.held.0)
        .collect();
    let own = |n: usize| record.tenants[n].id == id;
    let needs: u64 = (0..held.len())
        .filter(|n| own(*n))
        .map(|n| memory.0 - held[n])
        .sum();
    let rest = needs.saturating_sub(free(record, &held));
    let mut model = PolicyModel::new(policy);
    let targets = model.targets_with(record, id, memory);
    let lowered = |(n, tenant_record): (usize, &TenantRecord)| match targets[n] {
        Some(target) if !own(n) => held[n].saturating_sub(target.0.max(tenant_record.floor.0)),
        _ => 0,
    };
    let lowered: Vec<u64> = record.tenants.iter().enumerate().map(lowered).collect();
    let losses = at_most(rest, &lowered, record);
    let most: Vec<u64> = held
        .iter()
        .zip(&losses)
        .map(|(held, loss)| held - loss)
        .collect();
    let bounds = record
        .tenants
        .iter()
        .enumerate()
        .map(|(n, tenant_record)| match own(n) {
            true => exactly(memory),
            false => PageBounds {
                least: tenant_record.floor.0.min(most[n]),
                most: most[n],
            },
        });
    let total = record.total.0.max(held.iter().sum());
    model.divide(record, total, &bounds.collect::<Vec<_>>())
}

/// What everybody holds once the tenant has less. The policy in force raises others, or the tenants that lacked room
/// take of it by weight. The rest is free.
fn holdings_after_loss(
    record: &HistoryRecord,
    policy: &PolicyChoice,
    id: TenantId,
    memory: Pages,
) -> Vec<u64> {
    let mut model = PolicyModel::new(policy);
    let targets = model.targets_with(record, id, memory);
    let bounds = record
        .tenants
        .iter()
        .zip(targets)
        .map(|(tenant_record, target)| {
            let held = tenant_record.held.0;
            let most = tenant_record.wants().min(target.unwrap_or(Pages(u64::MAX)));
            match tenant_record.id == id {
                true => exactly(memory),
                false => PageBounds {
                    least: held,
                    most: most.0.max(held),
                },
            }
        });
    let held: u64 = record
        .tenants
        .iter()
        .map(|tenant_record| tenant_record.held.0)
        .sum();
    let total = record.total.0.max(held);
    model.divide(record, total, &bounds.collect::<Vec<_>>())
}

fn exactly(memory: Pages) -> PageBounds {
    PageBounds {
        least: memory.0,
        most: memory.0,
    }
}

/// Scales amounts down so that they sum up to `most` at most: each gives in proportion.
fn at_most(most: u64, amounts: &[u64], record: &HistoryRecord) -> Vec<u64> {
    if amounts.iter().sum::<u64>() <= most {
        return amounts.to_vec();
    }
    let part = |(tenant_record, weight): (&TenantRecord, &u64)| WeightedClaim {
        id: tenant_record.id,
        weight: *weight,
    };
    let parts: Vec<WeightedClaim> = record.tenants.iter().zip(amounts).map(part).collect();
    apportion(most, &parts)
}

fn outcome_of(
    records: &[HistoryRecord],
    now: &HistoryRecord,
    held: &[u64],
    after: &[u64],
) -> GrantOutcome {
    let change = |(n, tenant_record): (usize, &TenantRecord)| {
        let history = TenantHistory {
            records,
            id: tenant_record.id,
        };
        let (before, after) = (Pages(held[n]), Pages(after[n]));
        HoldingChange {
            id: tenant_record.id,
            before,
            after,
            hits_before: history.ratio(before),
            hits_after: history.ratio(after),
        }
    };
    GrantOutcome {
        changes: now.tenants.iter().enumerate().map(change).collect(),
        free_before: Pages(free(now, held)),
        free_after: Pages(free(now, after)),
    }
}
