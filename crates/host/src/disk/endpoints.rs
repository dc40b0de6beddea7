//! Where disks are served: NBD listeners, which several disks may share, and one vhost-user socket per disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use signal_hook::consts::SIGTERM;
use sublet_frontends::backend::Backend;
use sublet_frontends::block_device::Disk;
use sublet_frontends::listeners::{
    ClientCertificateDemand, Endpoint, TlsCertificates, TlsSettings, TlsVersion, Transport,
    bind_one,
};
use sublet_frontends::nbd::serve::{self, Group, NbdService};
use sublet_frontends::nbd::{Exports, Settings};
use sublet_frontends::vhost_user::serve as vhost_user;
use sublet_types::{DiskKind, DiskListen, DiskSettings, DiskTls, TenantName};

use super::clients::{EndpointClients, NbdEndpointClients, VhostUserEndpointClients};
use super::error::DiskError;
use crate::credential_report::CredentialReport;
use crate::observe::events::{EventReason, EventSubject, Events};

/// The longest time that clients over NBD take to disconnect, and somewhat more.
const CLOSING_MAX: Duration = Duration::from_secs(25);

/// How often a wait checks whether they have disconnected.
const LOOK: Duration = Duration::from_millis(20);

/// All endpoints, and which disks are served there.
pub(super) struct DiskEndpoints {
    backend: Backend,
    events: Events,
    nbd: Arc<NbdService>,
    open: BTreeMap<DiskListen, NbdEndpoint>,
    /// vhost-user sockets, with their disks' names.
    shared: Vec<(String, vhost_user::VhostUserService)>,
}

/// An NBD listener.
struct NbdEndpoint {
    listener: Arc<NbdEndpointClients>,
    /// The tenant whose disks the listener serves, if all are of one tenant.
    tenant: Option<TenantName>,
    mode: u32,
    tls: Option<DiskTls>,
}

/// A listener's certificates.
pub(super) struct NbdCertificates {
    /// The listener.
    pub(super) whose: EventSubject,
    pub(super) files: Vec<String>,
    pub(super) tls: Arc<TlsCertificates>,
}

impl NbdEndpoint {
    fn certificates(&self) -> Option<NbdCertificates> {
        let (said, tls) = self.tls.as_ref().zip(self.listener.group.tls.as_ref())?;
        let mut files = vec![said.cert.clone(), said.key.clone()];
        files.extend(said.client_ca.clone());
        let whose = EventSubject::Listener {
            place: self.listener.address.as_str().into(),
            tenant: self.tenant.clone(),
        };
        Some(NbdCertificates {
            whose,
            files,
            tls: Arc::clone(tls),
        })
    }
}

impl DiskEndpoints {
    /// Starts with nothing served.
    pub(super) fn open(
        backend: &Backend,
        threads: usize,
        events: &Events,
    ) -> Result<DiskEndpoints, DiskError> {
        let failed = Arc::new(|| {
            let _ = signal_hook::low_level::raise(SIGTERM);
        });
        Ok(DiskEndpoints {
            backend: backend.clone(),
            events: events.clone(),
            nbd: Arc::new(serve::start(threads, backend, failed)?),
            open: BTreeMap::new(),
            shared: Vec::new(),
        })
    }

    /// Serves a disk at all its places. If one place fails, withdraw the disk from the others. Returns the places, with
    /// the ports that were taken.
    pub(super) fn serve(
        &mut self,
        disk: &Arc<dyn Disk>,
        settings: &DiskSettings,
    ) -> Result<Vec<DiskListen>, DiskError> {
        let mut served = Vec::new();
        for place in &settings.listen {
            let at = match place {
                DiskListen::VhostUser(path) => self.serve_vhost_user(disk, settings, path),
                _ => self.serve_at(disk, settings, place),
            };
            served.push(at?);
        }
        Ok(served)
    }

