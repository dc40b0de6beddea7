//! Page numbers of a device, 32 bits little-endian each (CloudPhysics' w106, in caffeine's test set).

use std::io::Read;

use super::records::Records;
use super::{Access, Op, Source, Space, TraceError, TracePage};
use crate::virtual_time::Moment;

pub(super) fn accesses(
    source: Source,
    bytes: impl Read,
) -> impl Iterator<Item = Result<Access, TraceError>> {
    Records::<_, 4>::of(source, bytes).map(|record| record.map(access))
}

fn access(record: [u8; 4]) -> Access {
    Access {
        at: Moment::START,
        page: TracePage::of_device(u64::from(u32::from_le_bytes(record))),
        space: Space::Device,
        count: 1,
        op: Op::Read,
    }
}
