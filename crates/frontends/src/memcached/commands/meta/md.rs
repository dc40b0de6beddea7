//! md: delete, or mark stale, or empty.

use sublet_store::{Entry, Marks, NewCas, Refused};
use sublet_types::Expiry;

use super::super::reply::{NO_MEMORY, say};
use super::reply::{echo_all, refuse};
use crate::memcached::caller::Caller;
use crate::memcached::events::{Command, Event};
use crate::memcached::numbers;
use crate::memcached::operate::{self, Compared};
use crate::memcached::outcome::Ran;
use crate::memcached::verbs::{Deleted, Mode};
use crate::memcached::wire::flags::Flags;
use crate::memcached::wire::words::Words;

/// Answers md.
pub(in crate::memcached) fn run(caller: Caller<'_>, words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    let flags = match Flags::of(words) {
        Ok(flags) => flags,
        Err(why) => return refuse(out, why),
    };
    caller.counters().cmd_meta.bump();
    let deleted = match flags.invalidate || flags.empty {
        true => alter(caller, &flags),
        false => Ok(operate::delete(
            caller,
            &flags.key,
            flags.compare,
            Command::MetaDelete,
        )),
    };
    let code = match deleted {
        Ok(Deleted::Done) if flags.quiet => return Ran::Done { after: 0 },
        Ok(Deleted::Done) => b"HD",
        Ok(Deleted::NotFound) => b"NF",
        Ok(Deleted::Exists) => b"EX",
        Err(_) => return say(out, NO_MEMORY),
    };
    out.extend_from_slice(code);
    echo_all(out, &flags);
    Ran::Done { after: 0 }
}

/// Keeps the item, but stale or without its value.
fn alter(caller: Caller<'_>, flags: &Flags<'_>) -> Result<Deleted, Refused> {
    let cas_kept = caller.instance.settings.cas;
    let end = caller.end_of(flags.expiry);
    let mut size = 0;
    let (worker, tenant, now) = caller.tenancy.acting();
    let altered = worker.update(tenant, flags.key.bytes(), now, |entry| {
        let Some(item) = entry.current() else {
            return Deleted::NotFound;
        };
        size = item.value().len();
        let differs = |cas| operate::compare(item, cas, cas_kept) != Compared::Same;
        if flags.compare.is_some_and(differs) {
            return Deleted::Exists;
        }
        rewrite(entry, flags, end);
        Deleted::Done
    })?;
    if altered == Deleted::Done && flags.empty {
        caller.instance.observed(caller.peer, || Event::Written {
            key: flags.key.bytes(),
            mode: Mode::Set,
            ttl: numbers::ttl(caller.tenancy.now(), end.unwrap_or(Expiry::Never)),
            size: 0,
        });
    }
    // What is only marked stale was not deleted.
    if altered != Deleted::Done || !flags.invalidate {
        operate::count_deleted(caller, &flags.key, altered, size, Command::MetaDelete);
    }
    Ok(altered)
}

fn rewrite(entry: &mut Entry<'_>, flags: &Flags<'_>, end: Option<Expiry>) {
    operate::rewrite(entry, |new| {
        if flags.empty {
            let binary_key = new.marks.binary_key;
            new.value = &[];
            new.flags = flags.client_flags;
            new.expiry = end.unwrap_or(Expiry::Never);
            new.marks = Marks {
                binary_key,
                ..Marks::default()
            };
        }
        if flags.invalidate {
            new.expiry = end.unwrap_or(new.expiry);
            new.marks.stale = true;
            new.marks.token_sent = false;
            new.cas = NewCas::Fresh;
        }
        new.cas = flags.given_cas.map_or(new.cas, NewCas::Is);
    });
}
