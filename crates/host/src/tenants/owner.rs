//! What a tenant's clients may ask of the daemon, within what the owner allows.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sublet_frontends::memcached::instance::{CertsRefused, Host, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::serve::Tls;
use sublet_store::Store;
use sublet_types::{Bytes, TenantId, TenantName};

use crate::observe::events::{Actor, Amount, Cause, EventId, Events, Why};
use crate::observe::process;

/// memcached's least for `cache_memlimit`.
const LIMIT_MIN: Bytes = Bytes::mib(8);

/// What the owner allows a tenant to hold, as he last said it; its clients may choose less.
#[derive(Debug)]
pub(crate) struct Allowed(AtomicU64);

impl Allowed {
    /// Up to `ceiling`; without one nothing may be chosen.
    pub(crate) fn up_to(ceiling: Option<Bytes>) -> Allowed {
        let allowed = Allowed(AtomicU64::default());
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

/// How long a client's worker waits for certificates to be read. Others of its clients wait with it.
const READ_MAX: Duration = Duration::from_millis(50);

/// Certificates that clients may have read anew: away from the thread that serves them, one reading at a time.
pub(crate) struct Certificates {
    tls: Arc<Tls>,
    /// A file of theirs is a pipe, which says what it said once.
    was_pipe: bool,
    is_reading: Arc<AtomicBool>,
}

impl Certificates {
    /// Those that were read of these files a moment ago.
    pub(crate) fn of<'a>(
        tls: &Arc<Tls>,
        mut files: impl Iterator<Item = &'a Path>,
    ) -> Certificates {
        let is_pipe = |file: &Path| fs::metadata(file).is_ok_and(|facts| !facts.is_file());
        Certificates {
            tls: Arc::clone(tls),
            was_pipe: files.any(is_pipe),
            is_reading: Arc::default(),
        }
    }

    /// Has them read anew; `told` hears of it once they were.
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
        read_away(&self.is_reading, move || {
            let read = tls.reload();
            told(read.as_ref().copied().map_err(ToString::to_string));
            read
        })
    }
}

/// Has certificates read by another thread. Says how that went, if it goes fast.
fn read_away<E>(
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
        // Whoever asked may not have waited for it.
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

/// The owner, as one tenant's instance meets him.
pub(crate) struct Owner {
    pub(crate) store: Arc<Store>,
    pub(crate) allowed: Arc<Allowed>,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) events: Events,
    /// Which tenant's.
    pub(crate) name: TenantName,
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
            .map_err(|_| LimitRefused::TooSmall)?;
        let limited = Cause::new(EventId::TenantLimited, Why::Client).to_tenant(&self.name);
        self.events
            .post(limited.by(Actor::Client).of(Amount::Bytes(limit)));
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
                    let cause = Cause::new(id, Why::Client).to_tenant(&name);
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
    use std::time::Instant;

    use super::*;

    #[test]
    fn certificates_whose_file_system_hangs_hold_up_no_worker() {
        let is_reading = Arc::default();
        let (go_on, told) = mpsc::channel::<()>();
        let hangs = move || told.recv();
        let is_being_read =
            |asked| matches!(asked, Err(CertsRefused::Unusable(why)) if why.contains("being read"));
        assert!(is_being_read(read_away(&is_reading, hangs)));
        // Nobody begins a second reading.
        let another = || -> Result<(), &str> { unreachable!("one at a time") };
        assert!(is_being_read(read_away(&is_reading, another)));
        go_on.send(()).expect("it waits");
        let until = Instant::now() + Duration::from_secs(60);
        while read_away(&is_reading, || Ok::<(), &str>(())).is_err() {
            assert!(Instant::now() < until, "nothing is read any more");
        }
    }
}
