//! memcached's meta protocol: two letters, a key, and flags that say what is done and what is shown.

mod flags;
pub(super) mod ma;
pub(super) mod md;
pub(super) mod me;
pub(super) mod mg;
pub(super) mod ms;

use super::reply::say;
use crate::memcached::map;
use crate::memcached::numbers;
use crate::memcached::outcome::Ran;
use crate::memcached::turn::Turn;
use flags::{Flags, Malformed};
use sublet_types::Expiry;

/// The end of an item while the flags of a request act on it, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Ends {
    now: Expiry,
    made: Made,
}

/// Whether a request made the item that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Now,
    Before,
}

impl Ends {
    /// Of an item that was there.
    fn of_old(end: Expiry) -> Ends {
        let made = Made::Before;
        Ends { now: end, made }
    }

    /// Of an item that the request made.
    fn of_made() -> Ends {
        let (now, made) = (Expiry::Never, Made::Now);
        Ends { now, made }
    }

    /// A flag's turn has come.
    fn pass(&mut self, flags: &Flags<'_>, flag: u8) {
        let end = match (flag, self.made) {
            (b'T', _) => flags.expiry,
            (b'N', Made::Now) => flags.vivify,
            _ => None,
        };
        self.now = end.unwrap_or(self.now);
    }
}

/// Replies with what was wrong with a request.
fn refuse(out: &mut Vec<u8>, why: Malformed) -> Ran {
    out.extend_from_slice(b"CLIENT_ERROR ");
    out.extend_from_slice(why.to_string().as_bytes());
    say(out, b"\r\n")
}

/// Ends a reply of a code alone (`EN`, `NF`, `HD`, …) with the key and the opaque that the client asked back.
fn echo_all(out: &mut Vec<u8>, flags: &Flags<'_>) {
    for flag in flags.returned() {
        echo(out, flag, flags.key.bytes(), flags.binary_key);
    }
    out.extend_from_slice(b"\r\n");
}

/// Returns the key or the opaque, if this flag asks for one of them.
fn echo(out: &mut Vec<u8>, flag: &[u8], key: &[u8], binary: bool) {
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
fn show(out: &mut Vec<u8>, flag: u8, number: impl itoa::Integer) {
    out.extend_from_slice(&[b' ', flag]);
    numbers::write(out, number);
}