    /// Serves a disk through memory that a VMM shares.
    fn serve_vhost_user(
        &mut self,
        disk: &Arc<dyn Disk>,
        settings: &DiskSettings,
        path: &str,
    ) -> Result<DiskListen, DiskError> {
        let place = DiskListen::VhostUser(path.to_owned());
        let granted = vhost_user::Settings {
            queues: settings.queues,
            // The guest of a swap disk never flushes. The device tells it that everything lasts.
            config_wce: settings.kind == DiskKind::Disk,
            ..vhost_user::Settings::default()
        };
        let running = vhost_user::start(
            Arc::clone(disk),
            Path::new(path),
            settings.mode,
            &self.backend,
            granted,
        );
        let running = running.map_err(|source| DiskError::Serve {
            place: place.clone(),
            source,
        })?;
        self.shared.push((disk.name().to_owned(), running));
        Ok(place)
    }

    fn serve_at(
        &mut self,
        disk: &Arc<dyn Disk>,
        settings: &DiskSettings,
        place: &DiskListen,
    ) -> Result<DiskListen, DiskError> {
        let tls = settings.tls_at(place);
        if let Some(open) = self.open.get_mut(place) {
            return match open.mode == settings.mode && open.tls.as_ref() == tls {
                true => {
                    open.listener.group.exports.add(Arc::clone(disk))?;
                    open.tenant.take_if(|tenant| *tenant != settings.tenant);
                    Ok(place.clone())
                }
                false => Err(DiskError::Place(place.clone())),
            };
        }
        let endpoint = endpoint(place, settings)?;
        let listener = bind_one(&endpoint, serve::BACKLOG)?;
        let bound = match (place, listener.tcp_address()) {
            (DiskListen::Tcp(host, _), Some(address)) => {
                DiskListen::Tcp(host.clone(), address.port())
            }
            _ => place.clone(),
        };
        let certificates = tls.map(certificates).transpose()?.map(Arc::new);
        let exports = Arc::new(Exports::default());
        exports.add(Arc::clone(disk))?;
        let group = Arc::new(Group::new(exports, Settings::default(), certificates));
        let address = listener.address().to_owned();
        let added = self.nbd.add(listener, Arc::clone(&group));
        added.map_err(|source| DiskError::Serve {
            place: place.clone(),
            source,
        })?;
        let open = NbdEndpoint {
            tenant: Some(settings.tenant.clone()),
            listener: Arc::new(NbdEndpointClients {
                group,
                address,
                reporter: Mutex::default(),
            }),
            mode: settings.mode,
            tls: tls.cloned(),
        };
        if let Some(NbdCertificates { whose, files, .. }) = open.certificates() {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            CredentialReport::new(&self.events, EventReason::Start).record_read(whose, &files);
        }
        self.open.insert(bound.clone(), open);
        Ok(bound)
    }

    /// Stops serving a disk. Wait for the returned value to see its clients gone.
    pub(super) fn withdraw(&mut self, name: &str) -> ClosingClients {
        let (shared, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.shared)
            .into_iter()
            .partition(|(disk, _)| disk == name);
        self.shared = others;
        for place in self.open.values_mut() {
            place.listener.group.exports.remove(name);
        }
        let (kept, left): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, place)| !place.listener.group.exports.names().is_empty());
        self.open = kept;
        ClosingClients {
            nbd: Arc::clone(&self.nbd),
            disk: name.to_owned(),
            empty: left
                .into_values()
                .map(|place| place.listener.address.clone())
                .collect(),
            shared: shared.into_iter().map(|(_, running)| running).collect(),
        }
    }

    /// Certificates of all places.
    pub(super) fn certificates(&self) -> Vec<NbdCertificates> {
        self.open
            .values()
            .filter_map(NbdEndpoint::certificates)
            .collect()
    }

    /// The counters of a disk's clients.
    pub(super) fn clients(&self, name: &str) -> Vec<EndpointClients> {
        let its = self
            .open
            .values()
            .filter(|place| place.listener.group.exports.has(name));
        let shared = self.shared.iter().filter(|(disk, _)| disk == name);
        let socket = |running: &vhost_user::VhostUserService| {
            EndpointClients::VhostUser(VhostUserEndpointClients {
                figures: Arc::clone(running.figures()),
                reporter: Mutex::default(),
            })
        };
        its.map(|place| EndpointClients::Nbd(Arc::clone(&place.listener)))
            .chain(shared.map(|(_, running)| socket(running)))
            .collect()
    }

    /// Serves nothing more. Returns when all clients are gone.
    pub(super) fn end(self) {
        for (_, running) in self.shared {
            running.stop();
        }
        let (nbd, until) = (self.nbd, Instant::now() + CLOSING_MAX);
        // A disk may be closing at this moment.
        while Arc::strong_count(&nbd) > 1 && Instant::now() < until {
            thread::sleep(LOOK);
        }
        match Arc::into_inner(nbd) {
            Some(nbd) => nbd.stop(),
            None => {
                let places: Vec<String> = self.open.keys().map(DiskListen::to_string).collect();
                tracing::error!(
                    listeners = places.join(", "),
                    waited = ?CLOSING_MAX,
                    "NBD clients stay connected because the clients of one disk still close; the daemon ends without them: check that disk's backing"
                );
            }
        }
    }
}

