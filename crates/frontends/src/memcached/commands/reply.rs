//! Reply lines of the text and the meta protocol.

use crate::memcached::outcome::RequestOutcome;

/// The reply to a malformed line of a known command.
pub(super) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// The reply to a value that does not end where the line said.
pub(super) const BAD_BLOCK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";

/// The reply to a value that exceeds the limit.
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// The reply to a value for which no memory is left.
pub(super) const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// The reply to arithmetic on a value that is no number.
pub(super) const NOT_A_NUMBER: &[u8] =
    b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// The reply to an unknown command, or to one that lacks what it needs.
pub(super) const ERROR: &[u8] = b"ERROR\r\n";

/// The reply to a command that is done and has no result.
pub(super) const OK: &[u8] = b"OK\r\n";

/// Appends a reply line, with which the request is done.
pub(super) fn reply_line(out: &mut Vec<u8>, line: &[u8]) -> RequestOutcome {
    out.extend_from_slice(line);
    RequestOutcome::Done { body: 0 }
}
