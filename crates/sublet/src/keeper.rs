//! `sublet keep`: the process that keeps pages of swap while no daemon runs. The daemon starts it.

use std::path::PathBuf;

use crate::exit::Exit;
use crate::signals::survive_strays;

/// Options of the keeper.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Answer daemons at this socket; the pages are standard input
    socket: PathBuf,
}

/// Keeps the pages until a daemon says that nothing is left.
pub(crate) fn run(args: &Args) -> Exit {
    if let Err(exit) = survive_strays() {
        return exit;
    }
    match sublet_host::disk::run_keeper(&args.socket) {
        Ok(()) => Exit::Done,
        Err(error) => Exit::failed(format_args!(
            "cannot keep pages at {}: {error}",
            args.socket.display()
        )),
    }
}
