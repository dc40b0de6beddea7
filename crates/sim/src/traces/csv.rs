//! Traces of comma-separated values, with columns for time, object or page, size and operation.

use std::io::Read;
use std::str::FromStr;

use serde::Deserialize;

use super::access::{AddressSpace, PageOp, REQUEST_PAGES_MAX, TOO_LONG, TracePage, TraceRequest};
use super::faults::{TraceError, TraceFault, TraceName};
use super::records::LineReader;
use crate::rng::mixed;
use crate::virtual_time::VirtualInstant;
use sublet_types::PAGE_BYTES;

/// Which columns hold what. Each is a header's name or, without a header, a number from 1. A column that is not given
/// is looked for under its usual names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvColumns {
    /// Seconds, with or without a fraction.
    pub time: Option<String>,
    /// The object as a whole: a number or any text.
    pub object: Option<String>,
    /// A page number of one device, instead of an object.
    pub page: Option<String>,
    /// Bytes.
    pub size: Option<String>,
    /// `read`, `write` and their usual short forms.
    pub op: Option<String>,
}

/// A wrongly written choice of columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} chooses no column; write time=NAME, object=NAME, page=NAME, size=NAME or op=NAME")]
pub struct CsvColumnsError(pub String);

/// Reads `object=key,size=value_bytes`.
impl FromStr for CsvColumns {
    type Err = CsvColumnsError;

    fn from_str(text: &str) -> Result<CsvColumns, CsvColumnsError> {
        let mut columns = CsvColumns::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let wrong = || CsvColumnsError(part.to_owned());
            let (kind, name) = part.split_once('=').ok_or_else(wrong)?;
            let column = match kind.trim() {
                "time" => &mut columns.time,
                "object" => &mut columns.object,
                "page" => &mut columns.page,
                "size" => &mut columns.size,
                "op" => &mut columns.op,
                _ => return Err(wrong()),
            };
            *column = Some(name.trim().to_owned());
        }
        Ok(columns)
    }
}

const TIMES: &[&str] = &["time", "timestamp", "ts", "t", "seconds"];
const OBJECTS: &[&str] = &["object", "id", "obj", "obj_id", "object_id", "key", "file"];
const PAGES: &[&str] = &["page", "block", "lba"];
const SIZES: &[&str] = &["size", "bytes", "obj_size", "object_size", "length", "len"];
const OPS: &[&str] = &["op", "operation", "cmd", "command", "type"];

pub(super) fn accesses(
    source: TraceName,
    bytes: impl Read,
    columns: CsvColumns,
) -> impl Iterator<Item = Result<TraceRequest, TraceError>> {
    let mut reader = CsvReader {
        lines: LineReader::of(source, bytes),
        columns,
        layout: None,
        start: None,
    };
    std::iter::from_fn(move || reader.next().transpose())
}

struct CsvReader<R> {
    lines: LineReader<R>,
    columns: CsvColumns,
    layout: Option<ColumnIndexes>,
    /// Time of the first row.
    start: Option<f64>,
}

impl<R: Read> CsvReader<R> {
    fn next(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        if self.layout.is_none() && !self.begin()? {
            return Ok(None);
        }
        if !self.lines.advance()? {
            return Ok(None);
        }
        self.row()
            .map(Some)
            .map_err(|fault| self.lines.wrong(fault))
    }

    /// Finds the columns. They need a header, unless all chosen columns are numbers.
    fn begin(&mut self) -> Result<bool, TraceError> {
        if let Some(layout) = ColumnIndexes::numbered(&self.columns) {
            self.layout = Some(layout);
            return Ok(true);
        }
        if !self.lines.advance()? {
            return Ok(false);
        }
        let layout = ColumnIndexes::named(&self.columns, self.lines.text());
        self.layout = Some(layout.map_err(|fault| self.lines.wrong(fault))?);
        Ok(true)
    }

    fn row(&mut self) -> Result<TraceRequest, TraceFault> {
        let layout = self.layout.unwrap_or_default();
        let cells: Vec<&str> = cells(self.lines.text()).collect();
        let cell = |column: Option<usize>| column.map(|n| cells.get(n).copied().unwrap_or(""));
        let secs = number("time", cell(layout.time))?.unwrap_or(0.0);
        let start = *self.start.get_or_insert(secs);
        let size = cell(layout.size);
        let bytes = number("size", size)?.unwrap_or(0.0);
        let pages = (bytes as u64).div_ceil(PAGE_BYTES).max(1);
        if pages > REQUEST_PAGES_MAX {
            return Err(wrong("size", size.unwrap_or(""), TOO_LONG));
        }
        Ok(TraceRequest {
            at: VirtualInstant(((secs - start).max(0.0) * 1e9) as u64),
            page: page(cell(layout.page), cell(layout.object))?,
            space: match layout.page {
                Some(_) => AddressSpace::Device,
                None => AddressSpace::Objects,
            },
            count: pages as u32,
            op: cell(layout.op).map_or(Ok(PageOp::Read), op)?,
        })
    }
}

