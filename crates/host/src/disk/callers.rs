//! Who counts the clients of disks, and who of them is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sublet_client::messages::DiskClients;
use sublet_frontends::figures::Figure;
use sublet_frontends::nbd::serve::Group;
use sublet_frontends::vhost_user::metrics::Figures;
use sublet_types::{DiskName, TenantName};

use crate::observe::events::{Events, Object, Why};
use crate::refused::Told;

/// Who counts the clients of each disk. Places may be held by whoever waits for a socket's file system; this is held by nobody for long.
#[derive(Clone, Default)]
pub(super) struct AllCallers(Arc<Mutex<BTreeMap<DiskName, OfDisk>>>);

struct OfDisk {
    tenant: TenantName,
    places: Vec<Callers>,
}

/// Who counts clients at one place of a disk.
pub(super) enum Callers {
    /// At a listener, which other disks may share.
    Nbd(Arc<Listener>),
    /// At a socket of its own.
    VhostUser(Socket),
}

/// Where clients over NBD come in.
pub(super) struct Listener {
    pub(super) group: Arc<Group>,
    /// As the kernel knows it.
    pub(super) address: String,
    pub(super) told: Mutex<Told>,
}

/// Where a VMM comes in.
pub(super) struct Socket {
    pub(super) figures: Arc<Figures>,
    pub(super) told: Mutex<Told>,
}

impl AllCallers {
    /// A disk of a tenant is served at these places from now on.
    pub(super) fn add(&self, disk: DiskName, tenant: TenantName, places: Vec<Callers>) {
        self.0.lock().insert(disk, OfDisk { tenant, places });
    }

    /// A disk is served no more.
    pub(super) fn remove(&self, disk: &DiskName) {
        self.0.lock().remove(disk);
    }

    /// Clients of a disk that are connected now, and who came and what went wrong with them.
    pub(super) fn of(&self, disk: &DiskName) -> (u64, DiskClients) {
        let all = self.0.lock();
        let places = all.get(disk).map_or(&[][..], |disk| &disk.places);
        let clients = places.iter().map(Callers::clients);
        (
            places.iter().map(Callers::count).sum(),
            clients.fold(DiskClients::default(), |all, some| all.and(&some)),
        )
    }

    /// Tells who was refused since the last time.
    pub(super) fn tell_refused(&self, events: &Events) {
        let all = self.0.lock();
        for (name, disk) in &*all {
            for place in &disk.places {
                let object = || match place {
                    Callers::Nbd(listener) => Object::Listener {
                        place: listener.address.as_str().into(),
                        tenant: whose(&all, listener),
                    },
                    Callers::VhostUser(_) => Object::Disk {
                        name: name.clone(),
                        tenant: Some(disk.tenant.clone()),
                    },
                };
                place.tell_refused(object, events);
            }
        }
    }
}

/// Whose disks a listener serves, if all are of one tenant.
fn whose(all: &BTreeMap<DiskName, OfDisk>, listener: &Arc<Listener>) -> Option<TenantName> {
    let is_here =
        |place: &Callers| matches!(place, Callers::Nbd(other) if Arc::ptr_eq(other, listener));
    let mut tenants = all
        .values()
        .filter(|disk| disk.places.iter().any(is_here))
        .map(|disk| &disk.tenant);
    let one = tenants.next()?;
    tenants.all(|tenant| tenant == one).then(|| one.clone())
}

impl Callers {
    /// Clients that are connected now.
    pub(super) fn count(&self) -> u64 {
        match self {
            Callers::Nbd(listener) => listener.group.figures.connections.get(),
            Callers::VhostUser(socket) => socket.figures.connections.get(),
        }
    }

    /// Who came, and what went wrong with them.
    fn clients(&self) -> DiskClients {
        let reasons = |all: &[(&str, &Figure)]| {
            let all = all.iter();
            all.map(|(reason, figure)| ((*reason).to_owned(), figure.get()))
                .collect()
        };
        match self {
            Callers::Nbd(listener) => {
                let figures = &listener.group.figures;
                DiskClients {
                    connections_made: figures.connections_made.get(),
                    turned_away: reasons(&[
                        ("full", &figures.refused_full),
                        ("late", &figures.ended_late),
                        ("garbage", &figures.ended_garbage),
                        ("stalled", &figures.ended_stalled),
                        ("no_such_export", &figures.unknown_exports),
                        ("tls_handshake", &figures.tls_handshake_errors),
                        ("tls_record", &figures.tls_record_errors),
                    ]),
                    requests_refused: figures.refused.get(),
                    broken_rings: 0,
                }
            }
            Callers::VhostUser(socket) => {
                let figures = &socket.figures;
                DiskClients {
                    connections_made: figures.connections_made.get(),
                    turned_away: reasons(&[("memory", &figures.refused_memory)]),
                    requests_refused: figures.faults.get(),
                    broken_rings: figures.broken_rings.get(),
                }
            }
        }
    }

    fn tell_refused(&self, object: impl FnOnce() -> Object, events: &Events) {
        match self {
            Callers::Nbd(listener) => {
                let figures = &listener.group.figures;
                let refused = [
                    (Why::Full, figures.refused_full.get()),
                    (Why::Tls, figures.tls_handshake_errors.get()),
                    (Why::NoSuchExport, figures.unknown_exports.get()),
                ];
                listener.told.lock().tell(&refused, object, events);
            }
            Callers::VhostUser(socket) => {
                let refused = [(Why::GuestMemory, socket.figures.refused_memory.get())];
                socket.told.lock().tell(&refused, object, events);
            }
        }
    }
}