/// Clients of a disk that are being disconnected.
pub(super) struct ClosingClients {
    nbd: Arc<NbdService>,
    disk: String,
    /// Listeners that serve no disk any more.
    empty: Vec<String>,
    shared: Vec<vhost_user::VhostUserService>,
}

impl ClosingClients {
    /// Returns when no client uses the disk.
    pub(super) fn wait(self) {
        self.nbd.remove_disk(&self.disk);
        for address in &self.empty {
            self.nbd.close(address);
        }
        // A guest may hang with its backing. The wait for it must not keep other disks' clients from ending well.
        drop(self.nbd);
        self.shared
            .into_iter()
            .for_each(vhost_user::VhostUserService::stop);
    }

    /// Waits the same way, but at most `time`, because a guest may have asked for what the backing never answers.
    /// Returns whether no client uses the disk.
    pub(super) fn wait_within(self, time: Duration) -> bool {
        let (gone, all_gone) = mpsc::channel::<()>();
        let disk = self.disk.clone();
        let closing = Arc::new(Mutex::new(Some(self)));
        let wait = {
            let closing = Arc::clone(&closing);
            move || {
                closing
                    .lock()
                    .take()
                    .into_iter()
                    .for_each(ClosingClients::wait);
                drop(gone);
            }
        };
        if let Err(error) = thread::Builder::new()
            .name("closing".to_owned())
            .spawn(wait)
        {
            tracing::warn!(disk, limit = ?time, %error, "the daemon cannot make a thread and waits for the disk's clients without a limit; `sublet doctor` checks the limits");
            closing
                .lock()
                .take()
                .into_iter()
                .for_each(ClosingClients::wait);
        }
        all_gone.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }
}

fn endpoint(place: &DiskListen, settings: &DiskSettings) -> Result<Endpoint, DiskError> {
    match place {
        DiskListen::Tcp(host, port) => Ok(Endpoint::Tcp {
            host: Some(host.clone()),
            port: *port,
            transport: Transport::Plain,
        }),
        DiskListen::Unix(path) => Ok(Endpoint::Unix {
            path: PathBuf::from(path),
            mode: settings.mode,
        }),
        DiskListen::VhostUser(_) => Err(DiskError::Place(place.clone())),
    }
}

/// NBD asks for TLS in the middle of a connection, so the listener itself is plain.
fn certificates(tls: &DiskTls) -> Result<TlsCertificates, DiskError> {
    Ok(TlsCertificates::load(TlsSettings {
        chain: PathBuf::from(&tls.cert),
        key: Some(PathBuf::from(&tls.key)),
        client_ca: tls.client_ca.as_ref().map(PathBuf::from),
        client_certificate: match tls.client_ca {
            Some(_) => ClientCertificateDemand::Required,
            None => ClientCertificateDemand::Unasked,
        },
        min_version: TlsVersion::V12,
        resumes: true,
    })?)
}
