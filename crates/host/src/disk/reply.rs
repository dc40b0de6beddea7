//! The reply of a disk to a request.

use std::io;

use sublet_frontends::block_device::{Buffer, DiskFault, Extent};

/// The reply to a request.
pub(super) struct DiskReply {
    pub(super) result: Result<(), DiskFault>,
    pub(super) buffer: Buffer,
    pub(super) extents: Vec<Extent>,
}

impl DiskReply {
    pub(super) fn of(result: Result<(), DiskFault>, buffer: Buffer) -> DiskReply {
        DiskReply {
            result,
            buffer,
            extents: Vec::new(),
        }
    }

    pub(super) fn of_io(result: io::Result<()>, buffer: Buffer) -> DiskReply {
        DiskReply::of(result.map_err(|error| fault_of_error(&error)), buffer)
    }
}

/// The fault that a client gets for a backing's error.
fn fault_of_error(error: &io::Error) -> DiskFault {
    match error.kind() {
        // The last kind is a limit of the daemon itself (`ulimit -f`).
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            DiskFault::NoSpace
        }
        io::ErrorKind::Unsupported => DiskFault::NotSupported,
        _ => DiskFault::Io,
    }
}
