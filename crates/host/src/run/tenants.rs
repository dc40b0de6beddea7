//! Tenants that their owner adds and removes.

use sublet_client::messages::{AddTenant, Lasts, Limit, TenantStatus, Tenants};
use sublet_types::{TenantId, TenantName, TenantSettings};

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
        let store = &self.premises.store;
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
                listen: None,
            };
            let next = |live: &Live| live.with_tenant(name.clone(), Some(change));
            let kept = self.live.keep(next);
            if let Err(error) = kept {
                self.forget_tenant(id);
                return Err(error.into());
            }
        }
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

    /// Ends a tenant. Whoever followed it by its number has forgotten it when somebody else is given that.
    pub(super) fn forget_tenant(&self, id: TenantId) {
        self.premises.store.remove_tenant(id);
        self.manager.look();
        self.premises.ledger.forget(id);
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
        let pools = self.premises.store.pools(id).len();
        (pools > 0).then(|| format!("it has pools: {pools}"))
    }
}
