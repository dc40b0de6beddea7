//! stats: figures by groups, a line each.

use super::super::reply::{BAD_FORMAT, ERROR, OK, reply_line};
use super::super::stats::{self, StatsGroup};
use crate::memcached::caller::Caller;
use crate::memcached::numbers::unsigned_32;
use crate::memcached::operate::listing::{CachedumpBudget, Listing, ListingKind};
use crate::memcached::operate::sizes::SizeHistogram;
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::wire::stat_writer::{CLASS, StatWriter};
use crate::memcached::wire::words::Words;

/// memcached's classes have numbers below this.
const CLASSES: u32 = 64;

/// Runs stats.
pub(super) fn run(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> RequestOutcome {
    match words.next().unwrap_or_default() {
        b"reset" => {
            caller.instance.reset(caller.tenancy);
            reply_line(out, b"RESET\r\n")
        }
        b"detail" => detail(caller, words, out),
        b"cachedump" => cachedump(caller, words, out),
        name => match StatsGroup::named(name) {
            None => reply_line(out, ERROR),
            Some(StatsGroup::Sizes) if caller.instance.settings.track_sizes => sizes(),
            Some(group) => {
                stats::write(caller, group, &mut StatLines(out));
                reply_line(out, b"END\r\n")
            }
        },
    }
}

fn sizes() -> RequestOutcome {
    let reply_sizes = |sizes: &SizeHistogram, out: &mut Vec<u8>| {
        sizes.write(&mut StatLines(out));
        out.extend_from_slice(b"END\r\n");
    };
    RequestOutcome::list(Listing::new(ListingKind::Sizes(
        SizeHistogram::default(),
        Box::new(reply_sizes),
    )))
}

fn detail(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> RequestOutcome {
    if !caller.instance.settings.dump {
        return reply_line(out, b"CLIENT_ERROR stats detail not allowed\r\n");
    }
    let prefixes = &caller.instance.prefixes;
    match words.next() {
        Some(b"on") => prefixes.collect(),
        Some(b"off") => prefixes.stop(),
        Some(b"dump") => {
            prefixes.dump(out);
            return RequestOutcome::Done { body: 0 };
        }
        _ => return reply_line(out, b"CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
    }
    reply_line(out, OK)
}

fn cachedump(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> RequestOutcome {
    if !caller.instance.settings.dump {
        return reply_line(out, b"CLIENT_ERROR stats cachedump not allowed\r\n");
    }
    let (Some(class), Some(limit)) = (words.next(), words.next()) else {
        return reply_line(out, b"CLIENT_ERROR bad command line\r\n");
    };
    match (unsigned_32(class), unsigned_32(limit)) {
        (None, _) | (_, None) => reply_line(out, BAD_FORMAT),
        (Some(CLASSES..), _) => reply_line(out, b"CLIENT_ERROR Illegal slab id\r\n"),
        (Some(CLASS), Some(limit)) => RequestOutcome::list(Listing::new(ListingKind::Cachedump(
            CachedumpBudget::of(limit),
        ))),
        _ => reply_line(out, b"END\r\n"),
    }
}

/// Writes figures as lines.
struct StatLines<'a>(&'a mut Vec<u8>);

impl StatWriter for StatLines<'_> {
    fn write_stat(&mut self, name: &str, value: &str) {
        for part in ["STAT ", name, " ", value, "\r\n"] {
            self.0.extend_from_slice(part.as_bytes());
        }
    }
}
