//! What a tenant's clients may ask of the daemon, within what the owner allows.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sublet_frontends::memcached::instance::{CertsRefused, ClientControls, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::serve::TlsCertificates;
use sublet_store::Store;
use sublet_types::{Bytes, TenantId, TenantName};

use crate::observe::events::{Actor, EventAmount, EventId, EventReason, Events, PostedEvent};
use crate::observe::process;

/// memcached's least for `cache_memlimit`.
const LIMIT_MIN: Bytes = Bytes::mib(8);

/// The amount that the owner allows a tenant to hold, as last set. The tenant's clients may choose less.
#[derive(Debug)]
pub(crate) struct MemoryAllowance(AtomicU64);

impl MemoryAllowance {
    /// Up to `ceiling`. Without a ceiling, clients may choose nothing.
    pub(crate) fn up_to(ceiling: Option<Bytes>) -> MemoryAllowance {
        let allowed = MemoryAllowance(AtomicU64::default());
        allowed.set(ceiling);
        allowed
    }

    pub(crate) fn set(&self, ceiling: Option<Bytes>) {
        self.0
            .store(ceiling.map_or(0, |ceiling| ceiling.0), Ordering::Relaxed);
    }

    fn covers(&self, limit: Bytes) -> bool {
        limit.0 <= self.0.load(Ordering::Relaxed)
    }
}

/// How long a client's worker waits for certificates to be read. The worker's other clients wait with it.
const READ_MAX: Duration = Duration::from_millis(50);

/// Certificates that clients may have read again. That happens away from the thread that serves them, one reading at a
/// time.
pub(crate) struct TenantCertificates {
    tls: Arc<TlsCertificates>,
    /// A file of theirs is a pipe, whose content can be read only once.
    was_pipe: bool,
    is_reading: Arc<AtomicBool>,
}

impl TenantCertificates {
    /// Certificates that were just read from these files.
    pub(crate) fn of<'a>(
        tls: &Arc<TlsCertificates>,
        mut files: impl Iterator<Item = &'a Path>,
    ) -> TenantCertificates {
        let is_pipe = |file: &Path| fs::metadata(file).is_ok_and(|facts| !facts.is_file());
        TenantCertificates {
            tls: Arc::clone(tls),
            was_pipe: files.any(is_pipe),
            is_reading: Arc::default(),
        }
    }

    /// Reads them again, and calls `told` when that is done.
    fn refresh(
        &self,
        told: impl FnOnce(Result<(), String>) + Send + 'static,
    ) -> Result<(), CertsRefused> {
        if self.was_pipe {
            return Err(CertsRefused::Unusable(
                "a file of the certificates is a pipe, and was read; SIGHUP has it read anew",
            ));
        }
        let tls = Arc::clone(&self.tls);
        read_in_thread(&self.is_reading, move || {
            let read = tls.reload();
            told(read.as_ref().copied().map_err(ToString::to_string));
            read
        })
    }
}

/// Reads certificates in another thread. Returns the result if that is fast.
fn read_in_thread<E>(
    is_reading: &Arc<AtomicBool>,
    read: impl FnOnce() -> Result<(), E> + Send + 'static,
) -> Result<(), CertsRefused> {
    let being_read = Err(CertsRefused::Unusable(
        "the certificates are being read; the events say how that ends",
    ));
    if is_reading.swap(true, Ordering::AcqRel) {
        return being_read;
    }
    let (tell, told) = mpsc::channel();
    let reads = Arc::clone(is_reading);
    let work = move || {
        let read = read().is_ok();
        reads.store(false, Ordering::Release);
        // The caller may not have waited for it.
        let _ = tell.send(read);
    };
    let thread = thread::Builder::new().name("reread".to_owned());
    if thread.spawn(work).is_err() {
        is_reading.store(false, Ordering::Release);
        return Err(CertsRefused::Unusable(
            "the system refused a thread; the old certificates stay",
        ));
    }
    match told.recv_timeout(READ_MAX) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CertsRefused::Unusable(
            "the certificates cannot be used; the old ones stay",
        )),
        Err(_) => being_read,
    }
}

/// The owner, as one tenant's instance sees it.
pub(crate) struct Owner {
    pub(crate) store: Arc<Store>,
    pub(crate) allowed: Arc<MemoryAllowance>,
    pub(crate) certificates: Option<TenantCertificates>,
    pub(crate) events: Events,
    /// Which tenant's.
    pub(crate) name: TenantName,
}

impl ClientControls for Owner {
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
        // If a floor is above the limit, the owner promised that much to the tenant and keeps the promise.
        self.store
            .set_tenant(tenant, settings)
            .map_err(|_| LimitRefused::TooSmall)?;
        let limited =
            PostedEvent::new(EventId::TenantLimited, EventReason::Client).to_tenant(&self.name);
        self.events
            .post(limited.by(Actor::Client).of(EventAmount::Bytes(limit)));
        Ok(())
    }

    fn memory_limit(&self, tenant: TenantId) -> Bytes {
        let arena = self.store.limit();
        let own = self.store.tenant_settings(tenant);
        own.and_then(|settings| settings.ceiling)
            .map_or(arena, |own| own.min(arena))
    }

    fn refresh_certs(&self) -> Result<(), CertsRefused> {
        let certificates = self.certificates.as_ref();
        let (events, name) = (self.events.clone(), self.name.clone());
        certificates
            .ok_or(CertsRefused::NoTls)?
            .refresh(move |read| {
                let told = |id| {
                    let cause = PostedEvent::new(id, EventReason::Client).to_tenant(&name);
                    cause.by(Actor::Client)
                };
                events.post(match read {
                    Ok(()) => told(EventId::CredentialsRead),
                    Err(error) => told(EventId::CredentialsRefused).saying(error),
                });
            })
    }

    fn cpu_time(&self) -> CpuTime {
        process::cpu_time().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until::wait_until;

    #[test]
    fn certificates_whose_file_system_hangs_hold_up_no_worker() {
        let is_reading = Arc::default();
        let (go_on, told) = mpsc::channel::<()>();
        let hangs = move || told.recv();
        let is_being_read =
            |asked| matches!(asked, Err(CertsRefused::Unusable(why)) if why.contains("being read"));
        assert!(is_being_read(read_in_thread(&is_reading, hangs)));
        // No second reading begins.
        let another = || -> Result<(), &str> { unreachable!("one at a time") };
        assert!(is_being_read(read_in_thread(&is_reading, another)));
        go_on.send(()).expect("it waits");
        wait_until("somebody reads again", || {
            read_in_thread(&is_reading, || Ok::<(), &str>(())).is_ok()
        });
    }
}
