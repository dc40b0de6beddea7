//! A swap file for the time of the bench. That no page was swapped means something only if pages can be swapped.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::FallocateFlags;
use sublet_types::Bytes;

use super::super::host_change_guard::HostChangeGuard;
use super::vitals;

const SWAP: Bytes = Bytes::gib(1);
const FOLDER: &str = "/var/tmp";

/// Keeps a swap file at `path` in use while `work` runs.
pub(in crate::bench) fn on_while(
    path: &Path,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let kept = switch_on(path).and_then(|()| {
        let worked = work();
        worked.and(run_swap_program("swapoff", path))
    });
    kept.and(fs::remove_file(path))
}

fn switch_on(path: &Path) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SWAP.0)?;
    run_swap_program("mkswap", path)?;
    run_swap_program("swapon", path)
}

fn run_swap_program(program: &str, path: &Path) -> io::Result<()> {
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

/// Switches a swap file on if there is no swap and root runs the bench. Returns a note on the result.
pub(super) fn on() -> (Option<HostChangeGuard>, String) {
    let has_swap = vitals::figures().is_ok_and(|host| host.swap > Bytes::ZERO);
    if has_swap {
        return (None, "the host's own swap was on".into());
    }
    if !rustix::process::geteuid().is_root() {
        let note = "no swap: without root none can be switched on, so nothing could be swapped out";
        return (None, note.into());
    }
    let path = Path::new(FOLDER).join(format!("sublet-bench-{}.swap", std::process::id()));
    match HostChangeGuard::start(&["swap".as_ref(), path.as_os_str()]) {
        Ok(keeper) => (Some(keeper), format!("a swap file of {SWAP} was on")),
        Err(error) => (None, format!("no swap: {error}")),
    }
}
