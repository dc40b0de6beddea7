//! Parts of replies that several meta commands share.

use super::super::reply::reply_line;
use crate::memcached::map::{self, KeyForm};
use crate::memcached::numbers;
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::wire::flags::{MalformedRequest, MetaFlags};

/// Replies that a request is malformed.
pub(super) fn refuse(out: &mut Vec<u8>, why: MalformedRequest) -> RequestOutcome {
    out.extend_from_slice(b"CLIENT_ERROR ");
    out.extend_from_slice(why.to_string().as_bytes());
    reply_line(out, b"\r\n")
}

/// Ends a reply that is only a code (`EN`, `NF`, `HD`, …) with the key and the opaque that the client wants back.
pub(super) fn echo_all(out: &mut Vec<u8>, flags: &MetaFlags<'_>) {
    for flag in flags.in_request_order() {
        echo(out, flag, flags.key.bytes(), flags.key_form());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the key or the opaque if this flag asks for one of them.
pub(super) fn echo(out: &mut Vec<u8>, flag: &[u8], key: &[u8], form: KeyForm) {
    match (flag[0], form) {
        (b'O', _) => {
            out.push(b' ');
            out.extend_from_slice(flag);
        }
        (b'k', KeyForm::Base64) => {
            out.extend_from_slice(b" k");
            map::write_base64(out, key);
            out.extend_from_slice(b" b");
        }
        (b'k', KeyForm::Plain) => {
            out.extend_from_slice(b" k");
            out.extend_from_slice(key);
        }
        _ => {}
    }
}

/// Appends a flag and its number.
pub(super) fn write_flag(out: &mut Vec<u8>, flag: u8, number: impl itoa::Integer) {
    out.extend_from_slice(&[b' ', flag]);
    numbers::write(out, number);
}
