//! All tenants, with what serves each and whose turn it is to add or to remove one.

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
use crate::config::{Loaded, TenantConfig};
use crate::credentials::CredentialFiles;
use crate::live_changes::Changes;
use crate::observe::events::{Events, Why};

/// All tenants. The store holds what each is granted; here is what serves it, and what outlasts the daemon.
pub(crate) struct Tenants {
    pub(super) backend: Backend,
    pub(super) events: Events,
    pub(super) live: Changes,
    /// Those of the config, in its order.
    services: Vec<Service>,
    /// What holds of them without live changes.
    pub(super) written: Vec<TenantConfig>,
    /// The most that the arena ever holds.
    pub(super) arena: Option<Bytes>,
    /// Held while a disk or a tenant is added, so that who made a disk's tenant may undo that.
    pub(super) adding: Mutex<()>,
}

impl Tenants {
    /// Enters a config's tenants into the store and makes what serves them at `places`.
    pub(crate) fn open(
        loaded: &Loaded,
        live: &Changes,
        places: &[Vec<Listener>],
        backend: &Backend,
        events: &Events,
    ) -> Result<Tenants, ServiceError> {
        let (config, store) = (&loaded.config, &backend.store);
        let enter = |tenant| Ok((tenant, service::enter(tenant, store)?));
        let numbered: Result<Vec<_>, ServiceError> = config.tenants.iter().map(enter).collect();
        let numbered = numbered?;
        service::share(&numbered, store)?;
        let users = service::users(numbered.iter().copied());
        let each = numbered.into_iter().zip(places);
        let services = each.map(|((tenant, id), listeners)| {
            Service::open(tenant, id, listeners, store, &users, config, events)
        });
        let services: Vec<Service> = services.collect::<Result<_, _>>()?;
        let mut read = CredentialFiles::new(events, Why::Start);
        services
            .iter()
            .for_each(|service| service.note_read(&mut read));
        Ok(Tenants {
            services,
            backend: backend.clone(),
            events: events.clone(),
            live: live.clone(),
            written: loaded.written.tenants.clone(),
            arena: config.arena.ceiling,
            adding: Mutex::default(),
        })
    }

    /// Each ring with what its tenant's rings share; the services know of that, too.
    pub(crate) fn open_rings(
        &mut self,
        listeners: Vec<Vec<ring::Listener>>,
    ) -> Result<Vec<ring::Door>, RingsError> {
        let mut doors = Vec::new();
        for (service, listeners) in self.services.iter_mut().zip(listeners) {
            if !listeners.is_empty() {
                let group = rings::group(&service.said, service.id)?;
                service.rings = Some(Arc::clone(&group));
                let each = listeners.into_iter();
                doors.extend(each.map(|listener| (Arc::clone(&group), listener)));
            }
        }
        Ok(doors)
    }

    /// What is changed live and outlasts the daemon, of tenants and of all else.
    pub(crate) fn live(&self) -> &Changes {
        &self.live
    }

    /// What serves the tenants of the config.
    pub(crate) fn services(&self) -> &[Service] {
        &self.services
    }

    /// Its listeners and their instance. A tenant that was made for a disk has none.
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

    /// Reads passwords and certificates anew. What cannot be used changes nothing.
    pub(crate) fn reread(&self, outcome: &mut CredentialFiles) {
        let ids = self
            .services
            .iter()
            .map(|service| (&service.said, service.id));
        let users = service::users(ids);
        for service in &self.services {
            service.reread(&users, outcome);
        }
    }
}
