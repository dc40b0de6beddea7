//! What a tenant's clients may ask of the daemon, within what the owner allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sublet_frontends::memcached::face::{CertsRefused, CpuTime, Host, LimitRefused};
use sublet_frontends::memcached::serve::Tls;
use sublet_store::Store;
use sublet_types::{Bytes, TenantId};

use crate::observe::process;

/// memcached's least for `cache_memlimit`.
const LIMIT_MIN: Bytes = Bytes::mib(8);

/// What the owner allows a tenant to hold, as he last said it; its clients may choose less.
#[derive(Debug)]
pub(super) struct Allowed(AtomicU64);

impl Allowed {
    /// Up to `ceiling`; without one nothing may be chosen.
    pub(super) fn up_to(ceiling: Option<Bytes>) -> Allowed {
        let allowed = Allowed(AtomicU64::default());
        allowed.set(ceiling);
        allowed
    }

    pub(super) fn set(&self, ceiling: Option<Bytes>) {
        self.0
            .store(ceiling.map_or(0, |ceiling| ceiling.0), Ordering::Relaxed);
    }

    fn covers(&self, limit: Bytes) -> bool {
        limit.0 <= self.0.load(Ordering::Relaxed)
    }
}

/// The owner, as one tenant's face meets him.
pub(super) struct Owner {
    pub(super) store: Arc<Store>,
    pub(super) allowed: Arc<Allowed>,
    pub(super) tls: Option<Arc<Tls>>,
}

impl Host for Owner {
    fn limit_memory(&self, tenant: TenantId, limit: Bytes) -> Result<(), LimitRefused> {
        if limit < LIMIT_MIN {
            return Err(LimitRefused::TooSmall);
        }
        if !self.allowed.covers(limit) {
            return Err(LimitRefused::TooLarge);
        }
        let found = self.store.tenant_settings(tenant);
        let mut settings = found.ok_or(LimitRefused::TooLarge)?;
        settings.ceiling = Some(limit);
        // A floor above it: the owner promised that much to the tenant, and keeps it.
        self.store
            .set_tenant(tenant, settings)
            .map_err(|_| LimitRefused::TooSmall)
    }

    fn memory_limit(&self, tenant: TenantId) -> Bytes {
        let arena = self.store.limit();
        let own = self.store.tenant_settings(tenant);
        own.and_then(|settings| settings.ceiling)
            .map_or(arena, |own| own.min(arena))
    }

    fn refresh_certs(&self) -> Result<(), CertsRefused> {
        let tls = self.tls.as_ref().ok_or(CertsRefused::NoTls)?;
        tls.reload().map_err(|error| {
            tracing::warn!(%error, "the old certificates stay");
            CertsRefused::Unusable("the certificates cannot be used; the old ones stay")
        })
    }

    fn cpu_time(&self) -> CpuTime {
        process::cpu_time().unwrap_or_default()
    }
}
