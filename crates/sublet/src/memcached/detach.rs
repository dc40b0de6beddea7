//! `-d`: the process starts itself again without a terminal, and waits until the new process serves.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

/// Set in the environment of the process in the background.
const MARK: &str = "SUBLET_DETACHED";

/// The byte that the process in the background writes once it serves.
const READY: u8 = b'+';

/// Returns whether this is the process in the background.
pub(super) fn is_detached() -> bool {
    env::var_os(MARK).is_some()
}

/// Starts the process in the background with the same arguments. Returns the exit status to end with.
pub(super) fn detach(arguments: &[OsString]) -> io::Result<u8> {
    let mut background = Command::new(env::current_exe()?)
        .arg("memcached")
        .args(arguments)
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut byte = [0];
    let ready = match &mut background.stdout {
        Some(stdout) => stdout.read(&mut byte)?,
        None => 0,
    };
    if ready == 1 && byte[0] == READY {
        return Ok(0);
    }
    let ended = background.wait()?.code();
    Ok(ended.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Leaves the terminal. This comes first in the background.
pub(super) fn leave_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Where the process in the background writes messages from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BackgroundOutput {
    /// Nowhere.
    Nothing,
    /// Still on stderr (`-v`).
    OnStderr,
}

/// Tells the starting process that this one serves, and closes its streams. This comes last before serving.
pub(super) fn report_ready(says: BackgroundOutput) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(&[READY])?;
    stdout.flush()?;
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    if says == BackgroundOutput::Nothing {
        rustix::stdio::dup2_stderr(&nowhere)?;
    }
    Ok(())
}
