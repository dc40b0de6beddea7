//! Chooses which changes of targets are reported: those of at least a block, added up since the tenant's last report,
//! and those of when a tenant gives way.

use std::collections::HashMap;

use sublet_policy::Decision;
use sublet_policy::explain::Explanation;
use sublet_policy::transfers::{MemoryHoldings, MemoryTransfer, MemoryTransfers};
use sublet_types::{BLOCK_BYTES, GiveWayOrder, PAGE_BYTES, Pages, TenantId};

/// Memory moves in no smaller unit.
const BLOCK: u64 = BLOCK_BYTES / PAGE_BYTES;

/// What was last reported of each tenant.
#[derive(Debug, Default)]
pub(super) struct TargetReporter {
    tenants: HashMap<TenantId, ReportedTarget>,
    /// All targets and what they left over, at the last report of a change.
    all: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ReportedTarget {
    target: Option<Pages>,
    giving: GiveWayOrder,
}

impl ReportedTarget {
    fn is_worth_reporting(&self, now: &ReportedTarget) -> bool {
        let is_other = match (self.target, now.target) {
            (Some(before), Some(after)) => before.0.abs_diff(after.0) >= BLOCK,
            (before, after) => before != after,
        };
        is_other || self.giving != now.giving
    }
}

impl TargetReporter {
    /// The changes of a decision to report, with the total at the tenant's last report. Each says where memory went
    /// that a tenant may hold less, or where memory came from that it may hold more.
    pub(super) fn changes(
        &mut self,
        decision: &Decision,
    ) -> Vec<(Explanation, Vec<MemoryTransfer<TenantId>>)> {
        let mut kept = HashMap::new();
        let mut since = Vec::new();
        for (one, target) in decision.explanations.iter().zip(&decision.targets.tenants) {
            let now = ReportedTarget {
                target: one.after,
                giving: target.giving,
            };
            let first = ReportedTarget {
                target: one.before,
                giving: GiveWayOrder::ByAge,
            };
            let last = self.tenants.get(&one.id).copied().unwrap_or(first);
            let is_told = last.is_worth_reporting(&now);
            kept.insert(one.id, if is_told { now } else { last });
            let before = last.target;
            since.push((Explanation { before, ..*one }, is_told));
        }
        self.tenants = kept;
        if !since.iter().any(|(_, is_told)| *is_told) {
            return Vec::new();
        }
        let moves = self.moves(since.iter().map(|(one, _)| one), decision);
        let told = since.iter().filter(|(_, is_told)| *is_told);
        told.map(|(one, _)| (*one, part(one, &moves))).collect()
    }

    /// What changes of targets move from which tenant to which. Empty if some tenant had no target before, or has none
    /// from now on.
    fn moves<'a>(
        &mut self,
        since: impl Iterator<Item = &'a Explanation> + Clone,
        decision: &Decision,
    ) -> MemoryTransfers {
        let targets = |pages: fn(&Explanation) -> Option<Pages>| -> Option<Vec<(TenantId, Pages)>> {
            since
                .clone()
                .map(|one| Some((one.id, pages(one)?)))
                .collect()
        };
        let sum = |targets: &[(TenantId, Pages)]| targets.iter().map(|one| one.1.0).sum::<u64>();
        let (Some(before), Some(after)) = (targets(|one| one.before), targets(|one| one.after))
        else {
            self.all = None;
            return MemoryTransfers::default();
        };
        let all = sum(&after) + decision.targets.unassigned.0;
        let were = self.all.replace(all).unwrap_or(all);
        let standing = |tenants: Vec<(TenantId, Pages)>, all: u64| MemoryHoldings {
            free: Pages(all.saturating_sub(sum(&tenants))),
            over: Pages(0),
            tenants,
        };
        MemoryTransfers::between(&standing(before, were), &standing(after, all))
    }
}

/// One tenant's part of the moves.
fn part(change: &Explanation, moves: &MemoryTransfers) -> Vec<MemoryTransfer<TenantId>> {
    let (before, after) = (
        change.before.unwrap_or_default(),
        change.after.unwrap_or_default(),
    );
    let amount = Pages(before.0.abs_diff(after.0));
    match change.is_less() {
        true => moves.of_loss(amount),
        false => moves.of_gain(amount),
    }
}

#[cfg(test)]
mod tests {
    use sublet_policy::explain::Reason;
    use sublet_policy::transfers::Holder;
    use sublet_types::{Target, Targets};

    use super::*;

    /// A decision that gives each of two tenants this much of 10,000 pages. The first may give first.
    fn decision(targets: [u64; 2], giving: GiveWayOrder) -> Decision {
        let mut decision = Decision::default();
        for (n, pages) in (1..).zip(targets) {
            decision.explanations.push(Explanation {
                id: TenantId(n),
                before: None,
                after: Some(Pages(pages)),
                reason: Reason::Unbound,
                bound: None,
            });
            decision.targets.tenants.push(Target {
                id: TenantId(n),
                pages: Some(Pages(pages)),
                wanted: Pages(0),
                guard: None,
                giving: if n == 1 { giving } else { GiveWayOrder::ByAge },
            });
        }
        let unassigned = Pages(10_000 - targets[0] - targets[1]);
        Decision {
            targets: Targets {
                unassigned,
                ..decision.targets
            },
            ..decision
        }
    }

    /// Which tenants' changes are reported, from what to what.
    fn told(told: &mut TargetReporter, decision: &Decision) -> Vec<(u16, Option<u64>, u64)> {
        let changes = told.changes(decision).into_iter();
        let plain = |(one, _): (Explanation, Vec<MemoryTransfer<TenantId>>)| {
            let after = one.after.unwrap_or_default();
            (one.id.0, one.before.map(|pages| pages.0), after.0)
        };
        changes.map(plain).collect()
    }

    #[test]
    fn small_changes_are_told_when_they_have_added_up_to_a_block() {
        let mut log = TargetReporter::default();
        let by_age = GiveWayOrder::ByAge;
        let first = told(&mut log, &decision([4000, 6000], by_age));
        assert_eq!(first, [(1, None, 4000), (2, None, 6000)]);
        for step in 1..6 {
            let small = decision([4000 - step * 100, 6000 + step * 100], by_age);
            assert_eq!(told(&mut log, &small), []);
        }
        let sixth = decision([3400, 6500], by_age);
        assert_eq!(told(&mut log, &sixth), [(1, Some(4000), 3400)]);
        assert_eq!(told(&mut log, &sixth), []);
        let both = log.changes(&decision([2400, 7500], by_age));
        let moved = |pages| MemoryTransfer {
            place: Holder::Tenant(TenantId(2)),
            pages: Pages(pages),
        };
        assert_eq!(both[0].1, [moved(1000)]);
        assert_eq!(both[1].0.before, Some(Pages(6000)));
    }

    #[test]
    fn when_a_tenant_gives_way_is_told_without_a_change_of_targets() {
        let mut log = TargetReporter::default();
        let pages = [4000, 6000];
        log.changes(&decision(pages, GiveWayOrder::ByAge));
        let first = told(&mut log, &decision(pages, GiveWayOrder::First));
        assert_eq!(first, [(1, Some(4000), 4000)]);
        assert_eq!(told(&mut log, &decision(pages, GiveWayOrder::First)), []);
        let again = told(&mut log, &decision(pages, GiveWayOrder::ByAge));
        assert_eq!(again, [(1, Some(4000), 4000)]);
    }
}
