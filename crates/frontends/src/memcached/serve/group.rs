//! Listeners that serve one tenant in one way.

use std::sync::Arc;

use sublet_types::TenantId;

use crate::doors::Tls;
use crate::memcached::instance::Instance;

/// Listeners that serve one tenant in one way.
pub struct Group {
    /// What their connections share; its settings say how many there may be.
    pub instance: Arc<Instance>,
    /// For whom they act, unless a client proves to be somebody else.
    pub tenant: TenantId,
    /// TLS, for listeners that speak it.
    pub tls: Option<Arc<Tls>>,
}
