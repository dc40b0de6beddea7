//! A swap file for the time of the bench: only where pages can be swapped does it mean anything that
//! none are.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::FallocateFlags;
use sublet_types::Bytes;

use super::super::child::Keeper;
use super::vitals;

const SWAP: Bytes = Bytes::gib(1);
const FOLDER: &str = "/var/tmp";

/// Has a swap file at `path` in use while `work` runs.
pub(in crate::bench) fn on_while(
    path: &Path,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let kept = switch_on(path).and_then(|()| {
        let worked = work();
        worked.and(tell("swapoff", path))
    });
    kept.and(fs::remove_file(path))
}

fn switch_on(path: &Path) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SWAP.0)?;
    tell("mkswap", path)?;
    tell("swapon", path)
}

fn tell(program: &str, path: &Path) -> io::Result<()> {
    let status = Command::new(program)
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{program} failed")))
    }
}

/// Switches a swap file on where there is no swap and root asks; says what came of it.
pub(super) fn on() -> (Option<Keeper>, String) {
    let has_swap = vitals::figures().is_ok_and(|host| host.swap > Bytes::ZERO);
    if has_swap {
        return (None, "the host's own swap was on".into());
    }
    if !rustix::process::geteuid().is_root() {
        let note = "no swap: without root none can be switched on, so nothing could be swapped out";
        return (None, note.into());
    }
    let path = Path::new(FOLDER).join(format!("sublet-bench-{}.swap", std::process::id()));
    match Keeper::start(&["swap".as_ref(), path.as_os_str()]) {
        Ok(keeper) => (Some(keeper), format!("a swap file of {SWAP} was on")),
        Err(error) => (None, format!("no swap: {error}")),
    }
}