/// Indexes of the columns in a row, from 0.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnIndexes {
    time: Option<usize>,
    object: Option<usize>,
    page: Option<usize>,
    size: Option<usize>,
    op: Option<usize>,
}

impl ColumnIndexes {
    /// The indexes if all chosen columns are numbers. `None` if none is chosen or one is a name.
    fn numbered(columns: &CsvColumns) -> Option<ColumnIndexes> {
        let chosen = [
            &columns.time,
            &columns.object,
            &columns.page,
            &columns.size,
            &columns.op,
        ];
        let place = |column: &Option<String>| {
            let number: usize = column.as_ref()?.parse().ok()?;
            number.checked_sub(1)
        };
        let all_numbers = chosen.iter().all(|c| c.is_none() || place(c).is_some());
        let names_pages = columns.object.is_some() || columns.page.is_some();
        (all_numbers && names_pages).then(|| ColumnIndexes {
            time: place(&columns.time),
            object: place(&columns.object),
            page: place(&columns.page),
            size: place(&columns.size),
            op: place(&columns.op),
        })
    }

    fn named(columns: &CsvColumns, header: &str) -> Result<ColumnIndexes, TraceFault> {
        let names: Vec<String> = cells(header).map(str::to_ascii_lowercase).collect();
        let find = |chosen: &Option<String>, usual: &[&str]| match chosen {
            Some(chosen) => place_of(&names, chosen, header).map(Some),
            None => Ok(names.iter().position(|n| usual.contains(&n.as_str()))),
        };
        let object = find(&columns.object, OBJECTS)?;
        let page = find(&columns.page, PAGES)?;
        let layout = ColumnIndexes {
            time: find(&columns.time, TIMES)?,
            page: page.filter(|_| columns.page.is_some() || object.is_none()),
            object,
            size: find(&columns.size, SIZES)?,
            op: find(&columns.op, OPS)?,
        };
        match (layout.object, layout.page) {
            (None, None) => Err(no_column("object", header)),
            _ => Ok(layout),
        }
    }
}

fn place_of(names: &[String], chosen: &str, header: &str) -> Result<usize, TraceFault> {
    let by_name = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(chosen));
    let by_number = || {
        let number: usize = chosen.parse().ok()?;
        number.checked_sub(1).filter(|place| *place < names.len())
    };
    by_name
        .or_else(by_number)
        .ok_or_else(|| no_column(chosen, header))
}

fn no_column(column: &str, header: &str) -> TraceFault {
    TraceFault::NoColumn {
        column: column.to_owned(),
        found: header.to_owned(),
    }
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"'))
}

fn number(field: &'static str, cell: Option<&str>) -> Result<Option<f64>, TraceFault> {
    let Some(value) = cell else { return Ok(None) };
    let number: Option<f64> = value.parse().ok();
    match number.filter(|number| number.is_finite() && *number >= 0.0) {
        Some(number) => Ok(Some(number)),
        None => Err(wrong(field, value, "a number")),
    }
}

/// The page that a row names. Text names an object by its hash.
fn page(page: Option<&str>, object: Option<&str>) -> Result<TracePage, TraceFault> {
    if let Some(value) = page {
        let number = value
            .parse()
            .map_err(|_| wrong("page", value, "a page number"))?;
        return Ok(TracePage::of_device(number));
    }
    let value = object.unwrap_or("");
    if value.is_empty() {
        return Err(wrong("object", value, "a name or number"));
    }
    let of_text = || {
        value
            .bytes()
            .fold(0, |hash, byte| mixed(hash ^ u64::from(byte)) + 1)
    };
    let object = value.parse().unwrap_or_else(|_| of_text());
    Ok(TracePage { object, index: 0 })
}

fn op(value: &str) -> Result<PageOp, TraceFault> {
    match value.to_ascii_lowercase().as_str() {
        "read" | "r" | "get" | "gets" | "28" | "0" => Ok(PageOp::Read),
        "write" | "w" | "set" | "put" | "add" | "replace" | "2a" | "1" => Ok(PageOp::Write),
        _ => Err(wrong("op", value, "read or write")),
    }
}

fn wrong(field: &'static str, value: &str, wanted: &'static str) -> TraceFault {
    TraceFault::Field {
        field,
        value: value.to_owned(),
        wanted,
        format: "csv",
    }
}
