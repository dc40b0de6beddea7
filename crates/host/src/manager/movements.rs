//! Memory that goes from one tenant to another: by targets, where a policy sets them, else by who gave way for whose put.

use std::collections::HashMap;

use sublet_policy::Decision;
use sublet_policy::undone::Moves;
use sublet_store::TenantFigures;
use sublet_types::{Bytes, Pages, Second, TenantId};

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
        for change in decision.explanations.iter().filter(|_| by_targets) {
            if let (Some(before), Some(after)) = (change.before, change.after) {
                self.moves
                    .gave(change.id, Pages(before.0.saturating_sub(after.0)), now);
                self.moves
                    .got(change.id, Pages(after.0.saturating_sub(before.0)), now);
            }
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
