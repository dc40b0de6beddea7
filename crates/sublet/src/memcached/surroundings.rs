//! The process around an instance, as its connections may ask of it.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use sublet_frontends::memcached::instance::{CertsRefused, Host, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::serve::Tls;
use sublet_host::lone::Lone;
use sublet_types::{Bytes, TenantId};

use super::event::Event;
use super::written::MEMORY_MIN;

/// `cache_memlimit` takes no less; less than [`MEMORY_MIN`] is treated as that.
const LIMIT_MIN: Bytes = Bytes::mib(8);

/// What a client may ask for.
pub(super) struct Surroundings {
    pub(super) lone: Lone,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) events: Sender<Event>,
}

impl Host for Surroundings {
    fn limit_memory(&self, _: TenantId, limit: Bytes) -> Result<(), LimitRefused> {
        if limit < LIMIT_MIN {
            return Err(LimitRefused::TooSmall);
        }
        if limit > self.lone.capacity() {
            return Err(LimitRefused::TooLarge);
        }
        self.lone.set_limit(limit.max(MEMORY_MIN));
        // Giving memory back takes milliseconds: the main thread's work, not a connection's.
        let _ = self.events.send(Event::Shrink);
        Ok(())
    }

    fn memory_limit(&self, _: TenantId) -> Bytes {
        self.lone.limit()
    }

    fn refresh_certs(&self) -> Result<(), CertsRefused> {
        let tls = self.tls.as_ref().ok_or(CertsRefused::NoTls)?;
        tls.reload().map_err(|error| {
            tracing::warn!(%error, "the certificates stay as they are");
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
