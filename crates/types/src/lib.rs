//! The vocabulary of Sublet: ids, amounts, times and figures that every room shares. No behaviour
//! beyond parsing and printing.

#![forbid(unsafe_code)]

mod amount;
mod disk;
mod file_version;
mod host;
mod page;
mod plain;
mod snapshot;
mod tenant;
mod time;

pub use amount::{BLOCK_BYTES, BelowBlock, Bytes, PAGE_BYTES, Pages, ParseBytesError};
pub use disk::{
    DiskKind, DiskListen, DiskListenError, DiskName, DiskNameError, DiskSettings, DiskTls,
    Durability, Fill, Slow, SlowError, Windows,
};
pub use file_version::{FileKind, FileVersion, UnreadVersion};
pub use host::{CgroupFigures, HostFigures, Pressure};
pub use page::{ObjectId, PageIndex, PoolFlags, PoolId, SharedName, SharedNameError};
pub use plain::plain;
pub use snapshot::{Curve, Giving, Shrinking, Snapshot, Target, Targets, TenantSnapshot};
pub use tenant::{
    EvictionKind, EvictionKindError, ReleaseMode, SimulatedEviction, TenantId, TenantName,
    TenantNameError, TenantSettings, Weight,
};
pub use time::{Expiry, Nanos, Second};
