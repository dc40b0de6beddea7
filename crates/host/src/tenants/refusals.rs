//! Clients that tenants' listeners refuse.

use std::sync::Arc;

use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::ring::serve::Group;

use super::service::Service;
use crate::observe::events::{EventReason, EventSubject, Events};
use crate::refusal_reporter::RefusalReporter;

/// Follows the refused clients of each tenant's listeners.
pub(crate) struct TenantRefusals {
    events: Events,
    tenants: Vec<TenantListeners>,
}

/// A tenant's listeners, and what was reported of them.
struct TenantListeners {
    tenant: EventSubject,
    instance: Arc<Instance>,
    rings: Option<Arc<Group>>,
    reporter: RefusalReporter,
}

impl TenantRefusals {
    /// Follows these tenants and reports to `events`.
    pub(crate) fn of(services: &[Service], events: &Events) -> TenantRefusals {
        let followed = |service: &Service| TenantListeners {
            tenant: EventSubject::Tenant(service.name.clone()),
            instance: Arc::clone(&service.instance),
            rings: service.rings.clone(),
            reporter: RefusalReporter::default(),
        };
        TenantRefusals {
            events: events.clone(),
            tenants: services.iter().map(followed).collect(),
        }
    }

    /// Reports which clients were refused since the last call.
    pub(crate) fn report(&mut self) {
        for tenant in &mut self.tenants {
            let refused = tenant.refused();
            let object = || tenant.tenant.clone();
            tenant.reporter.report(&refused, object, &self.events);
        }
    }
}

impl TenantListeners {
    /// Connections that were refused since the start, by reason.
    fn refused(&self) -> [(EventReason, u64); 4] {
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
            (EventReason::Full, full),
            (EventReason::Uid, uid),
            (EventReason::Exhausted, exhausted),
            (EventReason::Tls, figures.ssl_handshake_errors.get()),
        ]
    }
}
