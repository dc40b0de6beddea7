//! flush_all, version, verbosity, cache_memlimit, shutdown, refresh_certs, watch.

use sublet_types::Bytes;

use super::super::reply::{BAD_FORMAT, ERROR, OK, say};
use crate::memcached::caller::{Caller, Place};
use crate::memcached::instance::{LimitRefused, VERSION};
use crate::memcached::numbers;
use crate::memcached::outcome::{Next, Ran};
use crate::memcached::watch::Kinds;
use crate::memcached::wire::words::Words;

/// Answers flush_all, at once or after a delay.
pub(super) fn flush_all(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    caller.counters().cmd_flush.bump();
    if !caller.instance.settings.flush {
        return say(out, b"CLIENT_ERROR flush_all not allowed\r\n");
    }
    let delay = match words.next() {
        None | Some(b"noreply") => 0,
        Some(delay) => match numbers::signed_32(delay) {
            Some(delay) => delay,
            None => return say(out, b"CLIENT_ERROR invalid exptime argument\r\n"),
        },
    };
    caller.instance.flush(caller.tenancy, delay.into());
    say(out, OK)
}

/// Answers version.
pub(super) fn version(out: &mut Vec<u8>) -> Ran {
    out.extend_from_slice(b"VERSION ");
    out.extend_from_slice(VERSION.as_bytes());
    say(out, b"\r\n")
}

/// Answers verbosity.
pub(super) fn verbosity(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    match words.next().and_then(numbers::unsigned_32) {
        None => say(out, BAD_FORMAT),
        Some(level) => {
            caller.instance.set_verbosity(level);
            say(out, OK)
        }
    }
}

/// The least memory that cache_memlimit sets, MiB.
const MEMLIMIT_MIN: u32 = 8;

/// More MiB than this was surely meant as bytes.
const MEMLIMIT_MAX: u32 = 1_000_000_000;

/// Answers cache_memlimit.
pub(super) fn cache_memlimit(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    let reply: &[u8] = match words.next().and_then(numbers::unsigned_32) {
        None => return say(out, ERROR),
        Some(0..MEMLIMIT_MIN) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
        Some(mib) if mib > MEMLIMIT_MAX => {
            b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"
        }
        Some(mib) => {
            let limit = Bytes::mib(mib.into());
            match caller
                .instance
                .host
                .limit_memory(caller.tenancy.tenant(), limit)
            {
                Ok(()) => OK,
                Err(LimitRefused::TooSmall) => {
                    b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"
                }
                Err(LimitRefused::TooLarge) => {
                    b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
                }
            }
        }
    };
    say(out, reply)
}

/// Answers shutdown.
pub(super) fn shutdown(caller: Caller<'_>, mut words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    if !caller.instance.settings.shutdown {
        return say(out, b"SERVER_ERROR: shutdown not enabled\r\n");
    }
    match words.next() {
        None => Ran::Stop(Next::Shutdown { graceful: false }),
        Some(b"graceful") => Ran::Stop(Next::Shutdown { graceful: true }),
        Some(_) => say(out, b"CLIENT_ERROR invalid shutdown mode\r\n"),
    }
}

/// Answers refresh_certs.
pub(super) fn refresh_certs(caller: Caller<'_>, out: &mut Vec<u8>) -> Ran {
    if caller.instance.settings.tls.is_none() {
        return say(out, b"Error TLS not enabled\r\n");
    }
    match caller.instance.host.refresh_certs() {
        Ok(()) => {
            let clock = caller.tenancy.clock();
            let read = &caller.instance.figures.ssl_certs_read_unix;
            read.set(clock.unix(clock.now()));
            say(out, OK)
        }
        Err(why) => {
            out.extend_from_slice(b"SERVER_ERROR ");
            out.extend_from_slice(why.to_string().as_bytes());
            say(out, b"\r\n")
        }
    }
}

/// Answers watch: from here on the connection only listens.
pub(super) fn watch(caller: Caller<'_>, words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    if !caller.instance.settings.watch {
        return say(out, b"CLIENT_ERROR watch commands not allowed\r\n");
    }
    if caller.place == Place::Behind {
        return say(
            out,
            b"ERROR cannot pipeline other commands before watch\r\n",
        );
    }
    let Some(kinds) = kinds(words) else {
        return say(out, ERROR);
    };
    match caller.instance.watchers.join(kinds, caller.tenancy) {
        None => say(out, b"WATCHER_TOO_MANY log watcher limit reached\r\n"),
        Some(feed) => {
            out.extend_from_slice(OK);
            Ran::Watch(feed)
        }
    }
}

fn kinds(words: Words<'_>) -> Option<Kinds> {
    if words.rest().trim_ascii().is_empty() {
        return Some(Kinds::FETCHES);
    }
    let mut named = words.map(Kinds::named);
    named.try_fold(Kinds::default(), |all, kind| Some(all.and(kind?)))
}
