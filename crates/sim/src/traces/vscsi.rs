//! VMware's vscsi traces, version 1, little-endian, 32 bytes a record:
//!
//! ```text
//! 0  u32 serial number   4  u32 bytes     8 u32 scatter-gather entries
//! 12 u16 command         14 u16 version (1 in its high byte)
//! 16 u64 block, 512 bytes each            24 u64 microseconds
//! ```

use std::io::Read;

use super::access::{AddressSpace, PageOp, SECTOR_BYTES, TracePage, TraceRequest};
use super::faults::{TraceError, TraceFault, TraceName};
use super::lis::pages_of_sectors;
use super::records::{RecordReader, u16_at, u32_at, u64_at};
use crate::virtual_time::VirtualInstant;

const RECORD_BYTES: usize = 32;

/// SCSI's WRITE(10) and READ(10), and their 6, 12 and 16 byte variants.
const WRITES: [u16; 4] = [0x2a, 0x0a, 0xaa, 0x8a];
const READS: [u16; 4] = [0x28, 0x08, 0xa8, 0x88];

pub(super) fn accesses(
    source: TraceName,
    bytes: impl Read,
) -> impl Iterator<Item = Result<TraceRequest, TraceError>> {
    let mut records = RecordReader::<_, RECORD_BYTES>::of(source, bytes);
    let mut start_us = None;
    std::iter::from_fn(move || {
        let record = match records.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let start_us = *start_us.get_or_insert_with(|| u64_at(&record, 24));
        let parsed = parse(&record, start_us);
        Some(parsed.map_err(|fault| records.source.wrong(records.place(), fault)))
    })
}

fn parse(record: &[u8; RECORD_BYTES], start_us: u64) -> Result<TraceRequest, TraceFault> {
    let version = u16_at(record, 14);
    if version >> 8 != 1 {
        return Err(wrong("version", version, "0x0100 to 0x01ff"));
    }
    let command = u16_at(record, 12);
    let op = match command {
        _ if WRITES.contains(&command) => PageOp::Write,
        _ if READS.contains(&command) => PageOp::Read,
        _ => return Err(wrong("command", command, "a read (0x28) or a write (0x2a)")),
    };
    let sectors = u64::from(u32_at(record, 4)).div_ceil(SECTOR_BYTES);
    let (page, count) = pages_of_sectors(u64_at(record, 16), sectors);
    let microseconds = u64_at(record, 24).saturating_sub(start_us);
    Ok(TraceRequest {
        at: VirtualInstant(microseconds.saturating_mul(1000)),
        page: TracePage::of_device(page),
        space: AddressSpace::Device,
        count: count as u32,
        op,
    })
}

fn wrong(field: &'static str, value: u16, wanted: &'static str) -> TraceFault {
    TraceFault::Field {
        field,
        value: format!("{value:#06x}"),
        wanted,
        format: "vscsi, version 1",
    }
}
