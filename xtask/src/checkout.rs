//! The location of this checkout.

use std::path::{Path, PathBuf};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}
