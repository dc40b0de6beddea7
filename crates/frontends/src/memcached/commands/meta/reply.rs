//! What the replies of several meta commands have in common.

use super::super::reply::say;
use crate::memcached::outcome::Ran;
use crate::memcached::wire::flags::{Flags, Malformed};
use crate::memcached::{map, numbers};

/// Replies with what was wrong with a request.
pub(super) fn refuse(out: &mut Vec<u8>, why: Malformed) -> Ran {
    out.extend_from_slice(b"CLIENT_ERROR ");
    out.extend_from_slice(why.to_string().as_bytes());
    say(out, b"\r\n")
}

/// Ends a reply of a code alone (`EN`, `NF`, `HD`, …) with the key and the opaque that the client asked back.
pub(super) fn echo_all(out: &mut Vec<u8>, flags: &Flags<'_>) {
    for flag in flags.returned() {
        echo(out, flag, flags.key.bytes(), flags.binary_key);
    }
    out.extend_from_slice(b"\r\n");
}

/// Returns the key or the opaque, if this flag asks for one of them.
pub(super) fn echo(out: &mut Vec<u8>, flag: &[u8], key: &[u8], binary: bool) {
    match flag[0] {
        b'O' => {
            out.push(b' ');
            out.extend_from_slice(flag);
        }
        b'k' if binary => {
            out.extend_from_slice(b" k");
            map::write_base64(out, key);
            out.extend_from_slice(b" b");
        }
        b'k' => {
            out.extend_from_slice(b" k");
            out.extend_from_slice(key);
        }
        _ => {}
    }
}

/// Returns a number after its flag.
pub(super) fn show(out: &mut Vec<u8>, flag: u8, number: impl itoa::Integer) {
    out.extend_from_slice(&[b' ', flag]);
    numbers::write(out, number);
}
