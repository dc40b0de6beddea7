//! Tenants that their owner adds and removes.

use sublet_client::messages::{AddTenant, Lasts, Limit, TenantStatus, Tenants};
use sublet_frontends::backend::Backend;
use sublet_types::{EvictionKind, TenantId, TenantName, TenantSettings};

use super::daemon::{Daemon, Declined};
use crate::config::{Live, TenantChange};

impl Daemon {
    /// Adds a tenant for disks to come, and writes it down where it lasts.
    pub fn add_tenant(&self, asked: &AddTenant) -> Result<TenantStatus, Declined> {
        let name = &asked.name;
        let granted = TenantSettings {
            name: name.clone(),
            weight: asked.weight.unwrap_or_default(),
            floor: asked.floor.and_then(Limit::amount),
            ceiling: asked.ceiling.and_then(Limit::amount),
        };
        let _adding = self.shelf.begin_adding()?;
        self.check_grants(&granted)?;
        let store = &self.backend.store;
        let refused = |source| Declined::Change {
            name: name.clone(),
            source,
        };
        let id = store.add_tenant(granted).map_err(refused)?;
        if asked.lasts == Lasts::Always {
            let change = TenantChange {
                added: true,
                weight: asked.weight,
                floor: asked.floor.map(Limit::amount),
                ceiling: asked.ceiling.map(Limit::amount),
                eviction: asked.eviction,
                listen: None,
            };
            let next = |live: &Live| live.with_tenant(name.clone(), Some(change));
            let kept = self.live.keep(next);
            if let Err(error) = kept {
                self.forget_tenant(id);
                return Err(error.into());
            }
        }
        self.evict_by(id, asked.eviction);
        self.manager.look();
        tracing::info!(tenant = %name, "tenant added by its owner");
        self.tenant(name)
    }

    /// Removes a tenant that nobody uses, and writes that down where it lasts. Says who remains.
    pub fn remove_tenant(&self, name: &TenantName, lasts: Lasts) -> Result<Tenants, Declined> {
        let _adding = self.shelf.begin_adding()?;
        let id = self.find(name)?.id;
        if let Some(by) = self.use_of(name, id) {
            let name = name.clone();
            return Err(Declined::TenantInUse { name, by });
        }
        if lasts == Lasts::Always {
            self.live
                .keep(|live| live.with_tenant(name.clone(), None))?;
        }
        self.forget_tenant(id);
        tracing::info!(tenant = %name, "tenant removed by its owner");
        Ok(self.tenants())
    }

    /// Gives a tenant's pages another eviction, if one is said.
    pub(super) fn evict_by(&self, id: TenantId, eviction: Option<EvictionKind>) {
        let (store, now) = (&self.backend.store, self.backend.clock.now());
        if let Some(kind) = eviction.filter(|kind| *kind != store.eviction(id)) {
            store.set_eviction(id, kind, now);
        }
    }

    /// Ends a tenant. Whoever followed it by its number has forgotten it when somebody else is given that.
    pub(super) fn forget_tenant(&self, id: TenantId) {
        forget(&self.backend, id, || self.manager.look());
    }

    /// Who or what has a tenant, if anybody does.
    fn use_of(&self, name: &TenantName, id: TenantId) -> Option<String> {
        let service = self
            .service(id)
            .filter(|service| !service.listen.is_empty());
        if let Some(service) = service {
            return Some(format!("it listens at {}", service.listen.join(" ")));
        }
        let disks = self.shelf.disks_of(name);
        if !disks.is_empty() {
            return Some(format!("it has disks: {}", disks.join(", ")));
        }
        let mut written = self.written.tenants.iter();
        if written.any(|tenant| tenant.settings.name == *name) {
            return Some("the config file names it".to_owned());
        }
        let pools = self.backend.store.pools(id).len();
        (pools > 0).then(|| format!("it has pools: {pools}"))
    }
}

/// Between its end and its number's next use all that follow it `look`.
fn forget(backend: &Backend, id: TenantId, look: impl FnOnce()) {
    backend.store.remove_tenant(id);
    look();
    backend.ledger.forget(id);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sublet_frontends::tenancy::{Clock, Doorman, Ledger};
    use sublet_store::{PageSettings, Store, StoreSettings};
    use sublet_types::{Bytes, Weight};

    use super::*;

    fn backend() -> Backend {
        let store = Store::new(StoreSettings {
            capacity: Bytes::mib(16),
            limit: Bytes::mib(16),
            item_max: Bytes::mib(1),
            seed: 5,
            evicts: true,
            pages: PageSettings::default(),
        });
        Backend {
            store: store.expect("a store"),
            clock: Clock::start(),
            ledger: Arc::new(Ledger::default()),
        }
    }

    fn add(backend: &Backend, name: &str) -> TenantId {
        let settings = TenantSettings {
            name: name.parse().expect("a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        };
        backend.store.add_tenant(settings).expect("a place")
    }

    #[test]
    fn what_a_removed_tenant_counted_is_not_the_next_ones() {
        let backend = backend();
        let doorman = Doorman::new(&backend.store, backend.clock, &backend.ledger);
        let doorman = doorman.expect("a worker");
        let gets = |id| backend.ledger.total(id).cmd_get.get();
        let first = add(&backend, "first");
        doorman.open(first).counters().cmd_get.add(7);
        assert_eq!(gets(first), 7);
        forget(&backend, first, || assert_eq!(gets(first), 7));
        assert_eq!(gets(first), 0);
        // Another is given its number once nobody can have a hold of it.
        let later = |n| add(&backend, &format!("t{n}"));
        assert!((0..64).map(later).all(|id| gets(id) == 0));
    }
}
