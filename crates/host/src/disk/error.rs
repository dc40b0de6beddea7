//! Why a disk was not opened, changed or ended.

use std::io;
use std::path::PathBuf;

use sublet_frontends::listeners::{ListenError, TlsError};
use sublet_frontends::nbd::ExportsFull;
use sublet_frontends::nbd::serve::StartError;
use sublet_store::{CreatePoolError, TenantError, TooManyWorkers};
use sublet_types::{Bytes, DiskListen, DiskName, Pages, UnreadVersion};

use super::backing::BackingError;
use super::stage::KeeperError;
use crate::stuck::{self, SocketHolder};

/// Why a disk was not opened, changed or ended.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No disk of that name.
    #[error("no disk is called {0}")]
    NoDisk(DiskName),
    /// The disk could not be opened.
    #[error("disk {name} is closed: {why}")]
    Closed {
        /// Which disk.
        name: DiskName,
        /// Why.
        why: String,
    },
    /// What the disk's backing did not have yet is lost, and the disk's guest does not know.
    #[error(
        "whatever the backing of disk {0} did not have yet is gone: `sublet keep` ended while no daemon ran, or the daemon \
         before had another --admin. Its guest may read older pages than it wrote: end that guest, and have the disk \
         opened with --force"
    )]
    Lost(DiskName),
    /// The same, or another process still has it.
    #[error(
        "whatever the backing of disk {0} did not have yet is gone, or with a `sublet keep` that is not reached: there is no stage, and the \
         log says why. Mend that first: until then nobody knows what would be given up"
    )]
    OutOfReach(DiskName),
    /// A daemon of a newer release noted something of the disk.
    #[error("disk {name}: {source}")]
    Note {
        /// Which disk.
        name: DiskName,
        /// Why the note is not read.
        source: UnreadVersion,
    },
    /// What was noted of the disk is damaged.
    #[error(
        "{}, the note of which file disk {name} is served from, is damaged, and a guest may have swapped to another than the one that is there: \
         see that it is the right one, or end that guest, and have the disk opened with --force, which serves what is there", path.display()
    )]
    Garbled {
        /// Which disk.
        name: DiskName,
        /// Its note.
        path: PathBuf,
    },
    /// The disk's file is gone. Its guest may still live and would find an empty file in its place.
    #[error(
        "{}, the backing of disk {name}, is gone, and a guest may have swapped to it: bring it back, or end that guest and \
         have the disk opened with --force, which makes an empty one", path.display()
    )]
    Vanished {
        /// Which disk.
        name: DiskName,
        /// Its backing.
        path: PathBuf,
    },
    /// Another file is in the place of the disk's own. Its guest may still live and would read that file.
    #[error(
        "{} is another file or device than the one that disk {name} was served from since the host's start, and a guest may \
         have swapped to that: bring it back, or end that guest and have the disk opened with --force, which serves what \
         is there", path.display()
    )]
    Replaced {
        /// Which disk.
        name: DiskName,
        /// Its backing.
        path: PathBuf,
    },
    /// The disk is served already.
    #[error("disk {0} is open already; only a closed disk can be opened")]
    Open(DiskName),
    /// There is a disk of that name already.
    #[error("a disk is called {0} already; choose another name, or remove that one")]
    Exists(DiskName),
    /// The path is outside the folders that the owner allows.
    #[error("{} lies in none of the folders that `disk.allow` names: {folders}", path.display())]
    NotAllowed {
        /// The backing.
        path: PathBuf,
        /// The folders where it may be.
        folders: String,
    },
    /// The folder is not there and cannot be made.
    #[error("the folder {}: {source}", folder.display())]
    NoFolder {
        /// Which folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An image is to be made where something is.
    #[error("{} exists already", .0.display())]
    ImageExists(PathBuf),
    /// An image is to be made, and its size is not given.
    #[error("the image of disk {0} is to be made, and its size is not given")]
    NoImageSize(DiskName),
    /// The disk's backing hangs, or the folder with its notes.
    #[error("{} does not answer; try again when its file system does", path.display())]
    Mute {
        /// The backing, or the folder.
        path: PathBuf,
    },
    /// The disk has no backing, and there is nowhere to make one.
    #[error("disk {0} has no backing, and there is no state folder to make one in; name one")]
    NoBacking(DiskName),
    /// The disk's file was left by another tenant's disk.
    #[error("{} has what tenant {owner}'s disk of that name left: delete it, or choose another name", path.display())]
    OfAnother {
        /// The file.
        path: PathBuf,
        /// The tenant whose file it is.
        owner: String,
    },
    /// What is staged under the disk's name is another tenant's.
    #[error(
        "only memory has {left} of tenant {owner}'s disk {name}, which its backing did not take"
    )]
    LeftByAnother {
        /// Which disk.
        name: DiskName,
        /// The tenant whose pages they were.
        owner: String,
        /// Pages that have no copy on their backing.
        left: Pages,
    },
    /// The disk's file is there and does not say whose pages it has.
    #[error("{} is there already and does not say whose it is: delete it, or choose another name", .0.display())]
    OfNobody(PathBuf),
    /// The backing cannot be served.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// The disk cannot be served at a socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The disk cannot be served at a place as its settings say.
    #[error("cannot serve a disk at {place}: {source}")]
    Serve {
        /// Where.
        place: DiskListen,
        /// Why.
        source: io::Error,
    },
    /// Another process listens at the place.
    #[error("{source}: {by}")]
    Taken {
        /// The place, and why the disk cannot be served there.
        source: Box<DiskError>,
        /// Which process holds the place.
        by: Box<SocketHolder>,
    },
    /// Another disk is served at the place in another way.
    #[error(
        "{0} serves another disk with other certificates or another mode; give this one a place of its own"
    )]
    Place(DiskListen),
    /// The listener has as many disks as it may.
    #[error(transparent)]
    Full(#[from] ExportsFull),
    /// Its certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// NBD cannot be served at all.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no stage for pages of swap.
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    /// The store has no room for the disk's tenant.
    #[error("its tenant: {0}")]
    Tenant(#[from] TenantError),
    /// The disk's pages have no pool.
    #[error("no pool for the disk's pages: {0}")]
    Pool(#[from] CreatePoolError),
    /// The disk's thread has no worker in the store.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
    /// Another caller is changing the disk.
    #[error("disk {0} is busy; try again when that is done")]
    Busy(DiskName),
    /// The disk would lose bytes.
    #[error(
        "disk {name} has {has}; it can be made larger, not smaller: its guest may use what would go"
    )]
    Shrinks {
        /// Which disk.
        name: DiskName,
        /// Its size.
        has: Bytes,
    },
    /// The backing is to go with its disk, and is not ours to delete.
    #[error(
        "{} was named by its owner, and only a file that Sublet made is deleted with its disk: leave --delete away", path.display()
    )]
    NotOurs {
        /// The backing.
        path: PathBuf,
    },
    /// The backing is to go with a disk that comes back.
    #[error(
        "disk {0} comes back with the next start and needs its file then: leave --delete or --temporary away"
    )]
    NeedsFile(DiskName),
    /// The disk would not open again.
    #[error(
        "the backing of disk {0} stays as large after a restart, and the config says another size: leave --temporary away"
    )]
    Outgrows(DiskName),
    /// The disk stays as large as it is.
    #[error("disk {name} cannot be made larger: {source}")]
    NotGrown {
        /// Which disk.
        name: DiskName,
        /// Why.
        source: io::Error,
    },
    /// The backing failed while everything was written to it.
    #[error("the backing of disk {name} failed: {source}")]
    Failed {
        /// Which disk.
        name: DiskName,
        /// Why.
        source: io::Error,
    },
    /// The disk cannot go, because its backing holds what its clients asked for.
    #[error("the backing of disk {name} does not answer, and the disk is served as before")]
    Silent {
        /// Which disk.
        name: DiskName,
    },
    /// The disk cannot go, because only memory has what its guest wrote.
    #[error(
        "the backing of disk {name} failed: {source}; {left} that only memory has would be lost"
    )]
    Unwritten {
        /// Which disk.
        name: DiskName,
        /// Why.
        source: io::Error,
        /// Pages that have no copy on the backing.
        left: Pages,
    },
    /// The disk cannot come, because its name has pages of a backing that it had before.
    #[error(
        "a disk called {name} had another backing before, which did not take {left}: only memory has them"
    )]
    Stranded {
        /// Which disk.
        name: DiskName,
        /// Pages that have no copy on that backing.
        left: Pages,
    },
    /// No disk of that name is served, and only memory has what was swapped to it.
    #[error("disk {name} is no longer served, and only memory has {left} of it")]
    LeftBehind {
        /// Which disk.
        name: DiskName,
        /// Pages that have no copy on its backing.
        left: Pages,
    },
    /// The system refused.
    #[error("the system refused what the disk needs: {0}")]
    System(io::Error),
}

