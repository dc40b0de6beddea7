//! Memory that goes from one tenant to another: by targets, where a policy sets them, else by who gave way for whose put.

use std::collections::HashMap;

use sublet_policy::Decision;
use sublet_policy::explain::Explanation;
use sublet_policy::undone::Moves;
use sublet_store::TenantFigures;
use sublet_types::{Bytes, Pages, Second, TenantId};

/// What each tenant gives to others and gets of them by a change of targets. What goes to nobody or to the host, and what comes
/// from there, is in neither: where one side is larger, each of it counts for its part.
fn between_tenants(changes: &[Explanation]) -> Vec<(TenantId, Pages, Pages)> {
    let both = |change: &Explanation| Some((change.id, change.before?.0, change.after?.0));
    let changes: Vec<(TenantId, u64, u64)> = changes.iter().filter_map(both).collect();
    let lost = changes
        .iter()
        .map(|(_, before, after)| before.saturating_sub(*after));
    let gained = changes
        .iter()
        .map(|(_, before, after)| after.saturating_sub(*before));
    let (lost, gained): (u64, u64) = (lost.sum(), gained.sum());
    let moved = u128::from(lost.min(gained));
    let part = |of: u64, all: u64| match all {
        0 => Pages(0),
        all => Pages((u128::from(of) * moved / u128::from(all)) as u64),
    };
    let moves = changes.iter().map(|(tenant, before, after)| {
        let gave = part(before.saturating_sub(*after), lost);
        let got = part(after.saturating_sub(*before), gained);
        (*tenant, gave, got)
    });
    moves.collect()
}

/// Follows what tenants give to each other.
#[derive(Debug, Default)]
pub(super) struct Movements {
    moves: Moves,
    /// What each gave and got by the last look.
    before: HashMap<TenantId, (Bytes, Bytes)>,
}

impl Movements {
    /// Looks at what was moved since the last look, and at what a decision is going to move.
    pub(super) fn look(&mut self, tenants: &[TenantFigures], decision: &Decision, now: Second) {
        let by_targets = decision
            .targets
            .tenants
            .iter()
            .all(|target| target.pages.is_some());
        for (tenant, gave, got) in between_tenants(&decision.explanations)
            .into_iter()
            .filter(|_| by_targets)
        {
            self.moves.gave(tenant, gave, now);
            self.moves.got(tenant, got, now);
        }
        let mut seen = HashMap::new();
        for tenant in tenants {
            let sums = (tenant.gave, tenant.got);
            let (gave, got) = self.before.get(&tenant.id).copied().unwrap_or(sums);
            if !by_targets {
                self.moves
                    .gave(tenant.id, Pages::of(tenant.gave - gave), now);
                self.moves.got(tenant.id, Pages::of(tenant.got - got), now);
            }
            seen.insert(tenant.id, sums);
        }
        self.before = seen;
    }

    /// What was moved since the start, and what of that came back within ten minutes.
    pub(super) fn sums(&self) -> (Bytes, Bytes) {
        (self.moves.moved().bytes(), self.moves.undone().bytes())
    }
}

#[cfg(test)]
mod tests {
    use sublet_policy::explain::Reason;

    use super::*;

    fn change(id: u16, before: u64, after: u64) -> Explanation {
        Explanation {
            id: TenantId(id),
            before: Some(Pages(before)),
            after: Some(Pages(after)),
            reason: Reason::Unbound,
            bound: None,
        }
    }

    fn moves(changes: &[Explanation]) -> Vec<(u64, u64)> {
        let moves = between_tenants(changes).into_iter();
        moves.map(|(_, gave, got)| (gave.0, got.0)).collect()
    }

    #[test]
    fn what_goes_to_another_tenant_is_a_move() {
        let changes = [change(1, 100, 60), change(2, 50, 80), change(3, 50, 60)];
        assert_eq!(moves(&changes), [(40, 0), (0, 30), (0, 10)]);
    }

    #[test]
    fn what_goes_to_the_host_and_comes_back_is_none() {
        let shrunk = [change(1, 100, 60), change(2, 50, 30)];
        assert_eq!(moves(&shrunk), [(0, 0); 2]);
        let grown = [change(1, 60, 100), change(2, 30, 50)];
        assert_eq!(moves(&grown), [(0, 0); 2]);
        assert_eq!(moves(&[change(1, 7, 7)]), [(0, 0)]);
    }

    #[test]
    fn where_more_is_lost_than_gained_each_gave_its_part() {
        let changes = [change(1, 100, 70), change(2, 100, 90), change(3, 10, 30)];
        assert_eq!(moves(&changes), [(15, 0), (5, 0), (0, 20)]);
    }
}
