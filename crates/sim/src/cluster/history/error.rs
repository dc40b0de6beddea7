//! What can be wrong with the files of a history.

use std::io;

use super::call::{CALL_PAGES_MAX, CALLS_MAX, PAGES_MAX};
use super::reader::LINE_BYTES_MAX;

/// What is wrong with a history, and where.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {fault}")]
pub struct HistoryError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong there.
    pub fault: HistoryFault,
}

/// What can be wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum HistoryFault {
    /// It could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// It is too long.
    #[error("more than {LINE_BYTES_MAX} bytes; is this a history?")]
    LongLine,
    /// It is no line of a history.
    #[error("no line of a history: {0} (docs/simulator/cluster.md)")]
    Malformed(serde_json::Error),
    /// A call ends before it begins.
    #[error("the call ends before it begins")]
    EndsEarly,
    /// A pool is not declared before it is used.
    #[error("the pool {0:?} is not declared; a line of kind \"pool\" goes before its first call")]
    UnknownPool(String),
    /// A pool is declared twice, with other promises.
    #[error("the pool {0:?} was declared with another promise")]
    OtherPromise(String),
    /// A call has no page, or too many.
    #[error("a call is of 1 to {CALL_PAGES_MAX} pages, not {0}")]
    PageCount(usize),
    /// A page's number is too large.
    #[error("pages have numbers below {PAGES_MAX}, not {0}")]
    PageNumber(u64),
    /// There are too many calls.
    #[error("more than {CALLS_MAX} calls; judge a part of it")]
    TooManyCalls,
}
