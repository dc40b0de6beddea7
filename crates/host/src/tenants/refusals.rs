//! Clients that tenants' listeners refuse.

use std::sync::Arc;

use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::ring::serve::Group;

use super::service::Service;
use crate::observe::events::{Events, Object, Why};
use crate::refused::Told;

/// Follows who is refused by each tenant's listeners.
pub(crate) struct Refusals {
    events: Events,
    tenants: Vec<Followed>,
}

/// A tenant's listeners, and what was told of them.
struct Followed {
    tenant: Object,
    instance: Arc<Instance>,
    rings: Option<Arc<Group>>,
    told: Told,
}

impl Refusals {
    /// Of these tenants, told as `events`.
    pub(crate) fn of(services: &[Service], events: &Events) -> Refusals {
        let followed = |service: &Service| Followed {
            tenant: Object::Tenant(service.name.clone()),
            instance: Arc::clone(&service.instance),
            rings: service.rings.clone(),
            told: Told::default(),
        };
        Refusals {
            events: events.clone(),
            tenants: services.iter().map(followed).collect(),
        }
    }

    /// Tells who was refused since the last time.
    pub(crate) fn tell(&mut self) {
        for tenant in &mut self.tenants {
            let refused = tenant.refused();
            let object = || tenant.tenant.clone();
            tenant.told.tell(&refused, object, &self.events);
        }
    }
}

impl Followed {
    /// Connections that were refused since the start, by reason.
    fn refused(&self) -> [(Why, u64); 4] {
        let figures = &self.instance.figures;
        let mut full = figures.rejected_connections.get();
        let mut exhausted = figures.listen_disabled.get();
        let mut uid = 0;
        if let Some(rings) = &self.rings {
            full += rings.figures.refused_full.get();
            uid += rings.figures.refused_uid.get();
            exhausted += rings.figures.refused_exhausted.get();
        }
        [
            (Why::Full, full),
            (Why::Uid, uid),
            (Why::Exhausted, exhausted),
            (Why::Tls, figures.ssl_handshake_errors.get()),
        ]
    }
}
