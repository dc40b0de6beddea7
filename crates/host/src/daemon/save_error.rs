//! Why a tenant was not saved or restored.

use std::io::{self};
use std::path::PathBuf;

use sublet_store::{PoolEnded, RestoreError, TooManyWorkers};
use sublet_types::TenantName;

/// Why a tenant was not saved or restored. Nothing was changed, and no file is left.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A path that depends on where the daemon was started.
    #[error("{} is not a path from the root on", .0.display())]
    Relative(PathBuf),
    /// What is there stays.
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
    /// A folder, a pipe, a device.
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    /// What the file says is wrong, or has no place here.
    #[error("{}: {source}", path.display())]
    Refused {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: RestoreError,
    },
    /// Nobody could use the pages.
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
    /// An earlier restore's pools were not taken over yet.
    #[error("{waiting} restored pools of tenant {name} still wait for their program")]
    Waiting {
        /// Which tenant.
        name: TenantName,
        /// How many.
        waiting: usize,
    },
    /// Its program lets go of the pages.
    #[error("tenant {0} was not saved: {PoolEnded}")]
    Ended(TenantName),
    /// One at a time.
    #[error("tenant {0} is being saved or restored")]
    Busy(TenantName),
    /// The store has no place for one thread more.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

impl SaveError {
    /// As of a tenant: where its pool ended, that is no fault of the file.
    pub(super) fn of(self, name: &TenantName) -> SaveError {
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
