//! One tenant with other memory than it has: who pays, or who gains.

use sublet_types::{Pages, TenantId};

use super::replay::{Bounds, Model};
use super::{Asked, Party, Record};
use crate::apportion::{Part, apportion};
use crate::catalogue::Choice;

/// One tenant's part of what would be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Who.
    pub id: TenantId,
    /// What it holds.
    pub before: Pages,
    /// What it would hold.
    pub after: Pages,
    /// Its hits with what it holds by its curve, from 0 to 1; `None` while it is not measured.
    pub hits_before: Option<f64>,
    /// Its hits with what it would hold.
    pub hits_after: Option<f64>,
}

/// A tenant with other memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// What everybody holds and would hold, in the record's order.
    pub changes: Vec<Change>,
    /// What nobody holds.
    pub free_before: Pages,
    /// What nobody would hold.
    pub free_after: Pages,
}

/// Why there is no such answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// No such tenant.
    Unknown,
    /// It has no curve yet, or was asked for nothing.
    NotMeasured,
    /// No memory brings so many hits.
    OutOfReach {
        /// The most that any brings, from 0 to 1.
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
        /// Its hits with that, where they are known.
        hits: Option<f64>,
    },
    /// There is not so much, even if all others fall to their floors.
    NoRoom {
        /// What it would need.
        needs: Pages,
        /// What it can have.
        most: Pages,
        /// Its hits with that, where they are known.
        hits: Option<f64>,
    },
}

/// What a tenant would need for such a part of its gets to be hits, and who would pay.
pub fn for_hits(
    records: &[Record],
    policy: &Choice,
    id: TenantId,
    ratio: f64,
) -> Result<Granted, Refusal> {
    let asked = Asked { records, id };
    own(records, id)?;
    let most = asked.ratio(asked.reach()).ok_or(Refusal::NotMeasured)?;
    let needs = asked.least(ratio).ok_or_else(|| Refusal::OutOfReach {
        most,
        with: asked.least(most).unwrap_or_default(),
    })?;
    with_memory(records, policy, id, needs)
}

/// What a tenant would have of so much memory, and who would pay. The last record is how things stand.
pub fn with_memory(
    records: &[Record],
    policy: &Choice,
    id: TenantId,
    memory: Pages,
) -> Result<Granted, Refusal> {
    let (now, party) = own(records, id)?;
    let asked = Asked { records, id };
    if let Some(ceiling) = party.ceiling.filter(|ceiling| *ceiling < memory) {
        return Err(Refusal::Ceiling {
            needs: memory,
            ceiling,
            hits: asked.ratio(ceiling),
        });
    }
    let most = most_for(now, party);
    if most < memory {
        return Err(Refusal::NoRoom {
            needs: memory,
            most,
            hits: asked.ratio(most),
        });
    }
    let held: Vec<u64> = now.tenants.iter().map(|party| party.held.0).collect();
    let after = match memory > party.held {
        true => taken(now, policy, id, memory),
        false => given(now, policy, id, memory),
    };
    Ok(told(records, now, &held, &after))
}

fn own(records: &[Record], id: TenantId) -> Result<(&Record, &Party), Refusal> {
    let now = records.last().ok_or(Refusal::Unknown)?;
    let party = now.tenants.iter().find(|party| party.id == id);
    Ok((now, party.ok_or(Refusal::Unknown)?))
}

fn free(record: &Record, held: &[u64]) -> u64 {
    record.total.0.saturating_sub(held.iter().sum())
}

/// What a tenant has if all others fall to their floors.
fn most_for(record: &Record, tenant: &Party) -> Pages {
    let others = record.tenants.iter().filter(|party| party.id != tenant.id);
    let kept: u64 = others.map(|party| party.floor.min(party.held).0).sum();
    Pages(record.total.0.saturating_sub(kept).max(tenant.held.0))
}

/// What everybody holds once the tenant has more: first goes what is free, then what the policy in force would lower if
/// this were the tenant's floor, then what is most above its weighted share.
fn taken(record: &Record, policy: &Choice, id: TenantId, memory: Pages) -> Vec<u64> {
    let held: Vec<u64> = record.tenants.iter().map(|party| party.held.0).collect();
    let own = |n: usize| record.tenants[n].id == id;
    let needs: u64 = (0..held.len())
        .filter(|n| own(*n))
        .map(|n| memory.0 - held[n])
        .sum();
    let rest = needs.saturating_sub(free(record, &held));
    let mut model = Model::new(policy);
    let targets = model.targets_with(record, id, memory);
    let lowered = |(n, party): (usize, &Party)| match targets[n] {
        Some(target) if !own(n) => held[n].saturating_sub(target.0.max(party.floor.0)),
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
        .map(|(n, party)| match own(n) {
            true => exactly(memory),
            false => Bounds {
                least: party.floor.0.min(most[n]),
                most: most[n],
            },
        });
    let total = record.total.0.max(held.iter().sum());
    model.divide(record, total, &bounds.collect::<Vec<_>>())
}

/// What everybody holds once the tenant has less: the policy in force raises others, or whoever lacked room takes of it by
/// weight; the rest is free.
fn given(record: &Record, policy: &Choice, id: TenantId, memory: Pages) -> Vec<u64> {
    let mut model = Model::new(policy);
    let targets = model.targets_with(record, id, memory);
    let bounds = record.tenants.iter().zip(targets).map(|(party, target)| {
        let held = party.held.0;
        let most = party.wants().min(target.unwrap_or(Pages(u64::MAX)));
        match party.id == id {
            true => exactly(memory),
            false => Bounds {
                least: held,
                most: most.0.max(held),
            },
        }
    });
    let held: u64 = record.tenants.iter().map(|party| party.held.0).sum();
    let total = record.total.0.max(held);
    model.divide(record, total, &bounds.collect::<Vec<_>>())
}

fn exactly(memory: Pages) -> Bounds {
    Bounds {
        least: memory.0,
        most: memory.0,
    }
}

/// Amounts that together are `most` at the most: each gives in proportion.
fn at_most(most: u64, amounts: &[u64], record: &Record) -> Vec<u64> {
    if amounts.iter().sum::<u64>() <= most {
        return amounts.to_vec();
    }
    let part = |(party, weight): (&Party, &u64)| Part {
        id: party.id,
        weight: *weight,
    };
    let parts: Vec<Part> = record.tenants.iter().zip(amounts).map(part).collect();
    apportion(most, &parts)
}

fn told(records: &[Record], now: &Record, held: &[u64], after: &[u64]) -> Granted {
    let change = |(n, party): (usize, &Party)| {
        let asked = Asked {
            records,
            id: party.id,
        };
        let (before, after) = (Pages(held[n]), Pages(after[n]));
        Change {
            id: party.id,
            before,
            after,
            hits_before: asked.ratio(before),
            hits_after: asked.ratio(after),
        }
    };
    Granted {
        changes: now.tenants.iter().enumerate().map(change).collect(),
        free_before: Pages(free(now, held)),
        free_after: Pages(free(now, after)),
    }
}
