//! Groups of listeners that serve one tenant with the same settings.

use std::sync::Arc;

use sublet_types::TenantId;

use crate::listeners::TlsCertificates;
use crate::memcached::instance::Instance;

/// A group of listeners that serve one tenant with the same settings.
pub struct Group {
    /// What their connections share. Its settings limit the number of connections.
    pub instance: Arc<Instance>,
    /// The tenant for which connections act, unless a client logs in for another one.
    pub tenant: TenantId,
    /// The certificates of listeners that speak TLS.
    pub tls: Option<Arc<TlsCertificates>>,
}
