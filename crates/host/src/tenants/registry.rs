//! All tenants, with what serves each, and the lock for adding or removing one.

use std::sync::Arc;

use parking_lot::Mutex;
use sublet_frontends::backend::Backend;
use sublet_frontends::memcached::serve::Listener;
use sublet_frontends::ring::serve as ring;
use sublet_store::TenantFigures;
use sublet_types::{Bytes, TenantId, TenantName};

use super::error::TenantsError;
use super::rings::{self, RingsError};
use super::service::{self, Service, ServiceError};
use crate::config::{LoadedConfig, TenantConfig};
use crate::credential_report::CredentialReport;
use crate::live_changes_file::LiveChangesFile;
use crate::observe::events::{EventReason, Events};

/// All tenants. The store has what each is granted. This has what serves them, and what outlasts the daemon.
pub(crate) struct TenantRegistry {
    pub(super) backend: Backend,
    pub(super) events: Events,
    pub(super) live: LiveChangesFile,
    /// Services of the config's tenants, in its order.
    services: Vec<Service>,
    /// The tenants' settings without live changes.
    pub(super) written: Vec<TenantConfig>,
    /// The most that the arena ever holds.
    pub(super) arena: Option<Bytes>,
    /// Held while a disk or a tenant is added, so that a caller that made a disk's tenant may undo that.
    pub(super) adding: Mutex<()>,
}

impl TenantRegistry {
    /// Enters a config's tenants into the store, and makes what serves them at `places`.
    pub(crate) fn open(
        loaded: &LoadedConfig,
        live: &LiveChangesFile,
        places: &[Vec<Listener>],
        backend: &Backend,
        events: &Events,
    ) -> Result<TenantRegistry, ServiceError> {
        let (config, store) = (&loaded.config, &backend.store);
        let enter = |tenant| Ok((tenant, service::add_to_store(tenant, store)?));
        let numbered: Result<Vec<_>, ServiceError> = config.tenants.iter().map(enter).collect();
        let numbered = numbered?;
        service::allow_sharing(&numbered, store)?;
        let users = service::users(numbered.iter().copied());
        let each = numbered.into_iter().zip(places);
        let services = each.map(|((tenant, id), listeners)| {
            Service::open(tenant, id, listeners, store, &users, config, events)
        });
        let services: Vec<Service> = services.collect::<Result<_, _>>()?;
        let mut read = CredentialReport::new(events, EventReason::Start);
        services
            .iter()
            .for_each(|service| service.record_read(&mut read));
        Ok(TenantRegistry {
            services,
            backend: backend.clone(),
            events: events.clone(),
            live: live.clone(),
            written: loaded.written.tenants.clone(),
            arena: config.arena.ceiling,
            adding: Mutex::default(),
        })
    }

    /// Opens each ring with what its tenant's rings share. The services know of that, too.
    pub(crate) fn open_rings(
        &mut self,
        listeners: Vec<Vec<ring::Listener>>,
    ) -> Result<Vec<ring::GroupListener>, RingsError> {
        let mut group_listeners = Vec::new();
        for (service, listeners) in self.services.iter_mut().zip(listeners) {
            if !listeners.is_empty() {
                let group = rings::group(&service.said, service.id)?;
                service.rings = Some(Arc::clone(&group));
                let each = listeners.into_iter();
                group_listeners.extend(each.map(|listener| (Arc::clone(&group), listener)));
            }
        }
        Ok(group_listeners)
    }

    /// Live changes that outlast the daemon, of tenants and everything else.
    pub(crate) fn live(&self) -> &LiveChangesFile {
        &self.live
    }

    /// What serves the tenants of the config.
    pub(crate) fn services(&self) -> &[Service] {
        &self.services
    }

    /// A tenant's listeners and instance. A tenant that was made for a disk has none.
    pub(crate) fn service(&self, id: TenantId) -> Option<&Service> {
        self.services.iter().find(|service| service.id == id)
    }

    /// The tenant of that name.
    pub(crate) fn find(&self, name: &TenantName) -> Result<TenantFigures, TenantsError> {
        let store = &self.backend.store;
        let id = store.tenant(name);
        let id = id.ok_or_else(|| TenantsError::Unknown(name.clone()))?;
        Ok(store.tenant_figures(id))
    }

    /// Reads passwords and certificates again. Files that cannot be used change nothing.
    pub(crate) fn reload_credentials(&self, outcome: &mut CredentialReport) {
        let ids = self
            .services
            .iter()
            .map(|service| (&service.said, service.id));
        let users = service::users(ids);
        for service in &self.services {
            service.reload_credentials(&users, outcome);
        }
    }
}
