//! What an engine does to a file, and the trait of those that carry it out.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use sublet_frontends::block_device::Buffer;

/// The most requests to the backing that are under way at once. More requests wait their turn.
pub(in super::super) const FLYING_MAX: usize = 128;

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum IoOperation {
    /// Reads into the buffer's part.
    Read,
    /// Writes the buffer's part.
    Write(IoPriority),
    /// Makes everything that was written last (fdatasync).
    Sync,
    /// Makes a hole of this many bytes.
    Punch(u64),
    /// Makes this many bytes zero without writing them.
    Zero(u64),
}

/// How soon a write is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum IoPriority {
    /// A caller waits for the write.
    Awaited,
    /// No caller waits, and the device may serve all other requests first. Threads that write without io_uring make no
    /// difference.
    Background,
}

/// An operation with all it needs.
pub(in super::super) struct IoJob {
    pub(in super::super) operation: IoOperation,
    pub(in super::super) file: Arc<File>,
    pub(in super::super) at: u64,
    pub(in super::super) buffer: Buffer,
    pub(in super::super) part: Range<usize>,
}

/// Carries jobs out, and notifies the event descriptor when one is done.
pub(in super::super) trait IoExecutor {
    /// Takes a job, or gives it back if the executor has enough to do.
    fn enqueue(&mut self, token: usize, job: IoJob) -> Result<(), IoJob>;

    /// Submits the jobs that were taken. Returns whether all of them went.
    fn submit(&mut self) -> io::Result<bool>;

    /// Collects the jobs that are done: token, bytes or error, and the buffer.
    fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer));
}
