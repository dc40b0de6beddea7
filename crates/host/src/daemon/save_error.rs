//! Why a tenant was not saved or restored.

use std::io::{self};
use std::path::PathBuf;

use sublet_store::{PoolEnded, RestoreError, TooManyWorkers};
use sublet_types::TenantName;

/// Why a tenant was not saved or restored. Nothing was changed, and no file is left.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The path depends on where the daemon was started.
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    /// There is a file already, and it stays.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// The file cannot be made or written.
    #[error("the daemon cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be opened.
    #[error("the daemon cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    /// What the file says is wrong, or does not fit here.
    #[error("{}: {source}", path.display())]
    Refused {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: RestoreError,
    },
    /// No program could use the pages.
    #[error("tenant {0} has no ring, so that no program could use the pages")]
    NoRing(TenantName),
    /// Persistent pages need a place on disk.
    #[error("tenant {0} has no spill folder, which persistent pages need")]
    NoSpill(TenantName),
    /// A spill file cannot be made.
    #[error("tenant {name}: cannot make a spill file: {source}")]
    Spill {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: io::Error,
    },
    /// A frozen tenant takes no pages.
    #[error("tenant {0} is frozen and takes no pages")]
    Frozen(TenantName),
    /// Programs have not yet taken over the pools of an earlier restore.
    #[error("{waiting} restored pools of tenant {name} still wait for their program")]
    Waiting {
        /// Which tenant.
        name: TenantName,
        /// How many.
        waiting: usize,
    },
    /// The tenant's program gives the pages up.
    #[error("tenant {0} was not saved: {PoolEnded}")]
    Ended(TenantName),
    /// Another save or restore of the tenant is under way.
    #[error("tenant {0} is being saved or restored")]
    Busy(TenantName),
    /// The store has no room for one more thread.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

impl SaveError {
    /// The error as one of a tenant: if its pool ended, that is not a fault of the file.
    pub(super) fn for_tenant(self, name: &TenantName) -> SaveError {
        match self {
            SaveError::Write { source, .. } if is_pool_ended(&source) => {
                SaveError::Ended(name.clone())
            }
            other => other,
        }
    }
}

fn is_pool_ended(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<PoolEnded>())
}
