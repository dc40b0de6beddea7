//! Where disks are served: NBD listeners, which several disks may share, and a vhost-user socket for each disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use signal_hook::consts::SIGTERM;
use sublet_frontends::backend::Backend;
use sublet_frontends::block::Disk;
use sublet_frontends::doors::{
    ClientCertificate, Endpoint, Tls, TlsSettings, TlsVersion, Transport, bind_one,
};
use sublet_frontends::nbd::serve::{self, Group, Running};
use sublet_frontends::nbd::{Exports, Settings};
use sublet_frontends::vhost_user::serve as vhost_user;
use sublet_types::{DiskKind, DiskListen, DiskSettings, DiskTls, TenantName};

use super::callers::{Callers, Listener, Socket};
use super::error::DiskError;
use crate::credentials::CredentialFiles;
use crate::observe::events::{Events, Object, Why};

/// How long clients over NBD take to part, at the most, and somewhat more.
const CLOSING_MAX: Duration = Duration::from_secs(25);

/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(20);

/// All places, and who is served there.
pub(super) struct Places {
    backend: Backend,
    events: Events,
    nbd: Arc<Running>,
    open: BTreeMap<DiskListen, Place>,
    /// vhost-user sockets, with their disks' names.
    shared: Vec<(String, vhost_user::Running)>,
}

/// An NBD listener.
struct Place {
    listener: Arc<Listener>,
    /// Whose disks it serves, if all are of one tenant.
    tenant: Option<TenantName>,
    mode: u32,
    tls: Option<DiskTls>,
}

/// A listener's certificates.
pub(super) struct Certificates {
    /// The listener.
    pub(super) whose: Object,
    pub(super) files: Vec<String>,
    pub(super) tls: Arc<Tls>,
}

impl Place {
    fn certificates(&self) -> Option<Certificates> {
        let (said, tls) = self.tls.as_ref().zip(self.listener.group.tls.as_ref())?;
        let mut files = vec![said.cert.clone(), said.key.clone()];
        files.extend(said.client_ca.clone());
        let whose = Object::Listener {
            place: self.listener.address.as_str().into(),
            tenant: self.tenant.clone(),
        };
        Some(Certificates {
            whose,
            files,
            tls: Arc::clone(tls),
        })
    }
}

impl Places {
    /// Nothing is served yet.
    pub(super) fn open(
        backend: &Backend,
        threads: usize,
        events: &Events,
    ) -> Result<Places, DiskError> {
        let failed = Arc::new(|| {
            let _ = signal_hook::low_level::raise(SIGTERM);
        });
        Ok(Places {
            backend: backend.clone(),
            events: events.clone(),
            nbd: Arc::new(serve::start(threads, backend, failed)?),
            open: BTreeMap::new(),
            shared: Vec::new(),
        })
    }

    /// Serves a disk at all its places; where one fails, the others are to be left. Says where, with the ports that were
    /// taken.
    pub(super) fn serve(
        &mut self,
        disk: &Arc<dyn Disk>,
        settings: &DiskSettings,
    ) -> Result<Vec<DiskListen>, DiskError> {
        let mut served = Vec::new();
        for place in &settings.listen {
            let at = match place {
                DiskListen::VhostUser(path) => self.share(disk, settings, path),
                _ => self.serve_at(disk, settings, place),
            };
            served.push(at?);
        }
        Ok(served)
    }

    /// Serves a disk through memory that a VMM shares.
    fn share(
        &mut self,
        disk: &Arc<dyn Disk>,
        settings: &DiskSettings,
        path: &str,
    ) -> Result<DiskListen, DiskError> {
        let place = DiskListen::VhostUser(path.to_owned());
        let granted = vhost_user::Settings {
            queues: settings.queues,
            // A swap's guest never flushes, and is told that everything lasts.
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
        let open = Place {
            tenant: Some(settings.tenant.clone()),
            listener: Arc::new(Listener {
                group,
                address,
                told: Mutex::default(),
            }),
            mode: settings.mode,
            tls: tls.cloned(),
        };
        if let Some(Certificates { whose, files, .. }) = open.certificates() {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            CredentialFiles::new(&self.events, Why::Start).note_read(whose, &files);
        }
        self.open.insert(bound.clone(), open);
        Ok(bound)
    }

    /// Serves a disk no more. Its clients have gone when what is returned has been waited for.
    pub(super) fn leave(&mut self, name: &str) -> Closing {
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
        Closing {
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
    pub(super) fn certificates(&self) -> Vec<Certificates> {
        self.open.values().filter_map(Place::certificates).collect()
    }

    /// Who counts the clients of a disk.
    pub(super) fn callers(&self, name: &str) -> Vec<Callers> {
        let its = self
            .open
            .values()
            .filter(|place| place.listener.group.exports.has(name));
        let shared = self.shared.iter().filter(|(disk, _)| disk == name);
        let socket = |running: &vhost_user::Running| {
            Callers::VhostUser(Socket {
                figures: Arc::clone(running.figures()),
                told: Mutex::default(),
            })
        };
        its.map(|place| Callers::Nbd(Arc::clone(&place.listener)))
            .chain(shared.map(|(_, running)| socket(running)))
            .collect()
    }

    /// Serves nothing more. Returns when everybody is gone.
    pub(super) fn end(self) {
        for (_, running) in self.shared {
            running.stop();
        }
        let (nbd, until) = (self.nbd, Instant::now() + CLOSING_MAX);
        // A disk may be closing just now.
        while Arc::strong_count(&nbd) > 1 && Instant::now() < until {
            thread::sleep(LOOK);
        }
        match Arc::into_inner(nbd) {
            Some(nbd) => nbd.stop(),
            None => tracing::error!("clients of disks are not let go: one is closing still"),
        }
    }
}

/// Clients of a disk that are being let go.
pub(super) struct Closing {
    nbd: Arc<Running>,
    disk: String,
    /// Listeners that serve nobody any more.
    empty: Vec<String>,
    shared: Vec<vhost_user::Running>,
}

impl Closing {
    /// Returns when nobody uses the disk.
    pub(super) fn wait(self) {
        self.nbd.remove_disk(&self.disk);
        for address in &self.empty {
            self.nbd.close(address);
        }
        // A guest that is waited for may hang with its backing, and keeps no other disk's clients from a good end.
        drop(self.nbd);
        self.shared.into_iter().for_each(vhost_user::Running::stop);
    }

    /// Waits like that, but so long at most: a guest may have asked for what the backing never answers. Says whether
    /// nobody uses the disk.
    pub(super) fn wait_within(self, time: Duration) -> bool {
        let (gone, all_gone) = mpsc::channel::<()>();
        let closing = Arc::new(Mutex::new(Some(self)));
        let wait = {
            let closing = Arc::clone(&closing);
            move || {
                closing.lock().take().into_iter().for_each(Closing::wait);
                drop(gone);
            }
        };
        if let Err(error) = thread::Builder::new()
            .name("closing".to_owned())
            .spawn(wait)
        {
            tracing::warn!(%error, "a disk's clients are let go without a limit of time");
            closing.lock().take().into_iter().for_each(Closing::wait);
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
fn certificates(tls: &DiskTls) -> Result<Tls, DiskError> {
    Ok(Tls::load(TlsSettings {
        chain: PathBuf::from(&tls.cert),
        key: Some(PathBuf::from(&tls.key)),
        client_ca: tls.client_ca.as_ref().map(PathBuf::from),
        client_certificate: match tls.client_ca {
            Some(_) => ClientCertificate::Required,
            None => ClientCertificate::Unasked,
        },
        min_version: TlsVersion::V12,
        resumes: true,
    })?)
}
