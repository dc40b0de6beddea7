//! What a block protocol asks of a disk, whatever is behind it.
//!
//! A frontend first asks its thread's [`Desk`], which answers from memory or not at all. What would wait for a
//! backing is sent to the [`Disk`] as a [`Request`], and comes back as an [`Outcome`], in any order. A disk
//! orders what overlaps: a request sees all that was answered before it was sent.

mod buffer;
mod spares;

use std::sync::Arc;

use sublet_types::TenantId;

pub use self::buffer::Buffer;
pub(crate) use self::spares::Spares;
use crate::tenancy::Doorman;

/// Bytes of the smallest unit that guests count in.
pub const SECTOR_BYTES: u64 = 512;

/// The most bytes of one read, write or prefetch.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// What a disk looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its size, a multiple of [`SECTOR_BYTES`].
    pub bytes: u64,
    /// Nobody may write.
    pub read_only: bool,
    /// Whether a trim does anything.
    pub trims: bool,
}

impl Shape {
    /// That a range lies on the disk.
    pub fn check(&self, at: u64, len: u64) -> Result<(), Fault> {
        match at.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Fault::OutOfRange),
        }
    }
}

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Fills the buffer.
    Read,
    /// Writes the buffer. `lasting`: it is answered when the bytes would survive what FLUSH survives (FUA).
    Write {
        /// See above.
        lasting: bool,
    },
    /// Everything that was answered before lasts.
    Flush,
    /// Nobody needs these bytes any more; what a read finds there is not said.
    Trim,
    /// The bytes become zero.
    Zero {
        /// The backing may make a hole.
        hole: bool,
        /// Rather fail at once ([`Fault::NotSupported`]) than take as long as a write.
        fast: bool,
        /// As a write's.
        lasting: bool,
    },
    /// These bytes will be read soon. Always answered well.
    Prefetch,
    /// Which parts the backing has bytes for. `one`: only the first is wanted.
    Extents {
        /// See above.
        one: bool,
    },
}

impl Verb {
    /// Whether the disk has other bytes afterwards.
    pub fn changes(self) -> bool {
        match self {
            Verb::Write { .. } | Verb::Trim | Verb::Zero { .. } => true,
            Verb::Read | Verb::Flush | Verb::Prefetch | Verb::Extents { .. } => false,
        }
    }
}

/// Something that is asked of a disk.
pub struct Request {
    /// What.
    pub verb: Verb,
    /// The first byte.
    pub at: u64,
    /// How many; 0 for a flush.
    pub len: u64,
    /// Of `len` bytes for reads and writes; empty else.
    pub buffer: Buffer,
    /// Who hears of it.
    pub to: Arc<dyn Outcomes>,
    /// What it is called there.
    pub token: u64,
}

/// What became of a request.
pub struct Outcome {
    /// The request's.
    pub token: u64,
    /// Whether it succeeded.
    pub result: Result<(), Fault>,
    /// The request's, filled by a read.
    pub buffer: Buffer,
    /// What an [`Verb::Extents`] found, in order and without a gap from its first byte on; it may end early.
    pub extents: Vec<Extent>,
}

/// Bytes that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub len: u64,
    /// The backing has a hole there, and reads give zeroes.
    pub hole: bool,
}

/// Who hears of outcomes. Called by the disk's thread: it must not block.
pub trait Outcomes: Send + Sync {
    /// A request is done.
    fn done(&self, outcome: Outcome);
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It reaches beyond the disk's end.
    #[error("the range reaches beyond the end of the disk")]
    OutOfRange,
    /// A write to a disk that is read-only.
    #[error("the disk is read-only")]
    ReadOnly,
    /// The backing has no room.
    #[error("the backing has no room left")]
    NoSpace,
    /// The backing failed.
    #[error("the backing failed")]
    Io,
    /// Not by this disk.
    #[error("the disk cannot do that")]
    NotSupported,
    /// The disk is being removed.
    #[error("the disk is going away")]
    Leaving,
}

/// A disk, as all its frontends share it.
pub trait Disk: Send + Sync {
    /// Its name, also as an export.
    fn name(&self) -> &str;

    /// Whose memory it uses.
    fn tenant(&self) -> TenantId;

    /// What it looks like now; only its size may ever change.
    fn shape(&self) -> Shape;

    /// A handle for one thread.
    fn desk(self: Arc<Self>, doorman: &Doorman) -> Box<dyn Desk>;

    /// Carries a request out. Never blocks; its outcome comes later, and comes always.
    fn start(&self, request: Request);
}

/// One thread's handle on a disk: what memory can answer at once. Ranges need not be aligned, but lie on the disk.
pub trait Desk {
    /// Reads, if all of it is in memory. If it says no, `into` may have been written to.
    fn read(&self, at: u64, into: &mut [u8]) -> bool;

    /// Writes, if memory may take it. Says no to anything that must reach the backing first.
    fn write(&self, at: u64, from: &[u8], lasting: bool) -> bool;

    /// Forgets, if that touches memory only.
    fn trim(&self, at: u64, len: u64) -> bool;

    /// Whether all that was answered lasts already.
    fn flush(&self) -> bool;

    /// What is at a place, for up to `len` bytes, as [`Verb::Extents`] would say; if that is known.
    fn extent(&self, _at: u64, _len: u64) -> Option<Extent> {
        None
    }
}
