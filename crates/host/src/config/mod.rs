//! The config: a table of knobs, what was written, what it means, and what was changed while running.

mod bounds;
mod changes;
mod claim;
mod disks;
mod faults;
mod file;
mod keep_error;
mod knobs;
mod listen;
mod live;
mod load;
mod meant;
mod nearest;
mod page;
mod reading;
mod said;
mod shown;
mod written;

#[cfg(test)]
mod tests;

pub use bounds::{DISKS_MAX, WEIGHT_MAX};
pub use changes::{DiskChange, PolicyChange, TenantChange};
pub use claim::Claim;
pub(crate) use disks::{check_disk_size, disk_asked};
pub use faults::{Fault, Faults, Place, Wrong};
pub use file::LoadError;
pub use keep_error::KeepError;
pub use knobs::{
    AdminConfig, AdminTcp, ArenaConfig, DAEMON_KNOBS, DISK_KNOBS, DaemonConfig, DiskConfig, Knob,
    LogFormat, MetricsConfig, PolicyConfig, RETIRED_KNOBS, Retired, SharedConfig, TENANT_KNOBS,
    Takes, TenantConfig, Tls, WrittenDisk, WrittenRooms, WrittenTenant,
};
pub use listen::{Listen, ListenError};
pub use live::Live;
pub use load::{Flag, Loaded, check, load};
pub use meant::Config;
pub use nearest::nearest;
pub use page::{default_file, reference};
pub use said::{Said, Unfit};
pub(crate) use shown::shown_disk;
pub use written::Written;
