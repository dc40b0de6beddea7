//! What a guest does next, and the source of its steps.

use serde::Deserialize;

use crate::traces::{PageOp, TraceError, TracePage};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// One thing that a guest does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadStep {
    /// It computes for this long.
    Compute(VirtualDuration),
    /// It waits until this instant.
    Until(VirtualInstant),
    /// It touches a page of anonymous memory.
    Touch {
        /// The page.
        page: u64,
        /// Whether it reads it or writes to it.
        op: PageOp,
    },
    /// It frees anonymous memory.
    Release {
        /// The first page.
        from: u64,
        /// Pages.
        count: u64,
    },
    /// It reads a file.
    Read(FileSpan),
    /// It writes to a file.
    Write(FileSpan),
    /// It deletes a file.
    Delete {
        /// The file.
        object: u64,
        /// The number of its pages.
        pages: u32,
    },
    /// A stretch begins whose running time is of interest. It ends where the next one begins.
    Begin(String),
    /// The stretch ends.
    End,
    /// Nothing more follows.
    Done,
}

/// Pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpan {
    /// The file.
    pub object: u64,
    /// The first page.
    pub from: u32,
    /// The number of pages.
    pub count: u32,
    /// Where the file ends. Read-ahead goes no farther.
    pub end: u32,
}

impl FileSpan {
    /// The pages' indices.
    pub fn indices(&self) -> std::ops::Range<u32> {
        self.from..self.from.saturating_add(self.count)
    }
}

/// A source of steps.
pub trait Workload {
    /// Returns the next step at `now`. After [`WorkloadStep::Done`] there is no other.
    ///
    /// # Errors
    ///
    /// A trace cannot be read any farther.
    fn next(&mut self, now: VirtualInstant) -> Result<WorkloadStep, TraceError>;

    /// Returns whether requests now come at their own times, so that the next one does not wait until this one is done.
    fn is_open(&self) -> bool {
        false
    }
}

/// The kind of memory that a generator touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Pages of files, on the disk from the beginning.
    #[default]
    File,
    /// Anonymous memory, which is swapped.
    Anonymous,
}

impl MemoryKind {
    /// The step that accesses page number `page`. For files, the page lies in a device of 2 MiB extents.
    pub(super) fn access_step(self, page: u64, op: PageOp) -> WorkloadStep {
        let TracePage { object, index } = TracePage::of_device(page);
        let span = FileSpan {
            object,
            from: index,
            count: 1,
            end: index + 1,
        };
        match (self, op) {
            (MemoryKind::Anonymous, op) => WorkloadStep::Touch { page, op },
            (MemoryKind::File, PageOp::Write) => WorkloadStep::Write(span),
            (MemoryKind::File, PageOp::Read) => WorkloadStep::Read(span),
        }
    }
}
