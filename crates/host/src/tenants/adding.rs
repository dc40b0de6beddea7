//! Tenants come and go: one at a time, and none while a disk is being added.

use std::time::Duration;

use parking_lot::MutexGuard;
use sublet_client::messages::{AddTenant, Lasts, Limit};
use sublet_frontends::backend::Backend;
use sublet_store::TenantError;
use sublet_types::{TenantId, TenantName, TenantSettings};

use super::error::TenantsError;
use super::registry::Tenants;
use crate::config::{Live, TenantChange};
use crate::observe::events::{Actor, Cause, EventId};

/// How long who adds something waits for who is adding something.
const ADDING_MAX: Duration = Duration::from_secs(30);

/// The turn to add a disk or a tenant, or to remove a tenant.
pub(crate) struct Adding<'a> {
    tenants: &'a Tenants,
    _turn: MutexGuard<'a, ()>,
}

impl Tenants {
    /// Takes the turn to add a disk or a tenant, or to remove a tenant.
    pub(crate) fn begin_adding(&self) -> Result<Adding<'_>, TenantsError> {
        let turn = self.adding.try_lock_for(ADDING_MAX);
        Ok(Adding {
            tenants: self,
            _turn: turn.ok_or(TenantsError::AddingHangs)?,
        })
    }

    /// Adds a tenant for disks to come, and writes it down where it lasts. All that follow tenants `look` then.
    pub(crate) fn add(
        &self,
        asked: &AddTenant,
        by: Actor,
        look: impl Fn(),
    ) -> Result<(), TenantsError> {
        let name = &asked.name;
        let granted = TenantSettings {
            name: name.clone(),
            weight: asked.weight.unwrap_or_default(),
            floor: asked.floor.and_then(Limit::amount),
            ceiling: asked.ceiling.and_then(Limit::amount),
        };
        let adding = self.begin_adding()?;
        self.check_grants(&granted)?;
        let added = self.backend.store.add_tenant(granted);
        let id = added.map_err(|source| TenantsError::Store {
            name: name.clone(),
            source,
        })?;
        if asked.lasts == Lasts::Always {
            let change = added_with(asked);
            let next = |live: &Live| live.with_tenant(name.clone(), Some(change));
            if let Err(error) = self.live.keep(next) {
                adding.forget(id, look);
                return Err(error.into());
            }
        }
        self.evict_by(id, asked.eviction);
        look();
        let added = Cause::new(EventId::TenantAdded, asked.lasts.into());
        self.events.post(added.to_tenant(name).by(by));
        Ok(())
    }

    /// Removes a tenant that nobody uses, and writes that down where it lasts. `disks` tells which disks it has; all that
    /// follow tenants `look` before its number is another's.
    pub(crate) fn remove(
        &self,
        name: &TenantName,
        (lasts, by): (Lasts, Actor),
        disks: impl FnOnce() -> Vec<String>,
        look: impl FnOnce(),
    ) -> Result<(), TenantsError> {
        let adding = self.begin_adding()?;
        let id = self.find(name)?.id;
        if let Some(by) = self.use_of(name, id, disks) {
            let name = name.clone();
            return Err(TenantsError::InUse { name, by });
        }
        if lasts == Lasts::Always {
            self.live
                .keep(|live| live.with_tenant(name.clone(), None))?;
        }
        adding.forget(id, look);
        let removed = Cause::new(EventId::TenantRemoved, lasts.into());
        self.events.post(removed.to_tenant(name).by(by));
        Ok(())
    }

    /// Who or what has a tenant, if anybody does.
    fn use_of(
        &self,
        name: &TenantName,
        id: TenantId,
        disks: impl FnOnce() -> Vec<String>,
    ) -> Option<String> {
        let service = self.service(id);
        if let Some(service) = service.filter(|service| !service.listen.is_empty()) {
            return Some(format!("it listens at {}", service.listen.join(" ")));
        }
        let disks = disks();
        if !disks.is_empty() {
            return Some(format!("it has disks: {}", disks.join(", ")));
        }
        let mut written = self.written.iter();
        if written.any(|tenant| tenant.settings.name == *name) {
            return Some("the config file names it".to_owned());
        }
        let pools = self.backend.store.pools(id).len();
        (pools > 0).then(|| format!("it has pools: {pools}"))
    }
}

impl Adding<'_> {
    /// Makes a disk's tenant where it is not there; says which. What was changed of one of this name before holds again.
    pub(crate) fn enter(&self, name: &TenantName) -> Result<Option<TenantId>, TenantsError> {
        let change = self.tenants.live.now().change(name);
        let added = self.tenants.backend.store.add_tenant(TenantSettings {
            name: name.clone(),
            weight: change.weight.unwrap_or_default(),
            floor: change.floor.flatten(),
            ceiling: change.ceiling.flatten(),
        });
        match added {
            Ok(id) => Ok(Some(id)),
            Err(TenantError::Exists) => Ok(None),
            Err(source) => Err(TenantsError::Store {
                name: name.clone(),
                source,
            }),
        }
    }

    /// Ends a tenant that was made for a disk, unless it has pools: those of a disk that could not be ended.
    pub(crate) fn take_back(&self, id: TenantId, look: impl FnOnce()) {
        if self.tenants.backend.store.pools(id).is_empty() {
            self.forget(id, look);
        }
    }

    /// Ends a tenant. Whoever followed it by its number has forgotten it when somebody else is given that.
    fn forget(&self, id: TenantId, look: impl FnOnce()) {
        forget(&self.tenants.backend, id, look);
    }
}

/// Between its end and its number's next use all that follow it `look`.
pub(super) fn forget(backend: &Backend, id: TenantId, look: impl FnOnce()) {
    backend.store.remove_tenant(id);
    look();
    backend.ledger.forget(id);
}

/// What is kept of a tenant that is added.
fn added_with(asked: &AddTenant) -> TenantChange {
    TenantChange {
        added: true,
        weight: asked.weight,
        floor: asked.floor.map(Limit::amount),
        ceiling: asked.ceiling.map(Limit::amount),
        eviction: asked.eviction,
        listen: None,
    }
}
