//! Counts the clients of disks, and those that are refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sublet_client::messages::DiskClients;
use sublet_frontends::figures::AtomicFigure;
use sublet_frontends::nbd::serve::Group;
use sublet_frontends::vhost_user::metrics::VhostUserFigures;
use sublet_types::{DiskName, TenantName};

use crate::observe::events::{EventReason, EventSubject, Events};
use crate::refusal_reporter::RefusalReporter;

/// The counters of each disk's clients. A thread that waits for a socket's file system may hold the endpoints. Nobody
/// holds these counters for long.
#[derive(Clone, Default)]
pub(super) struct ClientCounters(Arc<Mutex<BTreeMap<DiskName, DiskClientCounters>>>);

struct DiskClientCounters {
    tenant: TenantName,
    places: Vec<EndpointClients>,
}

/// The counter of clients at one endpoint of a disk.
pub(super) enum EndpointClients {
    /// A listener, which other disks may share.
    Nbd(Arc<NbdEndpointClients>),
    /// At a socket of its own.
    VhostUser(VhostUserEndpointClients),
}

/// An endpoint for clients over NBD.
pub(super) struct NbdEndpointClients {
    pub(super) group: Arc<Group>,
    /// The address in the kernel's form.
    pub(super) address: String,
    pub(super) reporter: Mutex<RefusalReporter>,
}

/// An endpoint for a VMM.
pub(super) struct VhostUserEndpointClients {
    pub(super) figures: Arc<VhostUserFigures>,
    pub(super) reporter: Mutex<RefusalReporter>,
}

impl ClientCounters {
    /// Records that a tenant's disk is served at these endpoints from now on.
    pub(super) fn add(&self, disk: DiskName, tenant: TenantName, places: Vec<EndpointClients>) {
        self.0
            .lock()
            .insert(disk, DiskClientCounters { tenant, places });
    }

    /// Records that a disk is no longer served.
    pub(super) fn remove(&self, disk: &DiskName) {
        self.0.lock().remove(disk);
    }

    /// The number of connected clients of a disk, and how many came and what went wrong with them.
    pub(super) fn clients_of(&self, disk: &DiskName) -> (u64, DiskClients) {
        let all = self.0.lock();
        let places = all.get(disk).map_or(&[][..], |disk| &disk.places);
        let clients = places.iter().map(EndpointClients::clients);
        (
            places.iter().map(EndpointClients::count).sum(),
            clients.fold(DiskClients::default(), |all, some| all.merge(&some)),
        )
    }

    /// Posts which clients were refused since the last call.
    pub(super) fn report_refused(&self, events: &Events) {
        let all = self.0.lock();
        for (name, disk) in &*all {
            for place in &disk.places {
                let object = || match place {
                    EndpointClients::Nbd(listener) => EventSubject::Listener {
                        place: listener.address.as_str().into(),
                        tenant: whose(&all, listener),
                    },
                    EndpointClients::VhostUser(_) => EventSubject::Disk {
                        name: name.clone(),
                        tenant: Some(disk.tenant.clone()),
                    },
                };
                place.report_refused(object, events);
            }
        }
    }
}

/// The tenant whose disks a listener serves, if all are of one tenant.
fn whose(
    all: &BTreeMap<DiskName, DiskClientCounters>,
    listener: &Arc<NbdEndpointClients>,
) -> Option<TenantName> {
    let is_here = |place: &EndpointClients| matches!(place, EndpointClients::Nbd(other) if Arc::ptr_eq(other, listener));
    let mut tenants = all
        .values()
        .filter(|disk| disk.places.iter().any(is_here))
        .map(|disk| &disk.tenant);
    let one = tenants.next()?;
    tenants.all(|tenant| tenant == one).then(|| one.clone())
}

impl EndpointClients {
    /// Clients that are connected now.
    pub(super) fn count(&self) -> u64 {
        match self {
            EndpointClients::Nbd(listener) => listener.group.figures.connections.get(),
            EndpointClients::VhostUser(socket) => socket.figures.connections.get(),
        }
    }

    /// How many clients came, and what went wrong with them.
    fn clients(&self) -> DiskClients {
        let reasons = |all: &[(&str, &AtomicFigure)]| {
            let all = all.iter();
            all.map(|(reason, figure)| ((*reason).to_owned(), figure.get()))
                .collect()
        };
        match self {
            EndpointClients::Nbd(listener) => {
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
            EndpointClients::VhostUser(socket) => {
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

    fn report_refused(&self, object: impl FnOnce() -> EventSubject, events: &Events) {
        match self {
            EndpointClients::Nbd(listener) => {
                let figures = &listener.group.figures;
                let refused = [
                    (EventReason::Full, figures.refused_full.get()),
                    (EventReason::Tls, figures.tls_handshake_errors.get()),
                    (EventReason::NoSuchExport, figures.unknown_exports.get()),
                ];
                listener.reporter.lock().report(&refused, object, events);
            }
            EndpointClients::VhostUser(socket) => {
                let refused = [(
                    EventReason::GuestMemory,
                    socket.figures.refused_memory.get(),
                )];
                socket.reporter.lock().report(&refused, object, events);
            }
        }
    }
}
