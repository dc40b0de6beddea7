//! What can be wrong with a trace.

use std::fmt;

/// A trace by its name, for errors.
#[derive(Clone, Debug)]
pub(super) struct TraceName(pub(super) String);

impl TraceName {
    pub(super) fn named(name: &str) -> TraceName {
        TraceName(name.to_owned())
    }

    pub(super) fn wrong(&self, place: TracePosition, fault: TraceFault) -> TraceError {
        TraceError {
            name: self.0.clone(),
            place,
            fault,
        }
    }
}

/// What is wrong with a trace, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{name}, {place}: {fault}")]
pub struct TraceError {
    /// The trace's name, as it was opened.
    pub name: String,
    /// The place in it.
    pub place: TracePosition,
    /// The fault there.
    pub fault: TraceFault,
}

/// A place in a trace, after unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePosition {
    /// The line of this number, from 1.
    Line(u64),
    /// The byte at this offset, from 0.
    Byte(u64),
}

impl fmt::Display for TracePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePosition::Line(line) => write!(f, "line {line}"),
            TracePosition::Byte(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// What can be wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceFault {
    /// The name tells no format.
    #[error(
        "its name tells no format; name one: lis, lis-page, raw32le, i32be, vscsi, oracle-general or csv"
    )]
    Unknown,
    /// The bytes could not be read or unpacked.
    #[error(
        "cannot be read ({0}); fetch the file again or check its packing with xz -t, zstd -t or gzip -t"
    )]
    Unreadable(std::io::Error),
    /// The file ends within its last record.
    #[error(
        "ends in mid-record, {got} of its {wanted} bytes are there; fetch the file again, or cut it to a multiple of {wanted} bytes"
    )]
    MidRecord {
        /// Bytes of the last record that are there.
        got: usize,
        /// Bytes of a record.
        wanted: usize,
    },
    /// A field does not hold what the format has there.
    #[error("{field} is {value:?} where {wanted} is due; is the format {format}?")]
    Field {
        /// The field's name.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What should stand there.
        wanted: &'static str,
        /// The format that was assumed.
        format: &'static str,
    },
    /// A CSV without a column that is needed.
    #[error(
        "there is no column {column:?} among {found}; name the columns, as in page=lba,count=length"
    )]
    NoColumn {
        /// The missing column.
        column: String,
        /// The header as it stands.
        found: String,
    },
    /// A longer line than any trace has.
    #[error("a line of more than {0} bytes; is this a text trace?")]
    LongLine(usize),
}
