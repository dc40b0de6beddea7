//! Public traces, read as they stand: one file a format.
//!
//! A reader takes bytes from anywhere and gives one [`Access`] after another. What is wrong with the bytes
//! comes as an error in its place, after every access before it; nothing follows an error.

mod csv;
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
use std::str::FromStr;

pub use csv::Columns;
pub use host_memory::{HostFormat, HostSample, HostSeries};
pub use unpack::{Packing, UNPACKED_MAX};

use crate::virtual_time::Moment;

/// Bytes of a disk's sector, in which two of the formats count.
pub const SECTOR_BYTES: u64 = 512;

/// Pages of one request, at the most: 4 GiB. More is a number that was misread.
const REQUEST_PAGES_MAX: u64 = 1 << 20;

/// What is wanted where there are more.
const TOO_LONG: &str = "a request of 4 GiB or less";

/// Pages in an object of a block trace: a 2 MiB extent, as the store cuts disks into objects.
pub const EXTENT_PAGES: u64 = 512;

/// One request of a trace, in whole pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When, since the trace's first request; where the format tells no time, the beginning.
    pub at: Moment,
    /// The first page.
    pub page: TracePage,
    /// What follows the object's last page.
    pub space: Space,
    /// Pages, at least 1.
    pub count: u32,
    /// What is done.
    pub op: Op,
}

impl Access {
    /// A read of one page of a device, in a trace that tells no times.
    fn read_of_device(page: u64) -> Access {
        Access {
            at: Moment::START,
            page: TracePage::of_device(page),
            space: Space::Device,
            count: 1,
            op: Op::Read,
        }
    }
}

/// What a trace's objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Extents of 2 MiB of one device: a run of pages goes on in the next.
    Device,
    /// Objects of any size, which have nothing to do with each other.
    Objects,
}

/// A page by the name that a trace has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TracePage {
    /// The file, or the 2 MiB extent of the device.
    pub object: u64,
    /// The page in it.
    pub index: u32,
}

impl TracePage {
    /// Page number `page` of a device.
    pub fn of_device(page: u64) -> TracePage {
        TracePage {
            object: page / EXTENT_PAGES,
            index: (page % EXTENT_PAGES) as u32,
        }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads pages.
    Read,
    /// Writes pages.
    Write,
}

/// The unit in which a `lis` trace counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// 512 bytes (P1 to P14, S1 to S3 of the ARC paper).
    #[default]
    Sector,
    /// A page (OLTP).
    Page,
}

/// What the bytes of a trace are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// The ARC paper's text: `start count ignore reqno`.
    Lis(Unit),
    /// Page numbers, 32 bits, little-endian.
    Raw32Le,
    /// cache2k's ids, 32 bits, big-endian.
    I32Be,
    /// VMware's vscsi, version 1.
    Vscsi,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// Comma-separated values.
    Csv(Columns),
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no trace format: use lis, lis-page, raw32le, i32be, vscsi, oracle-general or csv"
)]
pub struct FormatError(pub String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Format, FormatError> {
        Ok(match name {
            "lis" | "lis-sector" => Format::Lis(Unit::Sector),
            "lis-page" => Format::Lis(Unit::Page),
            "raw32le" => Format::Raw32Le,
            "i32be" => Format::I32Be,
            "vscsi" => Format::Vscsi,
            "oracle-general" => Format::OracleGeneral,
            "csv" => Format::Csv(Columns::default()),
            _ => return Err(FormatError(name.to_owned())),
        })
    }
}

impl Format {
    /// What a file of this name holds, as far as names tell: `OLTP.lis` counts in pages, other `.lis` in
    /// sectors; `w*.trace` are page numbers, other `.trace` cache2k's ids. Packing is looked through.
    ///
    /// # Errors
    ///
    /// An ending that is no format's.
    pub fn of_name(name: &str) -> Result<Format, FormatError> {
        let plain = Packing::of_name(name).stem_of(name);
        let file = plain
            .rsplit('/')
            .next()
            .unwrap_or(plain)
            .to_ascii_lowercase();
        let (stem, ending) = file.rsplit_once('.').unwrap_or((&file, ""));
        let is_numbered = |stem: &str| {
            let number = stem.strip_prefix('w').unwrap_or("");
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        match ending {
            "lis" if stem == "oltp" => Ok(Format::Lis(Unit::Page)),
            "lis" => Ok(Format::Lis(Unit::Sector)),
            "trace" if is_numbered(stem) => Ok(Format::Raw32Le),
            "trace" | "i32be" => Ok(Format::I32Be),
            "raw32le" => Ok(Format::Raw32Le),
            "vscsi" | "vscsitrace" => Ok(Format::Vscsi),
            "oraclegeneral" | "bin" => Ok(Format::OracleGeneral),
            "csv" => Ok(Format::Csv(Columns::default())),
            _ => Err(FormatError(name.to_owned())),
        }
    }
}

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

/// A trace by its name, for errors.
#[derive(Clone, Debug)]
struct Source(String);

impl Source {
    fn named(name: &str) -> Source {
        Source(name.to_owned())
    }

    fn wrong(&self, place: Place, fault: Fault) -> TraceError {
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
    /// More than [`UNPACKED_MAX`] bytes in an xz file.
    #[error("unpacks to more than {UNPACKED_MAX} bytes; unpack it first and give the plain file")]
    TooLarge,
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

#[cfg(test)]
mod tests;
