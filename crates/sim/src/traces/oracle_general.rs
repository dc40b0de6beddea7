//! libCacheSim's oracleGeneral, little-endian, 24 bytes a record:
//!
//! ```text
//! 0 u32 second   4 u64 object   12 u32 bytes   16 i64 next access (-1: none)
//! ```

use std::io::Read;

use super::access::{AddressSpace, PageOp, TracePage, TraceRequest};
use super::faults::{TraceError, TraceName};
use super::records::{RecordReader, u32_at, u64_at};
use crate::virtual_time::{VirtualDuration, VirtualInstant};
use sublet_types::PAGE_BYTES;

const RECORD_BYTES: usize = 24;

pub(super) fn accesses(
    source: TraceName,
    bytes: impl Read,
) -> impl Iterator<Item = Result<TraceRequest, TraceError>> {
    let mut start = None;
    RecordReader::<_, RECORD_BYTES>::of(source, bytes).map(move |record| {
        let record = record?;
        let start = *start.get_or_insert_with(|| u32_at(&record, 0));
        Ok(access(&record, start))
    })
}

/// An object has as many pages as its bytes need. Its size may differ from request to request.
fn access(record: &[u8; RECORD_BYTES], start: u32) -> TraceRequest {
    let bytes = u64::from(u32_at(record, 12));
    let seconds = u32_at(record, 0).saturating_sub(start);
    TraceRequest {
        at: VirtualInstant::START + VirtualDuration::secs(u64::from(seconds)),
        page: TracePage {
            object: u64_at(record, 4),
            index: 0,
        },
        space: AddressSpace::Objects,
        count: bytes.div_ceil(PAGE_BYTES).max(1) as u32,
        op: PageOp::Read,
    }
}
