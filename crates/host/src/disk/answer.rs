//! What comes back to who asked a disk.

use std::io;

use sublet_frontends::block::{Buffer, Extent, Fault};

/// What comes back to who asked.
pub(super) struct Answer {
    pub(super) result: Result<(), Fault>,
    pub(super) buffer: Buffer,
    pub(super) extents: Vec<Extent>,
}

impl Answer {
    pub(super) fn of(result: Result<(), Fault>, buffer: Buffer) -> Answer {
        Answer {
            result,
            buffer,
            extents: Vec::new(),
        }
    }

    pub(super) fn of_io(result: io::Result<()>, buffer: Buffer) -> Answer {
        Answer::of(result.map_err(|error| fault(&error)), buffer)
    }
}

/// What a client is told of a backing's error.
fn fault(error: &io::Error) -> Fault {
    match error.kind() {
        // The last is a limit of the daemon's own (`ulimit -f`).
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Fault::NoSpace
        }
        io::ErrorKind::Unsupported => Fault::NotSupported,
        _ => Fault::Io,
    }
}
