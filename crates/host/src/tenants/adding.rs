//! Adds and removes tenants: one at a time, and none while a disk is being added.

use std::time::Duration;

use parking_lot::MutexGuard;
use sublet_client::messages::{AddTenant, ChangeLifetime, Limit};
use sublet_frontends::backend::Backend;
use sublet_store::{Borrowing, TenantError};
use sublet_types::{TenantId, TenantName, TenantSettings};

use super::error::TenantsError;
use super::registry::TenantRegistry;
use crate::config::{LiveChanges, TenantChange};
use crate::observe::events::{Actor, EventId, PostedEvent};

/// How long a caller that adds something waits for another caller that does.
const ADDING_MAX: Duration = Duration::from_secs(30);

/// The right to add a disk or a tenant, or to remove a tenant.
pub(crate) struct AddingGuard<'a> {
    tenants: &'a TenantRegistry,
    _turn: MutexGuard<'a, ()>,
}

impl TenantRegistry {
    /// Waits for the right to add a disk or a tenant, or to remove a tenant.
    pub(crate) fn lock_adding(&self) -> Result<AddingGuard<'_>, TenantsError> {
        let turn = self.adding.try_lock_for(ADDING_MAX);
        Ok(AddingGuard {
            tenants: self,
            _turn: turn.ok_or(TenantsError::AddingHangs)?,
        })
    }

    /// Adds a tenant for disks to come. If the tenant lasts, this writes it down. Then `look` runs for all that follow
    /// tenants.
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
        let adding = self.lock_adding()?;
        self.check_grants(&granted)?;
        let added = self.backend.store.add_tenant(granted);
        let id = added.map_err(|source| TenantsError::Store {
            name: name.clone(),
            source,
        })?;
        if asked.lasts == ChangeLifetime::Always {
            let change = added_with(asked);
            let next = |live: &LiveChanges| live.with_tenant(name.clone(), Some(change));
            if let Err(error) = self.live.persist(next) {
                adding.forget(id, look);
                return Err(error.into());
            }
        }
        self.set_eviction(id, asked.eviction);
        self.set_borrowing(id, asked.borrow.map(Borrowing::from));
        look();
        let added = PostedEvent::new(EventId::TenantAdded, asked.lasts.into());
        self.events.post(added.to_tenant(name).by(by));
        Ok(())
    }

    /// Removes a tenant that nobody uses. If the change lasts, this writes it down. `disks` says which disks the tenant
    /// has. `look` runs for all that follow tenants, before the number is another tenant's.
    pub(crate) fn remove(
        &self,
        name: &TenantName,
        (lasts, by): (ChangeLifetime, Actor),
        disks: impl FnOnce() -> Vec<String>,
        look: impl FnOnce(),
    ) -> Result<(), TenantsError> {
        let adding = self.lock_adding()?;
        let id = self.find(name)?.id;
        if let Some(by) = self.use_of(name, id, disks) {
            let name = name.clone();
            return Err(TenantsError::InUse { name, by });
        }
        if lasts == ChangeLifetime::Always {
            self.live
                .persist(|live| live.with_tenant(name.clone(), None))?;
        }
        adding.forget(id, look);
        let removed = PostedEvent::new(EventId::TenantRemoved, lasts.into());
        self.events.post(removed.to_tenant(name).by(by));
        Ok(())
    }

    /// What uses a tenant, if anything does.
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

impl AddingGuard<'_> {
    /// Makes a disk's tenant if there is none, and returns it. Earlier changes of a tenant of this name hold again.
    pub(crate) fn ensure_tenant(
        &self,
        name: &TenantName,
    ) -> Result<Option<TenantId>, TenantsError> {
        let change = self.tenants.live.current().change(name);
        let added = self.tenants.backend.store.add_tenant(TenantSettings {
            name: name.clone(),
            weight: change.weight.unwrap_or_default(),
            floor: change.floor.flatten(),
            ceiling: change.ceiling.flatten(),
        });
        match added {
            Ok(id) => {
                let borrowing = change.borrow.map(Borrowing::from);
                self.tenants.set_borrowing(id, borrowing);
                Ok(Some(id))
            }
            Err(TenantError::Exists) => Ok(None),
            Err(source) => Err(TenantsError::Store {
                name: name.clone(),
                source,
            }),
        }
    }

    /// Ends a tenant that was made for a disk, unless it has pools. Such pools are those of a disk that could not be
    /// ended.
    pub(crate) fn remove_unused(&self, id: TenantId, look: impl FnOnce()) {
        if self.tenants.backend.store.pools(id).is_empty() {
            self.forget(id, look);
        }
    }

    /// Ends a tenant. What followed it by its number has forgotten it before another tenant gets the number.
    fn forget(&self, id: TenantId, look: impl FnOnce()) {
        forget(&self.tenants.backend, id, look);
    }
}

/// Between the tenant's end and its number's next use, `look` runs for all that follow tenants.
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
        borrow: asked.borrow,
        listen: None,
    }
}
