//! cache2k's traces: big-endian ids of 32 bits. Each is an object of one page.

use std::io::Read;

use super::access::TraceRequest;
use super::faults::{TraceError, TraceName};
use super::records::RecordReader;

pub(super) fn accesses(
    source: TraceName,
    bytes: impl Read,
) -> impl Iterator<Item = Result<TraceRequest, TraceError>> {
    RecordReader::<_, 4>::of(source, bytes).map(|record| record.map(access))
}

/// Ids keep their order: neighbours share an object, as the pages of a file do.
fn access(record: [u8; 4]) -> TraceRequest {
    TraceRequest::read_of_device(u64::from(u32::from_be_bytes(record)))
}
