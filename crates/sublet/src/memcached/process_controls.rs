//! Controls of the process that the connections of an instance may use.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use sublet_frontends::memcached::instance::{CertsRefused, ClientControls, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::serve::TlsCertificates;
use sublet_host::standalone::StandaloneStore;
use sublet_types::{Bytes, TenantId};

use super::main_event::MainEvent;
use super::parsed_options::MEMORY_MIN;

/// The least that `cache_memlimit` takes. Less than [`MEMORY_MIN`] is treated as that.
const LIMIT_MIN: Bytes = Bytes::mib(8);

/// What a client may ask the process to do.
pub(super) struct StandaloneControls {
    pub(super) lone: StandaloneStore,
    pub(super) tls: Option<Arc<TlsCertificates>>,
    pub(super) events: Sender<MainEvent>,
}

impl ClientControls for StandaloneControls {
    fn limit_memory(&self, _: TenantId, limit: Bytes) -> Result<(), LimitRefused> {
        if limit < LIMIT_MIN {
            return Err(LimitRefused::TooSmall);
        }
        if limit > self.lone.capacity() {
            return Err(LimitRefused::TooLarge);
        }
        self.lone.set_limit(limit.max(MEMORY_MIN));
        // A release takes milliseconds, so the main thread does it instead of a connection.
        let _ = self.events.send(MainEvent::Shrink);
        Ok(())
    }

    fn memory_limit(&self, _: TenantId) -> Bytes {
        self.lone.limit()
    }

    fn refresh_certs(&self) -> Result<(), CertsRefused> {
        let tls = self.tls.as_ref().ok_or(CertsRefused::NoTls)?;
        tls.reload().map_err(|error| {
            tracing::warn!(%error, "memcached cannot use the new certificates and keeps the old ones; mend the files and send `refresh_certs` again");
            CertsRefused::Unusable("the certificates cannot be used")
        })
    }

    fn cpu_time(&self) -> CpuTime {
        getrusage(UsageWho::RUSAGE_SELF)
            .map(|usage| CpuTime {
                user_micros: usage.user_time().num_microseconds() as u64,
                system_micros: usage.system_time().num_microseconds() as u64,
            })
            .unwrap_or_default()
    }
}
