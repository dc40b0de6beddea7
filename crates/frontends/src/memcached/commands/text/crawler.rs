//! slabs, lru, lru_crawler: memcached's commands for tuning.
//!
//! All items are in one class here, and nothing of it needs tuning, so the commands give the documented replies. The
//! listings of `lru_crawler` are real. So is its search for expired items, which is complete when the reply comes.

use super::super::reply::{BAD_FORMAT, ERROR, OK, reply_line};
use crate::memcached::caller::{Caller, PipelinePosition};
use crate::memcached::numbers::{fraction, signed_32, unsigned_32};
use crate::memcached::operate::listing::{Listing, ListingKind};
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::settings::Crawler;
use crate::memcached::wire::words::Words;

/// The highest number of a class in memcached. They begin at 1.
const CLASS_MAX: i32 = 63;

const BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";

/// Runs slabs.
pub(super) fn slabs(mut words: Words<'_>, out: &mut Vec<u8>) -> RequestOutcome {
    match words.next() {
        Some(b"reassign") => reply_line(out, reassign(words)),
        Some(b"automove") => reply_line(out, automove(words)),
        _ => reply_line(out, ERROR),
    }
}

fn reassign(mut words: Words<'_>) -> &'static [u8] {
    let (Some(from), Some(to), None) = (words.next(), words.next(), words.next()) else {
        return ERROR;
    };
    match (signed_32(from), signed_32(to)) {
        (None, _) | (_, None) => BAD_FORMAT,
        (Some(from), Some(to)) if from == to => b"SAME src and dst class are identical\r\n",
        (Some(-1..=CLASS_MAX), Some(0..=CLASS_MAX)) => {
            b"NOSPARE source class has no spare pages\r\n"
        }
        _ => b"BADCLASS invalid src or dst class id\r\n",
    }
}

/// The windows that memcached accepts for its mover of slabs.
const WINDOWS: std::ops::RangeInclusive<u32> = 3..=1800;

fn automove(mut words: Words<'_>) -> &'static [u8] {
    let Some(what) = words.next() else {
        return ERROR;
    };
    let value = words.next();
    match (what, value) {
        (b"ratio" | b"freeratio", Some(value)) if fraction(value).is_some() => OK,
        (b"ratio" | b"freeratio", _) => ERROR,
        (b"window", Some(value)) => match unsigned_32(value) {
            None => BAD_FORMAT,
            Some(window) if WINDOWS.contains(&window) => OK,
            Some(_) => b"CLIENT_ERROR automove window too low or too high\r\n",
        },
        _ => match unsigned_32(what) {
            None => BAD_FORMAT,
            Some(0..=2) => OK,
            Some(_) => ERROR,
        },
    }
}

/// The most per cent that the hot and the warm list have together.
const HOT_AND_WARM_MAX: u64 = 80;

/// Runs lru.
pub(super) fn lru(mut words: Words<'_>, out: &mut Vec<u8>) -> RequestOutcome {
    let Some(what) = words.next() else {
        return reply_line(out, ERROR);
    };
    match (what, words.next()) {
        (b"tune", Some(hot)) => reply_line(out, tune(hot, words)),
        (b"mode", Some(b"flat" | b"segmented")) => reply_line(out, OK),
        (b"temp_ttl", Some(ttl)) if signed_32(ttl).is_some() => reply_line(out, OK),
        _ => reply_line(out, ERROR),
    }
}

fn tune(hot: &[u8], mut words: Words<'_>) -> &'static [u8] {
    let mut tuned = || {
        let (hot, warm) = (unsigned_32(hot)?, unsigned_32(words.next()?)?);
        let factors = (fraction(words.next()?)?, fraction(words.next()?)?);
        Some((u64::from(hot) + u64::from(warm), factors))
    };
    match tuned() {
        None => ERROR,
        Some((percent, _)) if percent > HOT_AND_WARM_MAX => {
            b"ERROR hot and warm pcts must not exceed 80\r\n"
        }
        Some((_, (hot, warm))) if hot <= 0.0 || warm <= 0.0 => {
            b"ERROR hot/warm age factors must be greater than 0\r\n"
        }
        Some(_) => OK,
    }
}

/// The longest sleep that can be set, in microseconds.
const SLEEP_MAX: u32 = 1_000_000;

/// Runs lru_crawler.
pub(super) fn lru_crawler(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let (what, on_what) = (words.next(), words.next());
    if words.next().is_some() {
        return reply_line(out, ERROR);
    }
    match (what, on_what) {
        (Some(b"enable"), None) => set_crawler(caller, Crawler::On, out),
        (Some(b"disable"), None) => set_crawler(caller, Crawler::Off, out),
        (Some(b"crawl" | b"metadump" | b"mgdump"), Some(_))
            if caller.instance.crawler() == Crawler::Off =>
        {
            reply_line(out, b"CLIENT_ERROR lru crawler disabled\r\n")
        }
        (Some(b"crawl"), Some(classes)) if names_classes(classes) => {
            caller.counters().lru_crawler_starts.bump();
            RequestOutcome::list(Listing::new(ListingKind::Crawl))
        }
        (Some(b"crawl"), Some(_)) => reply_line(out, BAD_CLASS),
        (Some(b"metadump"), Some(which)) => metadump(caller, which, out),
        (Some(b"mgdump"), Some(which)) => mgdump(caller, which, out),
        (Some(b"tocrawl"), Some(number)) => match unsigned_32(number) {
            Some(_) => reply_line(out, OK),
            None => reply_line(out, BAD_FORMAT),
        },
        (Some(b"sleep"), Some(micros)) => match unsigned_32(micros) {
            Some(0..=SLEEP_MAX) => reply_line(out, OK),
            Some(_) => reply_line(out, b"CLIENT_ERROR sleep must be one second or less\r\n"),
            None => reply_line(out, BAD_FORMAT),
        },
        _ => reply_line(out, ERROR),
    }
}

fn set_crawler(caller: Caller<'_>, crawler: Crawler, out: &mut Vec<u8>) -> RequestOutcome {
    caller.instance.set_crawler(crawler);
    reply_line(out, OK)
}

fn names_classes(classes: &[u8]) -> bool {
    classes == b"all"
        || classes
            .split(|&byte| byte == b',')
            .all(|class| signed_32(class).is_some_and(|class| (1..=CLASS_MAX).contains(&class)))
}

fn metadump(caller: Caller<'_>, which: &[u8], out: &mut Vec<u8>) -> RequestOutcome {
    if !caller.instance.settings.dump {
        return reply_line(out, b"ERROR metadump not allowed\r\n");
    }
    dump(caller, ListingKind::Metadump, which, out)
}

fn mgdump(caller: Caller<'_>, which: &[u8], out: &mut Vec<u8>) -> RequestOutcome {
    if !caller.instance.settings.dump {
        return reply_line(out, b"ERROR key dump not allowed\r\n");
    }
    dump(caller, ListingKind::Mgdump, which, out)
}

fn dump(caller: Caller<'_>, kind: ListingKind, which: &[u8], out: &mut Vec<u8>) -> RequestOutcome {
    if caller.position == PipelinePosition::Behind {
        return reply_line(
            out,
            match kind {
                ListingKind::Metadump => {
                    b"ERROR cannot pipeline other commands before metadump\r\n"
                }
                _ => b"ERROR cannot pipeline other commands before mgdump\r\n",
            },
        );
    }
    if which != b"hash" && !names_classes(which) {
        return reply_line(out, BAD_CLASS);
    }
    out.extend_from_slice(OK);
    RequestOutcome::list(Listing::new(kind))
}
