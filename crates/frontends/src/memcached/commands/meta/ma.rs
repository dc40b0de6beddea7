//! ma: count up or down.

use super::super::reply::{NO_MEMORY, NOT_A_NUMBER, say};
use super::ends::{Ends, end_of_made};
use super::reply::{echo, echo_all, refuse, show};
use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::operate::{self, Counted, Delta, Seed};
use crate::memcached::outcome::Ran;
use crate::memcached::verbs::Direction;
use crate::memcached::wire::flags::{Flags, Malformed};
use crate::memcached::wire::words::Words;

/// Answers ma.
pub(in crate::memcached) fn run(caller: Caller<'_>, words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    if words.clone().next().is_none() {
        return refuse(out, Malformed::Format);
    }
    let parsed = Flags::of(words).map_err(generally);
    let (flags, direction) = match parsed.and_then(|flags| Ok((direction(&flags)?, flags))) {
        Ok((direction, flags)) => (flags, direction),
        Err(why) => return refuse(out, why),
    };
    caller.counters().cmd_meta.bump();
    let counted = operate::count(caller, &delta(caller, &flags, direction));
    let code = match counted {
        Counted::To { .. } | Counted::Seeded { .. } if flags.quiet => {
            return Ran::Done { after: 0 };
        }
        Counted::To {
            number,
            cas,
            old_expiry,
        } => {
            return reply(caller, &flags, number, cas, Ends::of_old(old_expiry), out);
        }
        Counted::Seeded { number, cas } => {
            return reply(caller, &flags, number, cas, Ends::of_made(), out);
        }
        Counted::NotANumber => return say(out, NOT_A_NUMBER),
        Counted::NoMemory => return say(out, NO_MEMORY),
        Counted::Missing => b"NF",
        Counted::Exists => b"EX",
    };
    out.extend_from_slice(code);
    echo_all(out, &flags);
    Ran::Done { after: 0 }
}

/// ma says less exactly what is wrong with a flag.
fn generally(why: Malformed) -> Malformed {
    match why {
        Malformed::OpaqueTooLong => why,
        _ => Malformed::FlagsOfCount,
    }
}

fn direction(flags: &Flags<'_>) -> Result<Direction, Malformed> {
    match flags.mode {
        None | Some(b'I' | b'+') => Ok(Direction::Up),
        Some(b'D' | b'-') => Ok(Direction::Down),
        Some(_) => Err(Malformed::CountMode),
    }
}

fn delta<'a>(caller: Caller<'_>, flags: &Flags<'a>, direction: Direction) -> Delta<'a> {
    Delta {
        key: flags.key.clone(),
        direction,
        by: flags.delta,
        compare: flags.compare,
        seed: flags.vivify.map(|_| Seed {
            number: flags.initial,
            expiry: end_of_made(caller, flags),
        }),
        expiry: caller.end_of(flags.expiry),
        cas: flags.new_cas(),
        binary_key: flags.binary_key,
    }
}

/// Shows the number.
fn reply(
    caller: Caller<'_>,
    flags: &Flags<'_>,
    number: u64,
    cas: u64,
    mut ends: Ends,
    out: &mut Vec<u8>,
) -> Ran {
    let mut digits = itoa::Buffer::new();
    let number = digits.format(number).as_bytes();
    if flags.value {
        out.extend_from_slice(b"VA ");
        numbers::write(out, number.len());
    } else {
        out.extend_from_slice(b"HD");
    }
    for flag in flags.returned() {
        ends.pass(caller, flags, flag[0]);
        match flag[0] {
            b't' => show(out, b't', numbers::ttl(caller.tenancy.now(), ends.now)),
            b'c' => show(out, b'c', caller.kept_cas(cas)),
            _ => echo(out, flag, flags.key.bytes(), flags.binary_key),
        }
    }
    out.extend_from_slice(b"\r\n");
    if flags.value {
        out.extend_from_slice(number);
        out.extend_from_slice(b"\r\n");
    }
    Ran::Done { after: 0 }
}
