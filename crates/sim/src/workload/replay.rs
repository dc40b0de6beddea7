//! The requests of a trace.

use serde::Deserialize;

use super::step::{FileSpan, MemoryKind, Workload, WorkloadStep};
use crate::rng::mixed;
use crate::traces::{
    AddressSpace, CsvColumns, EXTENT_PAGES, PageOp, Trace, TraceError, TraceRequest,
};
use crate::virtual_time::VirtualInstant;

/// A trace, and how it is replayed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The file.
    pub file: String,
    /// The name of its format. Without it, the file's name tells the format.
    pub format: Option<String>,
    /// Which columns of a CSV hold what.
    #[serde(default)]
    pub columns: CsvColumns,
    /// At the trace's own times, or one request after another.
    #[serde(default)]
    pub pace: ReplayPace,
    /// The kind of memory that its pages are.
    #[serde(default)]
    pub memory: MemoryKind,
    /// The most requests.
    #[serde(default = "all")]
    pub operations: u64,
}

impl Spec {
    /// A spec for all of a file's requests, one after another, as file pages.
    pub fn of_file(file: &str, format: Option<String>) -> Spec {
        Spec {
            file: file.to_owned(),
            format,
            columns: CsvColumns::default(),
            pace: ReplayPace::default(),
            memory: MemoryKind::default(),
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
pub enum ReplayPace {
    /// As soon as the previous one is done.
    #[default]
    Closed,
    /// Not before its time in the trace.
    Recorded,
}

/// The workload.
#[derive(Debug)]
pub struct ReplayWorkload {
    trace: Trace,
    pace: ReplayPace,
    memory: MemoryKind,
    left: u64,
    /// When it began.
    start: Option<VirtualInstant>,
    /// What is left of the request.
    current: Option<TraceRequest>,
}

impl ReplayWorkload {
    /// Replays `trace` as the spec says.
    pub fn of(spec: &Spec, trace: Trace) -> ReplayWorkload {
        ReplayWorkload {
            trace,
            pace: spec.pace,
            memory: spec.memory,
            left: spec.operations,
            start: None,
            current: None,
        }
    }

    /// The next piece of a request: a page of anonymous memory, or a run of pages in one object.
    fn piece(&mut self, access: TraceRequest) -> WorkloadStep {
        let count = match (self.memory, access.space) {
            (MemoryKind::Anonymous, _) => 1,
            (MemoryKind::File, AddressSpace::Objects) => access.count,
            (MemoryKind::File, AddressSpace::Device) => access.count.min(left_in_extent(access)),
        };
        self.current = rest(access, count);
        let span = FileSpan {
            object: access.page.object,
            from: access.page.index,
            count,
            end: access.page.index.saturating_add(count),
        };
        match (self.memory, access.op) {
            (MemoryKind::Anonymous, op) => WorkloadStep::Touch {
                page: anonymous(access),
                op,
            },
            (MemoryKind::File, PageOp::Write) => WorkloadStep::Write(span),
            (MemoryKind::File, PageOp::Read) => WorkloadStep::Read(span),
        }
    }
}

fn left_in_extent(access: TraceRequest) -> u32 {
    EXTENT_PAGES as u32 - access.page.index % EXTENT_PAGES as u32
}

/// The address of a page. Extents lie side by side, objects anywhere.
fn anonymous(access: TraceRequest) -> u64 {
    let start = match access.space {
        AddressSpace::Device => access.page.object.wrapping_mul(EXTENT_PAGES),
        AddressSpace::Objects => mixed(access.page.object),
    };
    start.wrapping_add(u64::from(access.page.index))
}

/// What follows the first `done` pages. A run that leaves its extent goes on in the next.
fn rest(mut access: TraceRequest, done: u32) -> Option<TraceRequest> {
    let leaves = access.space == AddressSpace::Device && done == left_in_extent(access);
    access.count -= done;
    access.page.index = access.page.index.saturating_add(done);
    if leaves {
        access.page.object = access.page.object.wrapping_add(1);
        access.page.index = 0;
    }
    (access.count > 0).then_some(access)
}

impl Workload for ReplayWorkload {
    fn next(&mut self, now: VirtualInstant) -> Result<WorkloadStep, TraceError> {
        let start = *self.start.get_or_insert(now);
        if let Some(access) = self.current {
            return Ok(self.piece(access));
        }
        if self.left == 0 {
            return Ok(WorkloadStep::Done);
        }
        self.left -= 1;
        let Some(access) = self.trace.next().transpose()? else {
            self.left = 0;
            return Ok(WorkloadStep::Done);
        };
        let due = start + access.at.since(VirtualInstant::START);
        if self.pace == ReplayPace::Recorded && due > now {
            self.current = Some(access);
            return Ok(WorkloadStep::Until(due));
        }
        Ok(self.piece(access))
    }
}
