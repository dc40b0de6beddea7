//! A child process that keeps a change to the host for as long as a bench needs it.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A change that lasts as long as this value.
pub(super) struct HostChangeGuard(Child);

impl HostChangeGuard {
    /// Makes the change. Returns once it is in force.
    pub(super) fn start<S: AsRef<OsStr>>(change: &[S]) -> io::Result<HostChangeGuard> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bench-keep")
            .args(change)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends the bench. The child must still undo the change.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let mut keeper = HostChangeGuard(child);
        if line.trim() == "on" {
            return Ok(keeper);
        }
        let mut why = String::new();
        if let Some(stderr) = &mut keeper.0.stderr {
            stderr.read_to_string(&mut why)?;
        }
        Err(io::Error::other(why.trim().to_owned()))
    }
}

impl Drop for HostChangeGuard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
