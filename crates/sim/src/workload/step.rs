//! What a guest does next, and who says it.

use serde::Deserialize;

use crate::traces::{TraceError, TracePage};
use crate::virtual_time::{Moment, Nanos};

/// One thing that a guest does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It computes for so long.
    Compute(Nanos),
    /// It waits until then.
    Until(Moment),
    /// It touches a page of anonymous memory.
    Touch {
        /// Which.
        page: u64,
        /// Whether it writes to it.
        write: bool,
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
        /// Which.
        object: u64,
        /// Pages of it.
        pages: u32,
    },
    /// A stretch begins whose running time is of interest; it ends where the next one begins.
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
    /// Pages.
    pub count: u32,
    /// Where the file ends: read-ahead goes no farther.
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
    /// The next step, at `now`. After [`Step::Done`] there is no other.
    ///
    /// # Errors
    ///
    /// A trace that cannot be read on.
    fn next(&mut self, now: Moment) -> Result<Step, TraceError>;

    /// Whether requests come at times of their own now: the next one does not wait until this one is done.
    fn is_open(&self) -> bool {
        false
    }
}

/// Which memory a generator touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Pages of files, on the disk from the beginning.
    #[default]
    File,
    /// Anonymous memory, which is swapped.
    Anonymous,
}

impl Kind {
    /// A touch of page number `page`, in a device of 2 MiB extents where it is of files.
    pub(super) fn touch(self, page: u64, write: bool) -> Step {
        let TracePage { object, index } = TracePage::of_device(page);
        let span = FileSpan {
            object,
            from: index,
            count: 1,
            end: index + 1,
        };
        match (self, write) {
            (Kind::Anonymous, write) => Step::Touch { page, write },
            (Kind::File, true) => Step::Write(span),
            (Kind::File, false) => Step::Read(span),
        }
    }
}
