//! The config: a table of knobs, what was written, what it means, and what was changed while the daemon ran.

mod bounds;
mod changes;
mod cluster;
mod disks;
mod etcd;
mod faults;
mod file;
mod key_values;
mod knobs;
mod lending;
mod lending_values;
mod listen;
mod live_changes;
mod load;
mod member;
mod nearest;
mod peer_place;
mod persist_error;
mod raw_value;
mod reading;
mod reference;
mod resolve;
mod state_folder_claim;
mod written;

#[cfg(test)]
mod tests;

pub use bounds::{DISKS_MAX, WEIGHT_MAX};
pub use changes::{DiskChange, DrainChange, PolicyChange, PresenceChange, TenantChange};
pub(crate) use disks::{check_disk_size, parse_requested_disk};
pub use etcd::{EtcdConfig, EtcdUserConfig};
pub use faults::{ConfigFault, ConfigFaults, FaultKind, SourceLocation};
pub use file::LoadError;
pub(crate) use key_values::disk_key_values;
pub use knobs::{
    AdminConfig, AdminTcp, ArenaConfig, BorrowConfig, DAEMON_KNOBS, DISK_KNOBS, DaemonConfig,
    DiskConfig, Knob, KnobArgument, LENDING_KNOBS, LendConfig, LogFormat, MetricsConfig,
    PeersConfig, PolicyConfig, RETIRED_KNOBS, RetiredKnob, SharedPoolConfig, TENANT_KNOBS,
    TenantConfig, TlsFiles, WrittenDisk, WrittenLending, WrittenTables, WrittenTenant,
};
pub use listen::{ListenAddress, ListenAddressError};
pub use live_changes::LiveChanges;
pub use load::{CliFlag, LoadedConfig, check, load};
pub use member::{PeerMember, PeerMemberError};
pub use nearest::nearest;
pub use peer_place::{PeerPlace, PeerPlaceError};
pub use persist_error::PersistError;
pub use raw_value::{RawValue, ValueError};
pub use reference::{default_file, reference};
pub use resolve::Config;
pub use state_folder_claim::StateFolderClaim;
pub use written::WrittenConfig;
