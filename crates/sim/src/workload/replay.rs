//! The requests of a trace.

use serde::Deserialize;

use super::step::{FileSpan, Kind, Step, Workload};
use crate::chance::mixed;
use crate::traces::{Access, Columns, EXTENT_PAGES, Op, Space, Trace, TraceError};
use crate::virtual_time::Moment;

/// Which trace, and how it is replayed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The file.
    pub file: String,
    /// Its format, by name; recognised by the file's name where it is not given.
    pub format: Option<String>,
    /// Which columns of a CSV hold what.
    #[serde(default)]
    pub columns: Columns,
    /// At the trace's own times, or one request after another.
    #[serde(default)]
    pub pace: Pace,
    /// The memory that its pages are.
    #[serde(default)]
    pub memory: Kind,
    /// Requests at most.
    #[serde(default = "all")]
    pub operations: u64,
}

impl Spec {
    /// All of a file's requests, one after another, as file pages.
    pub fn of_file(file: &str, format: Option<String>) -> Spec {
        Spec {
            file: file.to_owned(),
            format,
            columns: Columns::default(),
            pace: Pace::default(),
            memory: Kind::default(),
            operations: all(),
        }
    }
}

fn all() -> u64 {
    u64::MAX
}

/// When a request is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// As soon as the one before it is done.
    #[default]
    Closed,
    /// Not before its time in the trace.
    Recorded,
}

/// The workload.
#[derive(Debug)]
pub struct Replay {
    trace: Trace,
    pace: Pace,
    memory: Kind,
    left: u64,
    /// When it began.
    start: Option<Moment>,
    /// What is left of the request.
    current: Option<Access>,
}

impl Replay {
    /// Replays `trace` as the spec says.
    pub fn of(spec: &Spec, trace: Trace) -> Replay {
        Replay {
            trace,
            pace: spec.pace,
            memory: spec.memory,
            left: spec.operations,
            start: None,
            current: None,
        }
    }

    /// The next piece of a request: a page of anonymous memory, or a run of pages in one object.
    fn piece(&mut self, access: Access) -> Step {
        let write = access.op == Op::Write;
        let count = match (self.memory, access.space) {
            (Kind::Anonymous, _) => 1,
            (Kind::File, Space::Objects) => access.count,
            (Kind::File, Space::Device) => access.count.min(left_in_extent(access)),
        };
        self.current = rest(access, count);
        let span = FileSpan {
            object: access.page.object,
            from: access.page.index,
            count,
            end: access.page.index.saturating_add(count),
        };
        match (self.memory, write) {
            (Kind::Anonymous, write) => Step::Touch {
                page: anonymous(access),
                write,
            },
            (Kind::File, true) => Step::Write(span),
            (Kind::File, false) => Step::Read(span),
        }
    }
}

fn left_in_extent(access: Access) -> u32 {
    EXTENT_PAGES as u32 - access.page.index % EXTENT_PAGES as u32
}

/// An address for a page: extents lie side by side, objects anywhere.
fn anonymous(access: Access) -> u64 {
    let start = match access.space {
        Space::Device => access.page.object.wrapping_mul(EXTENT_PAGES),
        Space::Objects => mixed(access.page.object),
    };
    start.wrapping_add(u64::from(access.page.index))
}

/// What follows the first `done` pages; a run that leaves its extent goes on in the next.
fn rest(mut access: Access, done: u32) -> Option<Access> {
    let leaves = access.space == Space::Device && done == left_in_extent(access);
    access.count -= done;
    access.page.index = access.page.index.saturating_add(done);
    if leaves {
        access.page.object = access.page.object.wrapping_add(1);
        access.page.index = 0;
    }
    (access.count > 0).then_some(access)
}

impl Workload for Replay {
    fn next(&mut self, now: Moment) -> Result<Step, TraceError> {
        let start = *self.start.get_or_insert(now);
        if let Some(access) = self.current {
            return Ok(self.piece(access));
        }
        if self.left == 0 {
            return Ok(Step::Done);
        }
        self.left -= 1;
        let Some(access) = self.trace.next().transpose()? else {
            self.left = 0;
            return Ok(Step::Done);
        };
        let due = start + access.at.since(Moment::START);
        if self.pace == Pace::Recorded && due > now {
            self.current = Some(access);
            return Ok(Step::Until(due));
        }
        Ok(self.piece(access))
    }
}
