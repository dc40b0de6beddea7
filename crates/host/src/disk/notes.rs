//! Small files in the state folder that one daemon leaves for the next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::{Claim, KeepError};
use crate::patience::patiently;

/// The host's start: no guest that ran before it is left.
pub(super) fn host_start() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(boot.trim().to_owned())
}

/// Where they are.
pub(super) fn folder(state: &Claim) -> Option<PathBuf> {
    state.folder().map(|folder| folder.join("disks"))
}

/// There is no folder for them.
pub(super) fn nowhere() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "there is no state folder (--state FOLDER)",
    )
}

/// Another daemon's notes are not touched; one that was killed is waited for.
fn lay(state: &Claim) -> io::Result<()> {
    let may_pass = |error: &KeepError| matches!(error, KeepError::Shared(_));
    let laid = patiently(may_pass, || state.lay().map(|_| ()));
    laid.map_err(io::Error::other)
}

/// Leaves a note. Half of one would be none: the one before stays until this one is whole.
pub(super) fn leave(state: &Claim, path: &Path, text: &str) -> io::Result<()> {
    lay(state)?;
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let left = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    left.inspect_err(|_| _ = fs::remove_file(&beside))
}

/// Takes a note away, if there is one.
pub(super) fn take(state: &Claim, path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    lay(state)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        taken => taken,
    }
}
