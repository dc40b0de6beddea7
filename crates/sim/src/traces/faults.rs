//! What can be wrong with a trace.

use std::fmt;

/// A trace by its name, for errors.
#[derive(Clone, Debug)]
pub(super) struct Source(pub(super) String);

impl Source {
    pub(super) fn named(name: &str) -> Source {
        Source(name.to_owned())
    }

    pub(super) fn wrong(&self, place: Place, fault: Fault) -> TraceError {
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
    /// Where in it.
    pub place: Place,
    /// What is wrong there.
    pub fault: Fault,
}

/// A place in a trace, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line of this number, from 1.
    Line(u64),
    /// The byte at this offset, from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// What can be wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
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
    /// The file ends before its last record does.
    #[error(
        "ends in mid-record, {got} of its {wanted} bytes are there; fetch the file again, or cut it to a multiple of {wanted} bytes"
    )]
    MidRecord {
        /// Bytes of the last record that are there.
        got: usize,
        /// Bytes of a record.
        wanted: usize,
    },
    /// A field is not what the format has there.
    #[error("{field} is {said:?} where {wanted} is due; is the format {format}?")]
    Field {
        /// The field's name.
        field: &'static str,
        /// What stands there.
        said: String,
        /// What should.
        wanted: &'static str,
        /// The format by which it was read.
        format: &'static str,
    },
    /// A CSV without a column that is needed.
    #[error(
        "there is no column {column:?} among {found}; name the columns, as in page=lba,count=length"
    )]
    NoColumn {
        /// The missing one.
        column: String,
        /// The header, as it stands.
        found: String,
    },
    /// A longer line than any trace has.
    #[error("a line of more than {0} bytes; is this a text trace?")]
    LongLine(usize),
}
