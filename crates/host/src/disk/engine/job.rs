//! What an engine has done to a file, and who carries it out.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use sublet_frontends::block::Buffer;

/// Requests to the backing that are under way at the same time; more wait their turn.
pub(in super::super) const FLYING_MAX: usize = 128;

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Deed {
    /// Reads into the buffer's part.
    Read,
    /// Writes the buffer's part.
    Write(Haste),
    /// Everything that was written lasts (fdatasync).
    Sync,
    /// Makes a hole of so many bytes.
    Punch(u64),
    /// Makes so many bytes zero without writing them.
    Zero(u64),
}

/// How soon a write is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Haste {
    /// Somebody waits for it.
    Awaited,
    /// Nobody does: the device may serve all others first. Threads that write where there is no io_uring know no
    /// difference.
    Leisurely,
}

/// A deed, with all it needs.
pub(in super::super) struct Job {
    pub(in super::super) deed: Deed,
    pub(in super::super) file: Arc<File>,
    pub(in super::super) at: u64,
    pub(in super::super) buffer: Buffer,
    pub(in super::super) part: Range<usize>,
}

/// Who carries jobs out. Rings the bell when one is done.
pub(in super::super) trait Carrier {
    /// Takes a job, or gives it back when it has enough to do.
    fn carry(&mut self, token: usize, job: Job) -> Result<(), Job>;

    /// Sends what was taken on its way. Says whether all of it went.
    fn send(&mut self) -> io::Result<bool>;

    /// Those that are done: token, bytes or error, and the buffer.
    fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer));
}
