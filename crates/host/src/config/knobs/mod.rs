//! The one table of knobs: those of the daemon, of lending, of a tenant and of a disk.
//!
//! **To add a knob, write one row** in `daemon.rs` or `lending.rs` (into its table), `tenants.rs` or `disks.rs`. The
//! row makes all of these:
//!
//! - the field of what was written and the field of what it means
//! - the key in the file, its check and its default
//! - the option of `sublet serve` or `sublet disk add`, and its help
//! - its lines in `sublet config default` and `docs/config.md`, and what `/v1/settings` shows
//!
//! Read the meaning as `config.arena.floor`, or for a tenant as `tenant.item_max`.
//!
//! Three things are elsewhere. A check of several knobs together is in `resolve.rs`, or for lending and disks in
//! `config/lending.rs` and `config/disks.rs`. The meaning of a disk's knob is a field of `DiskSettings`, which clients
//! know, too. `sublet generate config-reference` prints `docs/config.md`, and a test compares them.

mod daemon;
mod disks;
mod knob;
mod knob_tables;
mod lending;
mod retired;
mod tenants;
mod words;

pub(super) use self::daemon::TABLES;
pub use self::daemon::{
    AdminConfig, AdminTcp, ArenaConfig, DAEMON_KNOBS, DaemonConfig, DiskConfig, LogFormat,
    MetricsConfig, PolicyConfig, WrittenTables,
};
pub(super) use self::disks::disk_lines;
pub use self::disks::{DISK_KNOBS, WrittenDisk};
pub use self::knob::{Knob, KnobArgument};
pub(super) use self::lending::LENDING_TABLES;
pub use self::lending::{BorrowConfig, LENDING_KNOBS, LendConfig, PeersConfig, WrittenLending};
pub use self::retired::{RETIRED_KNOBS, RetiredKnob};
pub use self::tenants::{SharedPoolConfig, TENANT_KNOBS, TenantConfig, TlsFiles, WrittenTenant};
