//! The vocabulary of Sublet: ids, amounts, times and figures that all crates share. It has no behaviour beyond parsing
//! and printing.

#![forbid(unsafe_code)]

mod amount;
mod disk;
mod file_version;
mod host;
mod node;
mod page;
mod serde_messages;
mod snapshot;
mod tenant;
mod time;

pub use amount::{BLOCK_BYTES, BelowBlock, Bytes, PAGE_BYTES, Pages, ParseBytesError};
pub use disk::{
    DiskKind, DiskListen, DiskListenError, DiskName, DiskNameError, DiskSettings, DiskTls,
    Durability, FillPolicy, SlowBacking, SlowBackingError, WindowEviction,
};
pub use file_version::{FileKind, FileVersion, UnreadVersion};
pub use host::{CgroupFigures, HostFigures, PressureTotals};
pub use node::{ClusterName, ClusterNameError, LentBlock, NodeName, NodeNameError};
pub use page::{GetMode, ObjectId, PageIndex, PoolFlags, PoolId, SharedName, SharedNameError};
pub use serde_messages::explain_serde;
pub use snapshot::{Curve, GiveWayOrder, ShrinkMode, Snapshot, Target, Targets, TenantSnapshot};
pub use tenant::{
    EvictionKind, EvictionKindError, FreezeState, ReleaseMode, SimulatedEviction, TenantId,
    TenantName, TenantNameError, TenantSettings, Weight,
};
pub use time::{Expiry, Nanos, Second};
