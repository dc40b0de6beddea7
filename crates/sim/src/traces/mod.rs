//! Public traces, read as they stand: one file a format.
//!
//! A reader takes bytes from anywhere and gives one [`Access`] after another. What is wrong with the bytes
//! comes as an error in its place, after every access before it; nothing follows an error.

mod access;
mod csv;
mod faults;
mod format;
mod host_memory;
mod i32be;
mod lis;
pub mod made;
mod oracle_general;
mod raw32le;
mod records;
mod unpack;
mod vscsi;

use std::fmt;
use std::io::Read;

pub use access::{Access, EXTENT_PAGES, Op, SECTOR_BYTES, Space, TracePage};
pub use csv::Columns;
pub use faults::{Fault, Place, TraceError};
pub use format::{Format, FormatError};
pub use host_memory::{HostFormat, HostSample, HostSeries};
pub use lis::Unit;
pub use unpack::Packing;

use faults::Source;

/// The accesses of a trace, one after another.
pub struct Trace {
    accesses: Box<dyn Iterator<Item = Result<Access, TraceError>>>,
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
    /// Reads `bytes`, packed as `name` says; `format` is recognised by the name where it is not given.
    ///
    /// # Errors
    ///
    /// No format is given and the name tells none, or the head of a packed file is damaged.
    pub fn open(
        name: &str,
        format: Option<Format>,
        bytes: impl Read + 'static,
    ) -> Result<Trace, TraceError> {
        let source = Source::named(name);
        let format = match format {
            Some(format) => format,
            None => {
                Format::of_name(name).map_err(|_| source.wrong(Place::Byte(0), Fault::Unknown))?
            }
        };
        let bytes = unpack::reader(&source, bytes)?;
        let accesses: Box<dyn Iterator<Item = Result<Access, TraceError>>> = match format {
            Format::Lis(unit) => Box::new(lis::accesses(source, bytes, unit)),
            Format::Raw32Le => Box::new(raw32le::accesses(source, bytes)),
            Format::I32Be => Box::new(i32be::accesses(source, bytes)),
            Format::Vscsi => Box::new(vscsi::accesses(source, bytes)),
            Format::OracleGeneral => Box::new(oracle_general::accesses(source, bytes)),
            Format::Csv(columns) => Box::new(csv::accesses(source, bytes, columns)),
        };
        Ok(Trace {
            accesses,
            failed: false,
        })
    }

    /// A trace that is in memory already.
    pub fn of(accesses: impl IntoIterator<Item = Access, IntoIter: 'static>) -> Trace {
        Trace {
            accesses: Box::new(accesses.into_iter().map(Ok)),
            failed: false,
        }
    }
}

impl Iterator for Trace {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Result<Access, TraceError>> {
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
