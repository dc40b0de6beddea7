//! Page rings. They are bound before anything else begins, and served beside memcached.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sublet_client::messages::RingStatus;
use sublet_frontends::backend::Backend;
use sublet_frontends::ring::metrics::Operation;
use sublet_frontends::ring::serve::{
    self, Group, GroupListener, ListenError, Listener, RingService, StartError,
};
use sublet_frontends::ring::{Settings, SpillFactory};
use sublet_types::{Pages, TenantId, TenantName};

use crate::config::{ListenAddress, TenantConfig};
use crate::peers::far_memory::FarMemory;
use crate::spill::SpillFolder;
use crate::stuck::{self, SocketHolder};

/// Why a tenant's rings cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RingsError {
    /// The place is taken, or is not ours to take.
    #[error("tenant {name}: {source}{}", stuck::describe_holder(.by.as_deref()))]
    Listen {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: ListenError,
        /// The process that has it.
        by: Option<Box<SocketHolder>>,
    },
    /// The spill folder cannot be used.
    #[error("tenant {name}: cannot use the spill folder {}: {source}", folder.display())]
    Spill {
        /// Which tenant.
        name: TenantName,
        /// The folder.
        folder: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Serving cannot begin.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The mode of rings' sockets whose users are named: each program that connects is asked for its user.
const FOR_THE_NAMED: u32 = 0o666;

/// The rings of a tenant.
pub(crate) fn listeners(tenant: &TenantConfig) -> Result<Vec<Listener>, RingsError> {
    let mode = match tenant.allow_uids.is_empty() {
        true => tenant.mode,
        false => FOR_THE_NAMED,
    };
    let paths = tenant.listen.iter().filter_map(path);
    let bound = paths.map(|path| serve::bind(path, mode));
    bound
        .collect::<Result<_, _>>()
        .map_err(|source| RingsError::Listen {
            name: tenant.settings.name.clone(),
            by: stuck::holder_of_address(&source),
            source,
        })
}

fn path(place: &ListenAddress) -> Option<&Path> {
    match place {
        ListenAddress::Ring(path) => Some(path),
        ListenAddress::Tcp(..) | ListenAddress::Unix(_) => None,
    }
}

/// What a tenant's rings share.
pub(super) fn group(tenant: &TenantConfig, id: TenantId) -> Result<Arc<Group>, RingsError> {
    let mut settings = Settings::default();
    if !tenant.allow_uids.is_empty() {
        settings.allow_uids.clone_from(&tenant.allow_uids);
    }
    settings.spill = tenant
        .spill
        .as_deref()
        .map(|folder| spill(tenant, folder))
        .transpose()?;
    Ok(Arc::new(Group::new(id, settings)))
}

fn spill(tenant: &TenantConfig, folder: &Path) -> Result<Arc<dyn SpillFactory>, RingsError> {
    let opened = SpillFolder::open(folder, tenant.spill_size, tenant.spill_total);
    let opened = opened.map_err(|source| RingsError::Spill {
        name: tenant.settings.name.clone(),
        folder: folder.to_owned(),
        source,
    })?;
    Ok(Arc::new(opened))
}

/// Serves all rings, if there are any.
pub(crate) fn start(
    listeners: Vec<GroupListener>,
    threads: usize,
    backend: &Backend,
    far: Option<FarMemory>,
    failed: Arc<serve::OnFailure>,
) -> Result<Option<RingService>, RingsError> {
    match listeners.is_empty() {
        true => Ok(None),
        false => {
            let far = far.map(FarMemory::for_rings);
            let started = serve::start(listeners, threads, backend, far, failed)?;
            Ok(Some(started))
        }
    }
}

/// What a tenant's rings counted.
pub(crate) fn status(group: &Group) -> RingStatus {
    let figures = &group.figures;
    let mut operations: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for operation in Operation::ALL {
        let outcomes = operations.entry(operation.verb().to_owned()).or_default();
        outcomes.insert(
            operation.outcome().to_owned(),
            figures.operation(*operation),
        );
    }
    let bytes = |pages: &[Operation]| {
        let pages = pages.iter().map(|operation| figures.operation(*operation));
        Pages(pages.sum()).bytes()
    };
    RingStatus {
        connections: figures.connections.get(),
        pools_waiting: group.unclaimed_pools.len() as u64,
        connections_made: figures.connections_made.get(),
        refused_full: figures.refused_full.get(),
        refused_uid: figures.refused_uid.get(),
        refused_exhausted: figures.refused_exhausted.get(),
        ended_garbage: figures.ended_garbage.get(),
        entries: figures.entries.get(),
        operations,
        bytes_stored: bytes(&[Operation::PutStored, Operation::PutReplaced]),
        bytes_fetched: bytes(&[Operation::GetHit]),
        bells_rung: figures.bells_rung.get(),
        bells_heard: figures.bells_heard.get(),
    }
}
