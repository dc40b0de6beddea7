//! Changes to the host for the time of the bench. They are undone however the bench ends.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use super::disks::mounted;
use super::lend::namespaces;
use super::pressure::{page_reporting, swap};
use crate::exit::Exit;

/// Changes something until stdin ends.
#[derive(Debug, clap::Args)]
pub(crate) struct HostChangeArgs {
    #[command(subcommand)]
    change: HostChange,
}

#[derive(Debug, clap::Subcommand)]
enum HostChange {
    /// Use a swap file
    Swap { path: PathBuf },
    /// Keep freed memory with this virtual machine
    Warmth,
    /// Show a disk that is served over NBD as a file in a folder
    Shown { uri: String, folder: PathBuf },
    /// Mount the file system in a file
    Mounted { file: PathBuf, place: PathBuf },
    /// Have two network namespaces with a link between them
    Linked { bench: u32 },
}

/// Makes the change, and holds it until stdin ends.
pub(super) fn hold_change(args: &HostChangeArgs) -> Exit {
    let kept = match &args.change {
        HostChange::Swap { path } => swap::on_while(path, until_told),
        HostChange::Warmth => page_reporting::on_while(until_told),
        HostChange::Shown { uri, folder } => mounted::shown_while(uri, folder, until_told),
        HostChange::Mounted { file, place } => mounted::mounted_while(file, place, until_told),
        HostChange::Linked { bench } => namespaces::linked_while(*bench, until_told),
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
