//! ma: counts up or down.

use super::super::reply::{NO_MEMORY, NOT_A_NUMBER, reply_line};
use super::expiry::{ExpiryTracker, expiry_of_created};
use super::reply::{echo, echo_all, refuse, write_flag};
use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::operate::{self, CountOutcome, Delta, InitialNumber};
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::verbs::Direction;
use crate::memcached::wire::flags::{MalformedRequest, MetaFlags};
use crate::memcached::wire::words::Words;

/// Runs ma.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    if words.clone().next().is_none() {
        return refuse(out, MalformedRequest::Format);
    }
    let parsed = MetaFlags::of(words).map_err(generalized);
    let (flags, direction) = match parsed.and_then(|flags| Ok((direction(&flags)?, flags))) {
        Ok((direction, flags)) => (flags, direction),
        Err(why) => return refuse(out, why),
    };
    caller.counters().cmd_meta.bump();
    let counted = operate::count(caller, &delta(caller, &flags, direction));
    let code = match counted {
        CountOutcome::Changed { .. } | CountOutcome::Created { .. } if flags.quiet => {
            return RequestOutcome::Done { body: 0 };
        }
        CountOutcome::Changed {
            number,
            cas,
            old_expiry,
        } => {
            return reply(
                caller,
                &flags,
                number,
                cas,
                ExpiryTracker::of_existing(old_expiry),
                out,
            );
        }
        CountOutcome::Created { number, cas } => {
            return reply(
                caller,
                &flags,
                number,
                cas,
                ExpiryTracker::of_created(),
                out,
            );
        }
        CountOutcome::NotANumber => return reply_line(out, NOT_A_NUMBER),
        CountOutcome::NoMemory => return reply_line(out, NO_MEMORY),
        CountOutcome::Missing => b"NF",
        CountOutcome::Exists => b"EX",
    };
    out.extend_from_slice(code);
    echo_all(out, &flags);
    RequestOutcome::Done { body: 0 }
}

/// Makes the error more general, because ma reports errors of flags less exactly.
fn generalized(why: MalformedRequest) -> MalformedRequest {
    match why {
        MalformedRequest::OpaqueTooLong => why,
        _ => MalformedRequest::FlagsOfCount,
    }
}

fn direction(flags: &MetaFlags<'_>) -> Result<Direction, MalformedRequest> {
    match flags.mode {
        None | Some(b'I' | b'+') => Ok(Direction::Up),
        Some(b'D' | b'-') => Ok(Direction::Down),
        Some(_) => Err(MalformedRequest::CountMode),
    }
}

fn delta<'a>(caller: Caller<'_>, flags: &MetaFlags<'a>, direction: Direction) -> Delta<'a> {
    Delta {
        key: flags.key.clone(),
        direction,
        by: flags.delta,
        compare: flags.compare,
        initial: flags.vivify.map(|_| InitialNumber {
            number: flags.initial,
            expiry: expiry_of_created(caller, flags),
        }),
        expiry: caller.optional_expiry(flags.expiry),
        cas: flags.new_cas(),
        binary_key: flags.binary_key,
    }
}

/// Replies with the number.
fn reply(
    caller: Caller<'_>,
    flags: &MetaFlags<'_>,
    number: u64,
    cas: u64,
    mut expiry: ExpiryTracker,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let mut digits = itoa::Buffer::new();
    let number = digits.format(number).as_bytes();
    if flags.value {
        out.extend_from_slice(b"VA ");
        numbers::write(out, number.len());
    } else {
        out.extend_from_slice(b"HD");
    }
    for flag in flags.in_request_order() {
        expiry.apply_flag(caller, flags, flag[0]);
        match flag[0] {
            b't' => write_flag(out, b't', numbers::ttl(caller.tenancy.now(), expiry.now)),
            b'c' => write_flag(out, b'c', caller.stored_cas(cas)),
            _ => echo(out, flag, flags.key.bytes(), flags.key_form()),
        }
    }
    out.extend_from_slice(b"\r\n");
    if flags.value {
        out.extend_from_slice(number);
        out.extend_from_slice(b"\r\n");
    }
    RequestOutcome::Done { body: 0 }
}
