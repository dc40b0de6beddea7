//! Which tenants are active: those that put or got lately.

use std::collections::BTreeMap;

use sublet_types::{Second, Snapshot, TenantId, TenantSnapshot};

use crate::apportion::{WeightedClaim, apportion};

/// When each tenant last put or got.
#[derive(Clone, Debug)]
pub(crate) struct ActivityTracker {
    idle_secs: u32,
    at: BTreeMap<TenantId, Second>,
}

impl ActivityTracker {
    /// A tenant counts as idle if it neither put nor got for longer than `idle_secs`.
    pub(crate) fn within(idle_secs: u32) -> ActivityTracker {
        ActivityTracker {
            idle_secs,
            at: BTreeMap::new(),
        }
    }

    /// Remembers when each tenant last put or got. What a tenant did before it was first seen is not known. One that
    /// has put at all counts as active at that moment.
    pub(crate) fn notice(&mut self, snapshot: &Snapshot) {
        let seen = |tenant: &TenantSnapshot| {
            let is_active = tenant.puts > 0 || tenant.gets > 0;
            let before = self.at.get(&tenant.id).copied();
            let at = match before {
                Some(before) if !is_active => before,
                None if !is_active && tenant.puts_ever == 0 => return None,
                _ => snapshot.at,
            };
            Some((tenant.id, at))
        };
        self.at = snapshot.tenants.iter().filter_map(seen).collect();
    }

    /// For how many seconds a tenant neither put nor got. `None` if it never did.
    pub(crate) fn idle_for(&self, tenant: &TenantSnapshot, now: Second) -> Option<u32> {
        let at = self.at.get(&tenant.id)?;
        Some(now.0.saturating_sub(at.0))
    }

    pub(crate) fn is_active(&self, tenant: &TenantSnapshot, now: Second) -> bool {
        self.idle_for(tenant, now)
            .is_some_and(|secs| secs <= self.idle_secs)
    }

    /// Each tenant's claim: its weight while it is active.
    pub(crate) fn claims(&self, snapshot: &Snapshot) -> Vec<WeightedClaim> {
        let claim = |tenant: &TenantSnapshot| {
            let is_active = self.is_active(tenant, snapshot.at);
            let weight = if is_active { tenant.weight.0 } else { 0 };
            WeightedClaim {
                id: tenant.id,
                weight: u64::from(weight),
            }
        };
        snapshot.tenants.iter().map(claim).collect()
    }

    /// Each tenant's weighted share among the active.
    pub(crate) fn shares(&self, snapshot: &Snapshot) -> Vec<u64> {
        apportion(snapshot.total.0, &self.claims(snapshot))
    }
}
