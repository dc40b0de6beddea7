//! What a tenant is granted. The daemon checks it before it changes anything, and writes it down if it lasts.

use std::fmt::Display;

use sublet_client::messages::{ChangeLifetime, ChangeTenant, Limit};
use sublet_store::{Borrowing, SavedGrants, SavedLimits, TenantError, TenantFigures};
use sublet_types::{Bytes, EvictionKind, TenantId, TenantName, TenantSettings};

use super::error::TenantsError;
use super::registry::TenantRegistry;
use crate::config::{TenantChange, WEIGHT_MAX};
use crate::live_changes_file::ChangeGuard;
use crate::observe::events::{Actor, EventId, PostedEvent};

impl TenantRegistry {
    /// Changes what a tenant is granted. If the change lasts, this writes it down.
    pub(crate) fn change(
        &self,
        name: &TenantName,
        change: &ChangeTenant,
        by: Actor,
    ) -> Result<(), TenantsError> {
        let turn = self.live.lock()?;
        let TenantFigures { id, settings, .. } = self.find(name)?;
        let after = changed(settings, change);
        self.check_grants(&after)?;
        let store = &self.backend.store;
        let refused = |source| TenantsError::Store {
            name: name.clone(),
            source,
        };
        // What is over a lower ceiling is evicted at once, and no refusal would bring it back.
        store.check_tenant(id, &after).map_err(refused)?;
        if change.lasts == ChangeLifetime::Always {
            self.persist(&turn, name, change)?;
        }
        store.set_tenant(id, after.clone()).map_err(refused)?;
        self.set_eviction(id, change.eviction);
        self.set_borrowing(id, change.borrow.map(Borrowing::from));
        if let Some(service) = self.service(id) {
            service.allowed.set(after.ceiling.or(self.arena));
        }
        let changed = PostedEvent::new(EventId::TenantChanged, change.lasts.into()).to_tenant(name);
        let said = |limit: Option<Bytes>| limit.map_or("none".to_owned(), |all| all.to_string());
        self.events.post(changed.by(by).saying(format_args!(
            "weight {}, floor {}, ceiling {}, eviction {}, borrow {}",
            after.weight.0,
            said(after.floor),
            said(after.ceiling),
            store.eviction(id),
            store.borrowing(id).is_allowed()
        )));
        // Changes are reported in the order in which they hold.
        drop(turn);
        Ok(())
    }

    /// Checks that a config could grant it.
    pub(super) fn check_grants(&self, granted: &TenantSettings) -> Result<(), TenantsError> {
        if !(1..=WEIGHT_MAX).contains(&granted.weight.0) {
            return Err(TenantsError::Weight);
        }
        let floor = granted.floor.filter(|floor| *floor > Bytes::ZERO);
        for (limit, amount) in [("floor", floor), ("ceiling", granted.ceiling)] {
            let amount = amount.map_or(Ok(Bytes::ZERO), Bytes::of_a_block_or_more);
            amount.map_err(|source| TenantsError::BelowBlock {
                name: granted.name.clone(),
                limit,
                source,
            })?;
        }
        let arena = self.arena.unwrap_or(Bytes(u64::MAX));
        let Some(floor) = granted.floor else {
            return Ok(());
        };
        if floor > arena {
            return Err(TenantsError::Floor { arena });
        }
        let tenants = self.backend.store.all_settings().into_iter();
        let others = tenants.filter(|(_, settings)| settings.name != granted.name);
        let floors: Bytes = others.filter_map(|(_, settings)| settings.floor).sum();
        let together = floors + floor;
        match together > arena {
            true => Err(TenantsError::Floors { together, arena }),
            false => Ok(()),
        }
    }

    /// Writes a change down, if the daemon could start with it again.
    fn persist(
        &self,
        turn: &ChangeGuard<'_>,
        name: &TenantName,
        change: &ChangeTenant,
    ) -> Result<(), TenantsError> {
        let change = persisted_change(change);
        let mut all = self.live.current().change(name);
        all.merge(&change);
        let mut written = self.written.iter();
        let written = written.find(|tenant| tenant.settings.name == *name);
        let written = written.map(|tenant| &tenant.settings);
        let or_written = |kept: Option<Option<Bytes>>,
                          said: fn(&TenantSettings) -> Option<Bytes>| {
            kept.unwrap_or_else(|| written.and_then(said))
        };
        let floor = or_written(all.floor, |said| said.floor);
        let ceiling = or_written(all.ceiling, |said| said.ceiling);
        let both = floor.zip(ceiling);
        if both.is_some_and(|(floor, ceiling)| floor > ceiling) {
            return Err(TenantsError::Store {
                name: name.clone(),
                source: TenantError::FloorAboveCeiling,
            });
        }
        Ok(turn.persist(|live| live.with_change(name.clone(), &change))?)
    }

