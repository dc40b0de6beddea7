//! The daemon's tenants, as its owner adds, changes and removes them.

use sublet_client::messages::{AddTenant, ChangeTenant, Lasts, TenantStatus, Tenants, VERSION};
use sublet_types::TenantName;

use super::Daemon;
use super::declined::Declined;
use crate::observe::events::Actor;

impl Daemon {
    /// All tenants.
    pub fn tenants(&self) -> Tenants {
        Tenants {
            version: VERSION,
            tenants: self.tenant_statuses(),
        }
    }

    /// One tenant.
    pub fn tenant(&self, name: &TenantName) -> Result<TenantStatus, Declined> {
        let figures = self.tenants.find(name)?;
        let service = self.tenants.service(figures.id);
        Ok(self.tenant_status(figures, service))
    }

    /// Changes a tenant, and writes the change down where it lasts.
    pub fn change_tenant(
        &self,
        name: &TenantName,
        change: &ChangeTenant,
        by: Actor,
    ) -> Result<TenantStatus, Declined> {
        self.tenants.change(name, change, by)?;
        self.tenant(name)
    }

    /// Adds a tenant for disks to come, and writes it down where it lasts.
    pub fn add_tenant(&self, asked: &AddTenant, by: Actor) -> Result<TenantStatus, Declined> {
        self.tenants.add(asked, by, || self.manager.look())?;
        self.tenant(&asked.name)
    }

    /// Removes a tenant that nobody uses, and writes that down where it lasts. Says who remains.
    pub fn remove_tenant(
        &self,
        name: &TenantName,
        lasts: Lasts,
        by: Actor,
    ) -> Result<Tenants, Declined> {
        let disks = || self.disks.disks_of(name);
        self.tenants
            .remove(name, (lasts, by), disks, || self.manager.look())?;
        Ok(self.tenants())
    }
}
