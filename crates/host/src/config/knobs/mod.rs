//! The one table of knobs: those of the daemon, of a tenant and of a disk.
//!
//! **To add a knob, write one row** in `daemon.rs` (into its room), `tenants.rs` or `disks.rs`. From the row come the field of
//! what was written and the field of what it means, its key in the file, its check and its default. So do its option of `sublet
//! serve` or `sublet disk add`, its help, its lines in `sublet config default` and `docs/config.md`, and what `/v1/settings` shows.
//! What it means is read as `config.arena.floor`, or of a tenant as `tenant.item_max`.
//!
//! Three things are elsewhere. A check of several knobs together stands in `meant.rs`, or of a disk in `disks.rs` beside it. What
//! a disk's knob means is a field of `DiskSettings`, which clients know, too. `docs/config.md` is printed by `sublet generate
//! config-reference`, and a test compares them.

mod daemon;
mod disks;
mod knob;
mod retired;
mod tenants;
mod words;

pub(super) use self::daemon::ROOMS;
pub use self::daemon::{
    AdminConfig, AdminTcp, ArenaConfig, DAEMON_KNOBS, DaemonConfig, DiskConfig, LogFormat,
    MetricsConfig, PolicyConfig, WrittenRooms,
};
pub(super) use self::disks::disk_lines;
pub use self::disks::{DISK_KNOBS, WrittenDisk};
pub use self::knob::{Knob, Takes};
pub use self::retired::{RETIRED_KNOBS, Retired};
pub use self::tenants::{SharedConfig, TENANT_KNOBS, TenantConfig, Tls, WrittenTenant};
