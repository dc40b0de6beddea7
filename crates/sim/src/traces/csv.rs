//! Comma-separated traces with columns for time, object or page, size and operation.

use std::io::Read;
use std::str::FromStr;

use serde::Deserialize;

use super::access::{Access, Op, REQUEST_PAGES_MAX, Space, TOO_LONG, TracePage};
use super::faults::{Fault, Source, TraceError};
use super::records::Lines;
use crate::chance::mixed;
use crate::virtual_time::Moment;
use sublet_types::PAGE_BYTES;

/// Which columns hold what: each a header's name or, where there is no header, a number from 1. What is
/// not given is looked for under its usual names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Seconds, with or without a fraction.
    pub time: Option<String>,
    /// What is accessed as a whole: a number or any text.
    pub object: Option<String>,
    /// Instead of an object: a page number of one device.
    pub page: Option<String>,
    /// Bytes.
    pub size: Option<String>,
    /// `read`, `write` and their usual short forms.
    pub op: Option<String>,
}

/// A wrongly written choice of columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} chooses no column; write time=NAME, object=NAME, page=NAME, size=NAME or op=NAME")]
pub struct ColumnsError(pub String);

/// Reads `object=key,size=value_bytes`.
impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let mut columns = Columns::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let wrong = || ColumnsError(part.to_owned());
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
    source: Source,
    bytes: impl Read,
    columns: Columns,
) -> impl Iterator<Item = Result<Access, TraceError>> {
    let mut reader = Reader {
        lines: Lines::of(source, bytes),
        columns,
        layout: None,
        start: None,
    };
    std::iter::from_fn(move || reader.next().transpose())
}

struct Reader<R> {
    lines: Lines<R>,
    columns: Columns,
    layout: Option<Layout>,
    /// Time of the first row.
    start: Option<f64>,
}

impl<R: Read> Reader<R> {
    fn next(&mut self) -> Result<Option<Access>, TraceError> {
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

    /// Finds the columns. They need a header, unless all that are chosen are numbers.
    fn begin(&mut self) -> Result<bool, TraceError> {
        if let Some(layout) = Layout::numbered(&self.columns) {
            self.layout = Some(layout);
            return Ok(true);
        }
        if !self.lines.advance()? {
            return Ok(false);
        }
        let layout = Layout::named(&self.columns, self.lines.text());
        self.layout = Some(layout.map_err(|fault| self.lines.wrong(fault))?);
        Ok(true)
    }

    fn row(&mut self) -> Result<Access, Fault> {
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
        Ok(Access {
            at: Moment(((secs - start).max(0.0) * 1e9) as u64),
            page: page(cell(layout.page), cell(layout.object))?,
            space: match layout.page {
                Some(_) => Space::Device,
                None => Space::Objects,
            },
            count: pages as u32,
            op: cell(layout.op).map_or(Ok(Op::Read), op)?,
        })
    }
}

/// Places of the columns in a row, from 0.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    time: Option<usize>,
    object: Option<usize>,
    page: Option<usize>,
    size: Option<usize>,
    op: Option<usize>,
}

impl Layout {
    /// Where columns are chosen, and all of them by number.
    fn numbered(columns: &Columns) -> Option<Layout> {
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
        (all_numbers && names_pages).then(|| Layout {
            time: place(&columns.time),
            object: place(&columns.object),
            page: place(&columns.page),
            size: place(&columns.size),
            op: place(&columns.op),
        })
    }

    fn named(columns: &Columns, header: &str) -> Result<Layout, Fault> {
        let names: Vec<String> = cells(header).map(str::to_ascii_lowercase).collect();
        let find = |chosen: &Option<String>, usual: &[&str]| match chosen {
            Some(chosen) => place_of(&names, chosen, header).map(Some),
            None => Ok(names.iter().position(|n| usual.contains(&n.as_str()))),
        };
        let object = find(&columns.object, OBJECTS)?;
        let page = find(&columns.page, PAGES)?;
        let layout = Layout {
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

fn place_of(names: &[String], chosen: &str, header: &str) -> Result<usize, Fault> {
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

fn no_column(column: &str, header: &str) -> Fault {
    Fault::NoColumn {
        column: column.to_owned(),
        found: header.to_owned(),
    }
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"'))
}

fn number(field: &'static str, cell: Option<&str>) -> Result<Option<f64>, Fault> {
    let Some(said) = cell else { return Ok(None) };
    let number: Option<f64> = said.parse().ok();
    match number.filter(|number| number.is_finite() && *number >= 0.0) {
        Some(number) => Ok(Some(number)),
        None => Err(wrong(field, said, "a number")),
    }
}

/// Text names an object by its hash.
fn page(page: Option<&str>, object: Option<&str>) -> Result<TracePage, Fault> {
    if let Some(said) = page {
        let number = said
            .parse()
            .map_err(|_| wrong("page", said, "a page number"))?;
        return Ok(TracePage::of_device(number));
    }
    let said = object.unwrap_or("");
    if said.is_empty() {
        return Err(wrong("object", said, "a name or number"));
    }
    let of_text = || {
        said.bytes()
            .fold(0, |hash, byte| mixed(hash ^ u64::from(byte)) + 1)
    };
    let object = said.parse().unwrap_or_else(|_| of_text());
    Ok(TracePage { object, index: 0 })
}

fn op(said: &str) -> Result<Op, Fault> {
    match said.to_ascii_lowercase().as_str() {
        "read" | "r" | "get" | "gets" | "28" | "0" => Ok(Op::Read),
        "write" | "w" | "set" | "put" | "add" | "replace" | "2a" | "1" => Ok(Op::Write),
        _ => Err(wrong("op", said, "read or write")),
    }
}

fn wrong(field: &'static str, said: &str, wanted: &'static str) -> Fault {
    Fault::Field {
        field,
        said: said.to_owned(),
        wanted,
        format: "csv",
    }
}
