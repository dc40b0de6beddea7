//! The most that a config may say.

/// The most disks of a daemon.
pub const DISKS_MAX: usize = 256;

/// The largest weight: a millionth of the arena is less than a block on any host.
pub const WEIGHT_MAX: u32 = 1_000_000;
