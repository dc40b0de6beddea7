//! `sublet keep`: the process that keeps pages of swap while no daemon runs. The daemon starts it.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::signals::survive_strays;

/// Where it listens.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The socket that a daemon asks at; the pages are standard input
    socket: PathBuf,
}

/// Keeps until a daemon says that nothing is left.
pub(crate) fn run(args: &Args) -> Exit {
    if let Err(exit) = survive_strays() {
        return exit;
    }
    match sublet_host::disk::keep(&args.socket) {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(format_args!(
            "cannot keep pages at {}: {error}",
            args.socket.display()
        )),
    }
}
