//! Page rings: bound before anything else begins, served beside memcached.

use std::path::Path;
use std::sync::Arc;

use sublet_frontends::memcached::serve::Premises;
use sublet_frontends::ring::serve::{
    self, Door, Group, ListenError, Listener, Running, StartError,
};
use sublet_frontends::ring::{Settings, Spills};
use sublet_types::{TenantId, TenantName};

use crate::config::{Listen, TenantConfig};
use crate::spill::SpillFolder;

/// Why a tenant's rings cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RingsError {
    /// The place is taken, or not ours to take.
    #[error("tenant {name}: {source}")]
    Listen {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: ListenError,
    },
    /// The spill folder is of no use.
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

/// The rings of a tenant.
pub(super) fn listeners(tenant: &TenantConfig) -> Result<Vec<Listener>, RingsError> {
    let paths = tenant.listen.iter().filter_map(path);
    let bound = paths.map(|path| serve::bind(path, tenant.mode));
    bound
        .collect::<Result<_, _>>()
        .map_err(|source| RingsError::Listen {
            name: tenant.settings.name.clone(),
            source,
        })
}

fn path(place: &Listen) -> Option<&Path> {
    match place {
        Listen::Ring(path) => Some(path),
        Listen::Tcp(..) | Listen::Unix(_) => None,
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

fn spill(tenant: &TenantConfig, folder: &Path) -> Result<Arc<dyn Spills>, RingsError> {
    let opened = SpillFolder::open(folder, tenant.spill_size);
    let opened = opened.map_err(|source| RingsError::Spill {
        name: tenant.settings.name.clone(),
        folder: folder.to_owned(),
        source,
    })?;
    Ok(Arc::new(opened))
}

/// Serves all rings, if there are any.
pub(super) fn start(
    doors: Vec<Door>,
    threads: usize,
    premises: &Premises,
    failed: Arc<serve::Failed>,
) -> Result<Option<Running>, RingsError> {
    match doors.is_empty() {
        true => Ok(None),
        false => Ok(Some(serve::start(doors, threads, premises, failed)?)),
    }
}
