//! libCacheSim's oracleGeneral, little-endian, 24 bytes a record:
//!
//! ```text
//! 0 u32 second   4 u64 object   12 u32 bytes   16 i64 next access (-1: none)
//! ```

use std::io::Read;

use super::access::{Access, Op, Space, TracePage};
use super::faults::{Source, TraceError};
use super::records::{Records, u32_at, u64_at};
use crate::virtual_time::{Moment, Nanos};
use sublet_types::PAGE_BYTES;

const RECORD_BYTES: usize = 24;

pub(super) fn accesses(
    source: Source,
    bytes: impl Read,
) -> impl Iterator<Item = Result<Access, TraceError>> {
    let mut start = None;
    Records::<_, RECORD_BYTES>::of(source, bytes).map(move |record| {
        let record = record?;
        let start = *start.get_or_insert_with(|| u32_at(&record, 0));
        Ok(access(&record, start))
    })
}

/// An object is as many pages as its bytes need: its size may differ from access to access.
fn access(record: &[u8; RECORD_BYTES], start: u32) -> Access {
    let bytes = u64::from(u32_at(record, 12));
    let seconds = u32_at(record, 0).saturating_sub(start);
    Access {
        at: Moment::START + Nanos::secs(u64::from(seconds)),
        page: TracePage {
            object: u64_at(record, 4),
            index: 0,
        },
        space: Space::Objects,
        count: bytes.div_ceil(PAGE_BYTES).max(1) as u32,
        op: Op::Read,
    }
}