impl DiskError {
    /// Adds the process that listens at a taken socket to the error, if that can be seen.
    pub(super) fn with_who_listens(self) -> DiskError {
        let by = match &self {
            DiskError::Listen(error) => stuck::holder_of_address(error),
            DiskError::Serve {
                place: DiskListen::VhostUser(path),
                source,
            } if source.kind() == io::ErrorKind::AddrInUse => {
                stuck::socket_holder(path.as_ref()).map(Box::new)
            }
            _ => None,
        };
        match by {
            Some(by) => DiskError::Taken {
                source: Box::new(self),
                by,
            },
            None => self,
        }
    }

    /// Returns whether the error concerns only the disk's own guest, so that a daemon starts without the disk.
    ///
    /// That is so in these cases:
    ///
    /// - The backing looks like an image of another format, lacks pages, or has another tenant's pages.
    /// - The backing is gone or replaced, or does not answer.
    /// - The disk's note is damaged, or a newer release noted what this one does not read.
    pub(crate) fn is_its_guests(&self) -> bool {
        matches!(
            self,
            DiskError::Backing(BackingError::Format { .. })
                | DiskError::Lost(_)
                | DiskError::OutOfReach(_)
                | DiskError::Note { .. }
                | DiskError::Garbled { .. }
                | DiskError::Vanished { .. }
                | DiskError::Replaced { .. }
                | DiskError::Mute { .. }
                | DiskError::LeftByAnother { .. }
        )
    }
}
