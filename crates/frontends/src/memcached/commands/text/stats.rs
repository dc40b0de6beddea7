//! stats: figures by groups, a line each.

use super::super::reply::{BAD_FORMAT, ERROR, OK, say};
use super::super::stats::{self, Group};
use crate::memcached::caller::Caller;
use crate::memcached::numbers::unsigned_32;
use crate::memcached::operate::listing::{Bounds, Form, Listing};
use crate::memcached::operate::sizes::Sizes;
use crate::memcached::outcome::Ran;
use crate::memcached::wire::rows::{CLASS, Rows};
use crate::memcached::wire::words::Words;

/// memcached's classes are numbered below this.
const CLASSES: u32 = 64;

/// Answers stats.
pub(super) fn run(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    match words.next().unwrap_or_default() {
        b"reset" => {
            caller.instance.reset(caller.tenancy);
            say(out, b"RESET\r\n")
        }
        b"detail" => detail(caller, words, out),
        b"cachedump" => cachedump(caller, words, out),
        name => match Group::named(name) {
            None => say(out, ERROR),
            Some(Group::Sizes) if caller.instance.settings.track_sizes => sizes(),
            Some(group) => {
                stats::write(caller, group, &mut Lines(out));
                say(out, b"END\r\n")
            }
        },
    }
}

fn sizes() -> Ran {
    let tell = |sizes: &Sizes, out: &mut Vec<u8>| {
        sizes.write(&mut Lines(out));
        out.extend_from_slice(b"END\r\n");
    };
    Ran::list(Listing::new(Form::Sizes(Sizes::default(), Box::new(tell))))
}

fn detail(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    if !caller.instance.settings.dump {
        return say(out, b"CLIENT_ERROR stats detail not allowed\r\n");
    }
    let prefixes = &caller.instance.prefixes;
    match words.next() {
        Some(b"on") => prefixes.collect(),
        Some(b"off") => prefixes.stop(),
        Some(b"dump") => {
            prefixes.dump(out);
            return Ran::Done { after: 0 };
        }
        _ => return say(out, b"CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
    }
    say(out, OK)
}

fn cachedump(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    if !caller.instance.settings.dump {
        return say(out, b"CLIENT_ERROR stats cachedump not allowed\r\n");
    }
    let (Some(class), Some(limit)) = (words.next(), words.next()) else {
        return say(out, b"CLIENT_ERROR bad command line\r\n");
    };
    match (unsigned_32(class), unsigned_32(limit)) {
        (None, _) | (_, None) => say(out, BAD_FORMAT),
        (Some(CLASSES..), _) => say(out, b"CLIENT_ERROR Illegal slab id\r\n"),
        (Some(CLASS), Some(limit)) => Ran::list(Listing::new(Form::Cachedump(Bounds::of(limit)))),
        _ => say(out, b"END\r\n"),
    }
}

/// Figures as lines.
struct Lines<'a>(&'a mut Vec<u8>);

impl Rows for Lines<'_> {
    fn row(&mut self, name: &str, value: &str) {
        for part in ["STAT ", name, " ", value, "\r\n"] {
            self.0.extend_from_slice(part.as_bytes());
        }
    }
}
