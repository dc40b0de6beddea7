//! A policy decides on each record of the last hour until it rests. The hits that this brings are read from the
//! record's curves.

use sublet_types::{Pages, Second, Snapshot, Target, TenantId, TenantSnapshot};

use super::age::{PoolMember, by_age};
use super::level::{WeightedBounds, level};
use super::{HistoryRecord, TenantRecord};
use crate::catalogue::PolicyChoice;
use crate::decide::Policy;

/// The most decisions on one record: a minute of them. If the policy has not come to rest by then, it goes on with the
/// next record.
const STEPS_MAX: u32 = 60;

/// The most tenants times decisions of a whole replay: some seconds of work.
const WORK_MAX: usize = 200_000;

/// How one tenant fared over all records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TenantReplay {
    /// The tenant.
    pub id: TenantId,
    /// What it held in the end.
    pub memory: Pages,
    /// Mean gets per second while it was measured.
    pub gets: f64,
    /// Those of the gets that hit by its curves. `None` if it was never measured.
    pub hits: Option<f64>,
}

impl TenantReplay {
    /// The part of its gets that hit, from 0 to 1.
    pub fn ratio(&self) -> Option<f64> {
        let hits = self.hits?;
        (self.gets > 0.0).then(|| hits / self.gets)
    }
}

/// A policy's replay, with its tenants in the last record's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyReplay {
    /// Each tenant that is still there.
    pub tenants: Vec<TenantReplay>,
    /// What nobody held in the end.
    pub free: Pages,
}

impl PolicyReplay {
    /// The part of all measured gets that hit, from 0 to 1.
    pub fn ratio(&self) -> Option<f64> {
        let measured = self.tenants.iter().filter(|tenant| tenant.hits.is_some());
        let gets: f64 = measured.clone().map(|tenant| tenant.gets).sum();
        let hits: f64 = measured.filter_map(|tenant| tenant.hits).sum();
        (gets > 0.0).then(|| hits / gets)
    }
}

/// Replays the records under a policy.
pub fn replay(records: &[HistoryRecord], choice: &PolicyChoice) -> PolicyReplay {
    let mut model = PolicyModel::new(choice);
    let Some(last) = records.last() else {
        return PolicyReplay::default();
    };
    let tenants: usize = records.iter().map(|record| record.tenants.len()).sum();
    let steps = (WORK_MAX / tenants.max(1)).clamp(1, STEPS_MAX as usize) as u32;
    let mut sums: Vec<TenantSums> = last
        .tenants
        .iter()
        .map(|party| TenantSums::new(party.id))
        .collect();
    let mut free = 0;
    for record in records {
        let memory = model.rest(record, steps);
        free = record.total.0.saturating_sub(memory.iter().sum());
        for (party, memory) in record.tenants.iter().zip(memory) {
            if let Some(sum) = sums.iter_mut().find(|sum| sum.id == party.id) {
                sum.add(party, memory);
            }
        }
    }
    PolicyReplay {
        tenants: sums.iter().map(TenantSums::settled).collect(),
        free: Pages(free),
    }
}

/// One tenant's sums over the records.
struct TenantSums {
    id: TenantId,
    /// What it held last.
    memory: u64,
    measured: f64,
    gets: f64,
    hits: f64,
}

impl TenantSums {
    fn new(id: TenantId) -> TenantSums {
        TenantSums {
            id,
            memory: 0,
            measured: 0.0,
            gets: 0.0,
            hits: 0.0,
        }
    }

    fn add(&mut self, party: &TenantRecord, memory: u64) {
        self.memory = memory;
        if let Some(hit_curve) = &party.hit_curve {
            self.measured += 1.0;
            self.gets += party.rates.gets;
            self.hits += hit_curve.hits(memory).min(party.rates.gets);
        }
    }

    fn settled(&self) -> TenantReplay {
        let measured = self.measured.max(1.0);
        TenantReplay {
            id: self.id,
            memory: Pages(self.memory),
            gets: self.gets / measured,
            hits: (self.measured > 0.0).then(|| self.hits / measured),
        }
    }
}

/// The least and the most that one tenant gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageBounds {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// A policy, and what it decided last.
pub(super) struct PolicyModel {
    policy: Box<dyn Policy>,
    targets: Vec<Target>,
    at: Second,
}

impl PolicyModel {
    pub(super) fn new(choice: &PolicyChoice) -> PolicyModel {
        PolicyModel {
            policy: choice.make(),
            targets: Vec::new(),
            at: Second(0),
        }
    }

