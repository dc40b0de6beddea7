//! Changes to the host for the time of the bench: whatever becomes of the bench, they are taken back.

use std::io::{self, Read, Write};
use std::path::PathBuf;

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
