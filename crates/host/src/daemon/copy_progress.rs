//! The save or restore that is under way, and its progress.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_client::messages::CopyStatus;
use sublet_types::Bytes;

use super::save_error::SaveError;

/// The save or restore that is under way, if there is one.
#[derive(Default)]
pub(super) struct CopyProgress(Mutex<Option<RunningCopy>>);

struct RunningCopy {
    begun: CopyStatus,
    done: Arc<AtomicU64>,
}

impl CopyProgress {
    /// Begins a copy. No other copy can begin while the returned turn lives. Also returns the count of bytes that the
    /// status shows.
    pub(super) fn begin(
        &self,
        begun: CopyStatus,
    ) -> Result<(CopyGuard<'_>, Arc<AtomicU64>), SaveError> {
        let mut now = self.0.lock();
        if let Some(other) = &*now {
            return Err(SaveError::Busy(other.begun.tenant.clone()));
        }
        let done = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&done);
        *now = Some(RunningCopy { begun, done });
        Ok((CopyGuard(self), count))
    }

    /// The progress.
    pub(super) fn status(&self) -> Option<CopyStatus> {
        let now = self.0.lock();
        let now = now.as_ref()?;
        let done = Bytes(now.done.load(Ordering::Relaxed));
        // Pages that were put meanwhile make a file larger than was expected.
        let of = now.begun.of.max(done);
        Some(CopyStatus {
            done,
            of,
            ..now.begun.clone()
        })
    }
}

pub(super) struct CopyGuard<'a>(&'a CopyProgress);

impl Drop for CopyGuard<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

/// Counts the bytes that pass.
pub(super) struct CountingIo<T> {
    pub(super) inner: T,
    pub(super) done: Arc<AtomicU64>,
}

impl<T> CountingIo<T> {
    fn count(&self, passed: io::Result<usize>) -> io::Result<usize> {
        if let Ok(bytes) = &passed {
            self.done.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        passed
    }
}

impl<T: Write> Write for CountingIo<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.count(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for CountingIo<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes);
        self.count(read)
    }
}
