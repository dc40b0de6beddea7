//! Lines that the text and the meta protocol reply with.

use crate::memcached::outcome::Ran;

/// The reply to a line that is not understood, though its command is.
pub(super) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// The reply to a value that does not end where the line said.
pub(super) const BAD_BLOCK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";

/// The reply to a value that is beyond the limit.
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// The reply to a value for which there is no memory.
pub(super) const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// The reply to arithmetic on a value that is no number.
pub(super) const NOT_A_NUMBER: &[u8] =
    b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// The reply to a command that nobody knows, or that lacks what it needs.
pub(super) const ERROR: &[u8] = b"ERROR\r\n";

/// The reply to what was done and has no result.
pub(super) const OK: &[u8] = b"OK\r\n";

/// Replies with a line; the request is done.
pub(super) fn say(out: &mut Vec<u8>, line: &[u8]) -> Ran {
    out.extend_from_slice(line);
    Ran::Done { after: 0 }
}
