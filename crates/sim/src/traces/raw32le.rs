//! Page numbers of a device, 32 bits little-endian each (CloudPhysics' w106, in caffeine's test set).

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

fn access(record: [u8; 4]) -> TraceRequest {
    TraceRequest::read_of_device(u64::from(u32::from_le_bytes(record)))
}
