//! The interface between block protocols and disks, whatever backs a disk.
//!
//! A frontend first asks the [`DiskFastPath`] of its thread. The fast path answers from memory or not at all. If a
//! request would have to wait for a backing, the frontend submits it to the [`Disk`] as a [`DiskRequest`]. The disk
//! returns a [`DiskOutcome`] for each request, in any order. A disk orders requests that overlap: a request sees
//! everything that the disk answered before the frontend sent it.

mod buffer;
mod request_flags;
mod spare_buffers;

use std::sync::Arc;

use sublet_types::TenantId;

pub use self::buffer::Buffer;
pub use self::request_flags::{ExtentLimit, Fua, Hole, ZeroSpeed, Zeroing};
pub(crate) use self::spare_buffers::SpareBuffers;
use crate::tenancy::StoreHandle;

/// Bytes of a sector, the smallest unit that guests count in.
pub const SECTOR_BYTES: u64 = 512;

/// The most bytes of one read, write or prefetch.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// What frontends and guests see of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShape {
    /// The disk's size in bytes, a multiple of [`SECTOR_BYTES`].
    pub bytes: u64,
    /// Whether the disk refuses writes.
    pub read_only: bool,
    /// Whether a trim has any effect.
    pub trims: bool,
}

impl DiskShape {
    /// Checks that a range lies on the disk.
    pub fn check(&self, at: u64, len: u64) -> Result<(), DiskFault> {
        match at.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(DiskFault::OutOfRange),
        }
    }
}

/// What a frontend asks a disk to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// Fills the buffer.
    Read,
    /// Writes the buffer.
    Write {
        /// When the disk answers.
        fua: Fua,
    },
    /// Makes every change durable that the disk answered before.
    Flush,
    /// Drops the bytes, which nobody needs any more. A later read may find anything there.
    Trim,
    /// Makes the bytes zero.
    Zero(Zeroing),
    /// Announces that the bytes will be read soon. This always succeeds.
    Prefetch,
    /// Finds out which parts the backing has bytes for.
    Extents {
        /// How many extents the client wants.
        limit: ExtentLimit,
    },
}

impl DiskOperation {
    /// Returns whether the operation changes the disk's bytes.
    pub fn changes(self) -> bool {
        match self {
            DiskOperation::Write { .. } | DiskOperation::Trim | DiskOperation::Zero(_) => true,
            DiskOperation::Read
            | DiskOperation::Flush
            | DiskOperation::Prefetch
            | DiskOperation::Extents { .. } => false,
        }
    }
}

/// One request to a disk.
pub struct DiskRequest {
    /// What the disk is to do.
    pub operation: DiskOperation,
    /// The offset of the first byte.
    pub at: u64,
    /// How many bytes; 0 for a flush.
    pub len: u64,
    /// `len` bytes for a read or a write. Any other request leaves it empty.
    pub buffer: Buffer,
    /// The sink that receives the outcome.
    pub outcomes: Arc<dyn OutcomeSink>,
    /// The sink's name for the request.
    pub token: u64,
}

/// How a request ended.
pub struct DiskOutcome {
    /// The request's token.
    pub token: u64,
    /// Whether the request succeeded.
    pub result: Result<(), DiskFault>,
    /// The request's buffer. A read has filled it.
    pub buffer: Buffer,
    /// The extents that a [`DiskOperation::Extents`] found. They are in order and without a gap, from the request's
    /// first byte on. They may end before the request's range does.
    pub extents: Vec<Extent>,
}

/// A stretch of bytes that are all of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many bytes.
    pub len: u64,
    /// Whether the backing has a hole there, so that reads give zeroes.
    pub hole: bool,
}

/// Receives outcomes. The disk's thread calls it, so it must not block.
pub trait OutcomeSink: Send + Sync {
    /// Takes the outcome of a request that is done.
    fn deliver(&self, outcome: DiskOutcome);
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskFault {
    /// The range reaches beyond the disk's end.
    #[error("the range reaches beyond the end of the disk")]
    OutOfRange,
    /// The request changes a disk that is read-only.
    #[error("the disk is read-only")]
    ReadOnly,
    /// The backing has no room left.
    #[error("the backing has no room left")]
    NoSpace,
    /// The backing failed.
    #[error("the backing failed")]
    Io,
    /// The disk cannot do what was asked.
    #[error("the disk cannot do that")]
    NotSupported,
    /// The daemon is removing the disk.
    #[error("the disk is going away")]
    Leaving,
}

/// A disk. All its frontends share it.
pub trait Disk: Send + Sync {
    /// The disk's name, which is also its export name.
    fn name(&self) -> &str;

    /// The tenant whose memory the disk uses.
    fn tenant(&self) -> TenantId;

    /// What the disk looks like now. Only its size may change.
    fn shape(&self) -> DiskShape;

    /// Opens the fast path of one thread.
    fn fast_path(self: Arc<Self>, store: &StoreHandle) -> Box<dyn DiskFastPath>;

    /// Queues a request. It never blocks. The outcome comes later, and it always comes.
    fn submit(&self, request: DiskRequest);
}

/// One thread's fast path to a disk. It answers what memory can answer at once. Ranges need not be aligned, but they
/// must lie on the disk.
pub trait DiskFastPath {
    /// Reads if all bytes are in memory, and says whether they were. If they were not, it may have written to `into`.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;

    /// Writes if memory may take the bytes, and says whether it did. It refuses what must reach the backing first.
    fn write(&self, at: u64, from: &[u8], fua: Fua) -> bool;

    /// Forgets the range if that touches memory only, and says whether it did.
    fn trim(&self, at: u64, len: u64) -> bool;

    /// Returns whether everything that the disk answered is durable already.
    fn flush(&self) -> bool;

    /// What lies at an offset, for up to `len` bytes, as [`DiskOperation::Extents`] would say. `None` if memory does
    /// not know.
    fn extent(&self, _at: u64, _len: u64) -> Option<Extent> {
        None
    }
}
