//! Page numbers of a device, 32 bits little-endian each (CloudPhysics' w106, in caffeine's test set).

use std::io::Read;

use super::access::Access;
use super::faults::{Source, TraceError};
use super::records::Records;

pub(super) fn accesses(
    source: Source,
    bytes: impl Read,
) -> impl Iterator<Item = Result<Access, TraceError>> {
    Records::<_, 4>::of(source, bytes).map(|record| record.map(access))
}

fn access(record: [u8; 4]) -> Access {
    Access::read_of_device(u64::from(u32::from_le_bytes(record)))
}
