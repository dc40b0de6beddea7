//! The daemon's tenants, as its owner adds, changes and removes them.

use sublet_client::messages::{
    AddTenant, ChangeLifetime, ChangeTenant, TenantList, TenantStatus, VERSION,
};
use sublet_types::TenantName;

use super::Daemon;
use super::request_error::RequestError;
use crate::observe::events::Actor;

impl Daemon {
    /// All tenants.
    pub fn tenants(&self) -> TenantList {
        TenantList {
            version: VERSION,
            tenants: self.tenant_statuses(),
        }
    }

    /// One tenant.
    pub fn tenant(&self, name: &TenantName) -> Result<TenantStatus, RequestError> {
        let figures = self.tenants.find(name)?;
        let service = self.tenants.service(figures.id);
        Ok(self.tenant_status(figures, service))
    }

    /// Changes a tenant. If the change lasts, this writes it down.
    pub fn change_tenant(
        &self,
        name: &TenantName,
        change: &ChangeTenant,
        by: Actor,
    ) -> Result<TenantStatus, RequestError> {
        self.tenants.change(name, change, by)?;
        self.tenant(name)
    }

    /// Adds a tenant for disks to come. If the tenant lasts, this writes it down.
    pub fn add_tenant(&self, asked: &AddTenant, by: Actor) -> Result<TenantStatus, RequestError> {
        self.tenants.add(asked, by, || self.manager.decide_now())?;
        self.tenant(&asked.name)
    }

    /// Removes a tenant that nobody uses. If the change lasts, this writes it down. Returns the remaining tenants.
    pub fn remove_tenant(
        &self,
        name: &TenantName,
        lasts: ChangeLifetime,
        by: Actor,
    ) -> Result<TenantList, RequestError> {
        let disks = || self.disks.disks_of(name);
        self.tenants
            .remove(name, (lasts, by), disks, || self.manager.decide_now())?;
        Ok(self.tenants())
    }
}
