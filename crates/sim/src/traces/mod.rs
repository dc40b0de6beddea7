//! Public traces, read as they stand. There is one file per format.
//!
//! A reader takes bytes from anywhere and returns one [`TraceRequest`] after another. If the bytes are wrong, the error
//! comes in its place, after every request before it. Nothing follows an error.

mod access;
mod compression;
mod csv;
mod faults;
mod format;
mod host_memory;
mod i32be;
mod lis;
mod oracle_general;
mod raw32le;
mod records;
pub mod synthetic;
mod vscsi;

use std::fmt;
use std::io::Read;

pub use access::{AddressSpace, EXTENT_PAGES, PageOp, SECTOR_BYTES, TracePage, TraceRequest};
pub use compression::Compression;
pub use csv::CsvColumns;
pub use faults::{TraceError, TraceFault, TracePosition};
pub use format::{TraceFormat, TraceFormatError};
pub use host_memory::{HostFormat, HostSample, HostSeries};
pub use lis::LisUnit;

use faults::TraceName;

/// The requests of a trace, one after another.
pub struct Trace {
    accesses: Box<dyn Iterator<Item = Result<TraceRequest, TraceError>>>,
    failed: bool,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("failed", &self.failed)
            .finish()
    }
}

impl Trace {
    /// Reads `bytes`, compressed as `name` says. The name also tells the format if `format` is `None`.
    ///
    /// # Errors
    ///
    /// No format is given and the name tells none, or the head of a compressed file is damaged.
    pub fn open(
        name: &str,
        format: Option<TraceFormat>,
        bytes: impl Read + 'static,
    ) -> Result<Trace, TraceError> {
        let source = TraceName::named(name);
        let format = match format {
            Some(format) => format,
            None => TraceFormat::of_name(name)
                .map_err(|_| source.wrong(TracePosition::Byte(0), TraceFault::Unknown))?,
        };
        let bytes = compression::reader(&source, bytes)?;
        let accesses: Box<dyn Iterator<Item = Result<TraceRequest, TraceError>>> = match format {
            TraceFormat::Lis(unit) => Box::new(lis::accesses(source, bytes, unit)),
            TraceFormat::Raw32Le => Box::new(raw32le::accesses(source, bytes)),
            TraceFormat::I32Be => Box::new(i32be::accesses(source, bytes)),
            TraceFormat::Vscsi => Box::new(vscsi::accesses(source, bytes)),
            TraceFormat::OracleGeneral => Box::new(oracle_general::accesses(source, bytes)),
            TraceFormat::Csv(columns) => Box::new(csv::accesses(source, bytes, columns)),
        };
        Ok(Trace {
            accesses,
            failed: false,
        })
    }

    /// A trace that is already in memory.
    pub fn of(accesses: impl IntoIterator<Item = TraceRequest, IntoIter: 'static>) -> Trace {
        Trace {
            accesses: Box::new(accesses.into_iter().map(Ok)),
            failed: false,
        }
    }
}

impl Iterator for Trace {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        if self.failed {
            return None;
        }
        let next = self.accesses.next();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

#[cfg(test)]
mod tests;
