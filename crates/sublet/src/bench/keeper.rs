//! Changes to the host for the time of the bench: whatever becomes of the bench, they are taken back.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::block::mounted;
use super::pressure::{swap, warmth};
use crate::exit::Exit;

/// Changes something until stdin ends.
#[derive(Debug, clap::Args)]
pub(crate) struct KeepArgs {
    #[command(subcommand)]
    change: Change,
}

#[derive(Debug, clap::Subcommand)]
enum Change {
    /// A swap file is in use
    Swap { path: PathBuf },
    /// Freed memory stays with this virtual machine
    Warmth,
    /// A disk that is served over NBD is a file in a folder
    Shown { uri: String, folder: PathBuf },
    /// A file's file system is mounted
    Mounted { file: PathBuf, place: PathBuf },
}

/// The keeper itself.
pub(super) fn keep(args: &KeepArgs) -> Exit {
    let kept = match &args.change {
        Change::Swap { path } => swap::on_while(path, until_told),
        Change::Warmth => warmth::on_while(until_told),
        Change::Shown { uri, folder } => mounted::shown_while(uri, folder, until_told),
        Change::Mounted { file, place } => mounted::mounted_while(file, place, until_told),
    };
    match kept {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(error),
    }
}

fn until_told() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "on")?;
    stdout.flush()?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

/// A change that holds for as long as this lives.
pub(super) struct Keeper(Child);

impl Keeper {
    /// Makes the change; returns when it holds.
    pub(super) fn start<S: AsRef<OsStr>>(change: &[S]) -> io::Result<Keeper> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bench-keep")
            .args(change)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends the bench; the keeper then still has its work to do.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let mut keeper = Keeper(child);
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

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
