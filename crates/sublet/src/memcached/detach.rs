//! `-d`: the process starts itself once more, without a terminal, and waits until that one serves.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

/// Set in the environment of the process in the background.
const MARK: &str = "SUBLET_DETACHED";

/// What the process in the background says once it serves.
const READY: u8 = b'+';

/// Whether this is the process in the background.
pub(super) fn is_detached() -> bool {
    env::var_os(MARK).is_some()
}

/// Starts the process in the background with the same arguments; the exit status to end with.
pub(super) fn detach(arguments: &[OsString]) -> io::Result<u8> {
    let mut background = Command::new(env::current_exe()?)
        .arg("memcached")
        .args(arguments)
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = [0];
    let ready = match &mut background.stdout {
        Some(stdout) => stdout.read(&mut said)?,
        None => 0,
    };
    if ready == 1 && said[0] == READY {
        return Ok(0);
    }
    let ended = background.wait()?.code();
    Ok(ended.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// First thing in the background: away from the terminal.
pub(super) fn leave_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Where the process in the background says things from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// Nowhere.
    Nothing,
    /// Still on stderr (`-v`).
    OnStderr,
}

/// Last thing before serving in the background: tells who started it, and lets go of its streams.
pub(super) fn tell_ready(says: Says) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(&[READY])?;
    stdout.flush()?;
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    if says == Says::Nothing {
        rustix::stdio::dup2_stderr(&nowhere)?;
    }
    Ok(())
}