    /// What everybody holds once the policy rests on a record, or after `steps` decisions.
    fn rest(&mut self, record: &HistoryRecord, steps: u32) -> Vec<u64> {
        let mut memory: Vec<u64> = record.tenants.iter().map(|party| party.held.0).collect();
        for _ in 0..steps {
            let before = self.targets.clone();
            self.decide(record, &memory);
            let settled = self.settle(record);
            if settled == memory && before == self.targets {
                break;
            }
            memory = settled;
        }
        memory
    }

    /// What the policy would allow everybody if a tenant had exactly this.
    pub(super) fn targets_with(
        &mut self,
        record: &HistoryRecord,
        id: TenantId,
        memory: Pages,
    ) -> Vec<Option<Pages>> {
        let mut pinned = record.clone();
        for party in pinned.tenants.iter_mut().filter(|party| party.id == id) {
            (party.floor, party.ceiling) = (memory, Some(memory));
        }
        self.rest(&pinned, STEPS_MAX);
        self.targets.iter().map(|target| target.pages).collect()
    }

    fn decide(&mut self, record: &HistoryRecord, memory: &[u64]) {
        self.at = Second(self.at.0.max(record.at.0).saturating_add(1));
        let tenants = record.tenants.iter().zip(memory);
        let tenants = tenants.map(|(party, memory)| self.tenant(party, *memory));
        let snapshot = Snapshot {
            at: self.at,
            total: record.total,
            free: Pages(record.total.0.saturating_sub(memory.iter().sum())),
            tenants: tenants.collect(),
        };
        let decision = self.policy.decide(&snapshot);
        self.targets = decision.targets.tenants;
    }

    fn target(&self, id: TenantId) -> Option<Target> {
        self.targets.iter().find(|target| target.id == id).copied()
    }

    /// Lets everybody fill what it may hold, as far as it wants.
    fn settle(&self, record: &HistoryRecord) -> Vec<u64> {
        let bounds = |party: &TenantRecord| {
            let target = self.target(party.id);
            let may = target.and_then(|target| target.pages);
            let most = party.wants().min(may.unwrap_or(Pages(u64::MAX))).0;
            PageBounds {
                least: party.floor.0.min(most),
                most,
            }
        };
        let bounds: Vec<PageBounds> = record.tenants.iter().map(bounds).collect();
        self.divide(record, record.total.0, &bounds)
    }

    /// What each gets of an amount that is too little for all. It is divided by weight, as the store does it, or by age
    /// if the policy has made one pool of all memory.
    pub(super) fn divide(
        &self,
        record: &HistoryRecord,
        total: u64,
        bounds: &[PageBounds],
    ) -> Vec<u64> {
        let tenants = record.tenants.iter().zip(bounds);
        let pooled = |id: TenantId| {
            let target = self.target(id)?;
            Some((target.guard?, target.giving))
        };
        if !record
            .tenants
            .iter()
            .any(|party| pooled(party.id).is_some())
        {
            let bounds = |(party, bounds): (&TenantRecord, &PageBounds)| WeightedBounds {
                weight: party.weight.0,
                least: bounds.least,
                most: bounds.most,
            };
            return level(total, &tenants.map(bounds).collect::<Vec<_>>());
        }
        let streams = tenants.map(|(party, bounds)| {
            let (kept, giving) = pooled(party.id).unwrap_or_default();
            PoolMember {
                hit_curve: party.hit_curve.as_ref(),
                gets: party.rates.gets,
                puts: party.rates.puts,
                least: kept.0.max(bounds.least).min(bounds.most),
                most: bounds.most,
                giving,
            }
        });
        by_age(total, &streams.collect::<Vec<_>>())
    }

    /// A tenant as the policy would have seen it. Its puts lack room if it wants more than it has.
    fn tenant(&self, party: &TenantRecord, memory: u64) -> TenantSnapshot {
        let count = |rate: f64| if rate < 1e-3 { 0 } else { rate.ceil() as u64 };
        let puts = count(party.rates.puts);
        let lacks = party.wants().0 > memory;
        TenantSnapshot {
            id: party.id,
            weight: party.weight,
            floor: (party.floor.0 > 0).then_some(party.floor),
            ceiling: party.ceiling,
            held: Pages(memory),
            used: party.used.min(Pages(memory)),
            target: self.target(party.id).and_then(|target| target.pages),
            puts,
            puts_succeeded: if lacks { 0 } else { puts },
            puts_ever: party.puts_ever,
            puts_failed_ever: 0,
            gets: count(party.rates.gets),
            hits: count(party.rates.hits),
            flushes: 0,
            shared: party.shared,
            curve: party.hit_curve.as_ref().map(|hit_curve| hit_curve.curve()),
        }
    }
}
