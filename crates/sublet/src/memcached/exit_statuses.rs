//! memcached's exit statuses, by their names in sysexits(3).

/// The operation failed.
pub(super) const FAILURE: u8 = 1;
/// The command line makes no sense.
pub(super) const EX_USAGE: u8 = 64;
/// There is no such user.
pub(super) const EX_NOUSER: u8 = 67;
/// The system refuses an operation.
pub(super) const EX_OSERR: u8 = 71;
