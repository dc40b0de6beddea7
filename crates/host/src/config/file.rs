//! A file of a config, as text.

use std::io;
use std::path::{Path, PathBuf};

use super::faults::ConfigFaults;

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file was read and makes no sense.
    #[error(transparent)]
    Faults(#[from] ConfigFaults),
}

/// The most bytes of a config file: 1024 tenants with all their settings.
const FILE_BYTES_MAX: u64 = 4 << 20;

pub(super) fn read_text(path: &Path) -> Result<String, LoadError> {
    let unreadable = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    sublet_tls::read_text(path, FILE_BYTES_MAX).map_err(unreadable)
}
