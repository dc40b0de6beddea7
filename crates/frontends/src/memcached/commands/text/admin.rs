//! flush_all, version, verbosity, cache_memlimit, shutdown, refresh_certs, watch.

use sublet_types::Bytes;

use super::super::reply::{BAD_FORMAT, ERROR, OK, reply_line};
use crate::memcached::caller::{Caller, PipelinePosition};
use crate::memcached::instance::{LimitRefused, VERSION};
use crate::memcached::numbers;
use crate::memcached::outcome::{LoopAction, RequestOutcome};
use crate::memcached::watch::WatchKinds;
use crate::memcached::wire::words::Words;
use crate::serving::StopMode;

/// Runs flush_all, at once or after a delay.
pub(super) fn flush_all(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    caller.counters().cmd_flush.bump();
    if !caller.instance.settings.flush {
        return reply_line(out, b"CLIENT_ERROR flush_all not allowed\r\n");
    }
    let delay = match words.next() {
        None | Some(b"noreply") => 0,
        Some(delay) => match numbers::signed_32(delay) {
            Some(delay) => delay,
            None => return reply_line(out, b"CLIENT_ERROR invalid exptime argument\r\n"),
        },
    };
    caller.instance.flush(caller.tenancy, delay.into());
    reply_line(out, OK)
}

/// Runs version.
pub(super) fn version(out: &mut Vec<u8>) -> RequestOutcome {
    out.extend_from_slice(b"VERSION ");
    out.extend_from_slice(VERSION.as_bytes());
    reply_line(out, b"\r\n")
}

/// Runs verbosity.
pub(super) fn verbosity(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    match words.next().and_then(numbers::unsigned_32) {
        None => reply_line(out, BAD_FORMAT),
        Some(level) => {
            caller.instance.set_verbosity(level);
            reply_line(out, OK)
        }
    }
}

/// The least memory that cache_memlimit sets, in MiB.
const MEMLIMIT_MIN: u32 = 8;

/// The most MiB that cache_memlimit accepts. A larger number was surely meant as bytes.
const MEMLIMIT_MAX: u32 = 1_000_000_000;

/// Runs cache_memlimit.
pub(super) fn cache_memlimit(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let reply: &[u8] = match words.next().and_then(numbers::unsigned_32) {
        None => return reply_line(out, ERROR),
        Some(0..MEMLIMIT_MIN) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
        Some(mib) if mib > MEMLIMIT_MAX => {
            b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"
        }
        Some(mib) => {
            let limit = Bytes::mib(mib.into());
            match caller
                .instance
                .process
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
    reply_line(out, reply)
}

/// Runs shutdown.
pub(super) fn shutdown(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    if !caller.instance.settings.shutdown {
        return reply_line(out, b"SERVER_ERROR: shutdown not enabled\r\n");
    }
    match words.next() {
        None => RequestOutcome::Stop(LoopAction::Shutdown(StopMode::Now)),
        Some(b"graceful") => RequestOutcome::Stop(LoopAction::Shutdown(StopMode::Graceful)),
        Some(_) => reply_line(out, b"CLIENT_ERROR invalid shutdown mode\r\n"),
    }
}

/// Runs refresh_certs.
pub(super) fn refresh_certs(caller: Caller<'_>, out: &mut Vec<u8>) -> RequestOutcome {
    if caller.instance.settings.tls.is_none() {
        return reply_line(out, b"Error TLS not enabled\r\n");
    }
    match caller.instance.process.refresh_certs() {
        Ok(()) => {
            let clock = caller.tenancy.clock();
            let read = &caller.instance.figures.ssl_certs_read_unix;
            read.set(clock.unix(clock.now()));
            reply_line(out, OK)
        }
        Err(why) => {
            out.extend_from_slice(b"SERVER_ERROR ");
            out.extend_from_slice(why.to_string().as_bytes());
            reply_line(out, b"\r\n")
        }
    }
}

/// Runs watch. The connection only receives lines from now on.
pub(super) fn watch(caller: Caller<'_>, words: Words<'_>, out: &mut Vec<u8>) -> RequestOutcome {
    if !caller.instance.settings.watch {
        return reply_line(out, b"CLIENT_ERROR watch commands not allowed\r\n");
    }
    if caller.position == PipelinePosition::Behind {
        return reply_line(
            out,
            b"ERROR cannot pipeline other commands before watch\r\n",
        );
    }
    let Some(kinds) = kinds(words) else {
        return reply_line(out, ERROR);
    };
    match caller.instance.watchers.join(kinds, caller.tenancy) {
        None => reply_line(out, b"WATCHER_TOO_MANY log watcher limit reached\r\n"),
        Some(watcher) => {
            out.extend_from_slice(OK);
            RequestOutcome::Watch(watcher)
        }
    }
}

fn kinds(words: Words<'_>) -> Option<WatchKinds> {
    if words.rest().trim_ascii().is_empty() {
        return Some(WatchKinds::FETCHES);
    }
    let mut named = words.map(WatchKinds::named);
    named.try_fold(WatchKinds::default(), |all, kind| Some(all.and(kind?)))
}
