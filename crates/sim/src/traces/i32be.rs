//! cache2k's traces: ids of 32 bits big-endian, each an object of one page.

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

/// Ids keep their order: neighbours share an object, as the pages of a file would.
fn access(record: [u8; 4]) -> Access {
    Access::read_of_device(u64::from(u32::from_be_bytes(record)))
}
