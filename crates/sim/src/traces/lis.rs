//! The ARC paper's traces (Megiddo and Modha, FAST '03): lines of `start count ignore reqno`.

use std::io::Read;

use super::access::{
    AddressSpace, PageOp, REQUEST_PAGES_MAX, SECTOR_BYTES, TOO_LONG, TracePage, TraceRequest,
};
use super::faults::{TraceError, TraceFault, TraceName};
use super::records::LineReader;
use crate::virtual_time::VirtualInstant;
use sublet_types::PAGE_BYTES;

/// The unit in which a `lis` trace counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LisUnit {
    /// 512 bytes (P1 to P14, S1 to S3 of the ARC paper).
    #[default]
    Sector,
    /// A page (OLTP).
    Page,
}

const SECTORS_A_PAGE: u64 = PAGE_BYTES / SECTOR_BYTES;

pub(super) fn accesses(
    source: TraceName,
    bytes: impl Read,
    unit: LisUnit,
) -> impl Iterator<Item = Result<TraceRequest, TraceError>> {
    let mut lines = LineReader::of(source, bytes);
    std::iter::from_fn(move || match lines.advance() {
        Ok(false) => None,
        Ok(true) => Some(parse(lines.text(), unit).map_err(|fault| lines.wrong(fault))),
        Err(error) => Some(Err(error)),
    })
}

fn parse(line: &str, unit: LisUnit) -> Result<TraceRequest, TraceFault> {
    let mut words = line.split_ascii_whitespace();
    let start = number("start", words.next())?;
    let count = number("count", words.next())?;
    // Nothing needs them, but a line that was cut off has none.
    number("ignore", words.next())?;
    number("reqno", words.next())?;
    let (page, pages) = match unit {
        LisUnit::Page => (start, count),
        LisUnit::Sector => pages_of_sectors(start, count),
    };
    if pages > REQUEST_PAGES_MAX {
        return Err(TraceFault::Field {
            field: "count",
            value: count.to_string(),
            wanted: TOO_LONG,
            format: "lis (start count ignore reqno)",
        });
    }
    Ok(TraceRequest {
        at: VirtualInstant::START,
        page: TracePage::of_device(page),
        space: AddressSpace::Device,
        count: pages.max(1) as u32,
        op: PageOp::Read,
    })
}

/// The first page that a run of sectors touches, and how many pages it touches.
pub(super) fn pages_of_sectors(start: u64, count: u64) -> (u64, u64) {
    let first = start / SECTORS_A_PAGE;
    let end = start.saturating_add(count.max(1)).div_ceil(SECTORS_A_PAGE);
    (first, end - first)
}

fn number(field: &'static str, word: Option<&str>) -> Result<u64, TraceFault> {
    let value = word.unwrap_or("");
    value.parse().map_err(|_| TraceFault::Field {
        field,
        value: value.to_owned(),
        wanted: "a whole number",
        format: "lis (start count ignore reqno)",
    })
}