    /// Gives a tenant's pages another eviction, if one is given.
    pub(super) fn set_eviction(&self, id: TenantId, eviction: Option<EvictionKind>) {
        let (store, now) = (&self.backend.store, self.backend.clock.now());
        if let Some(kind) = eviction.filter(|kind| *kind != store.eviction(id)) {
            store.set_eviction(id, kind, now);
        }
    }

    /// Lets a tenant's pages go to lenders, or keeps them here, if either is said.
    pub(super) fn set_borrowing(&self, id: TenantId, borrowing: Option<Borrowing>) {
        let store = &self.backend.store;
        if let Some(borrowing) = borrowing.filter(|said| *said != store.borrowing(id)) {
            store.set_borrowing(id, borrowing);
        }
    }

    /// Does some work while a tenant is granted something, and keeps the grants if the work succeeds. Otherwise the
    /// tenant has what it had before, unless its owner gave it something else meanwhile. Work whose grants cannot be
    /// kept is undone.
    pub(crate) fn while_granted<T, E: From<TenantsError> + Display>(
        &self,
        name: &TenantName,
        grants: Option<SavedGrants>,
        by: Actor,
        work: impl FnOnce() -> Result<T, E>,
        undo: impl FnOnce(T),
    ) -> Result<T, E> {
        let Some(grants) = grants else {
            return work();
        };
        let id = self.find(name)?.id;
        let before = self.grants_of(id);
        // What is not given stays.
        let limits = grants.limits.or(before.limits);
        let grants = SavedGrants {
            limits,
            gone: None,
            ..grants
        };
        self.grant(name, grants, ChangeLifetime::UntilRestart, by)?;
        let done = work().and_then(|done| {
            let kept = self.grant(name, grants, ChangeLifetime::Always, by);
            match kept {
                Ok(()) => Ok(done),
                Err(error) => {
                    undo(done);
                    Err(error.into())
                }
            }
        });
        if done.is_err()
            && self.grants_of(id) == grants
            && let Err(error) = self.grant(name, before, ChangeLifetime::UntilRestart, by)
        {
            tracing::warn!(tenant = %name, %error, "the tenant was not restored, but keeps what the save file grants it; `sublet tenants set` changes that");
        }
        done
    }

    pub(super) fn grants_of(&self, id: TenantId) -> SavedGrants {
        let settings = self.backend.store.tenant_figures(id).settings;
        let limits = SavedLimits {
            weight: settings.weight,
            floor: settings.floor,
            ceiling: settings.ceiling,
        };
        SavedGrants {
            gone: None,
            eviction: self.backend.store.eviction(id),
            limits: Some(limits),
        }
    }

    /// Grants a tenant something, as its owner would.
    fn grant(
        &self,
        name: &TenantName,
        grants: SavedGrants,
        lasts: ChangeLifetime,
        by: Actor,
    ) -> Result<(), TenantsError> {
        let limit = |amount: Option<Bytes>| amount.map_or(Limit::None, Limit::Of);
        let change = ChangeTenant {
            weight: grants.limits.map(|limits| limits.weight),
            floor: grants.limits.map(|limits| limit(limits.floor)),
            ceiling: grants.limits.map(|limits| limit(limits.ceiling)),
            eviction: Some(grants.eviction),
            borrow: None,
            lasts,
        };
        self.change(name, &change, by)
    }
}

/// A tenant's settings with a change.
fn changed(before: TenantSettings, change: &ChangeTenant) -> TenantSettings {
    TenantSettings {
        weight: change.weight.unwrap_or(before.weight),
        floor: change.floor.map_or(before.floor, Limit::amount),
        ceiling: change.ceiling.map_or(before.ceiling, Limit::amount),
        name: before.name,
    }
}

/// What is kept of a change.
fn persisted_change(change: &ChangeTenant) -> TenantChange {
    TenantChange {
        added: false,
        weight: change.weight,
        floor: change.floor.map(Limit::amount),
        ceiling: change.ceiling.map(Limit::amount),
        eviction: change.eviction,
        borrow: change.borrow,
        listen: None,
    }
}
