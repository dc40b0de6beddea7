//! md: deletes an item, marks it stale, or empties it.

use sublet_store::{Entry, ItemRefused, Marks, NewCas};
use sublet_types::Expiry;

use super::super::reply::{NO_MEMORY, reply_line};
use super::reply::{echo_all, refuse};
use crate::memcached::caller::Caller;
use crate::memcached::numbers;
use crate::memcached::operate::{self, CasOrdering};
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::verbs::{DeleteOutcome, StoreMode};
use crate::memcached::watch_event::{DeleteCommand, WatchEvent};
use crate::memcached::wire::flags::MetaFlags;
use crate::memcached::wire::words::Words;

/// Runs md.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let flags = match MetaFlags::of(words) {
        Ok(flags) => flags,
        Err(why) => return refuse(out, why),
    };
    caller.counters().cmd_meta.bump();
    let deleted = match flags.invalidate || flags.empty {
        true => invalidate_or_empty(caller, &flags),
        false => Ok(operate::delete(
            caller,
            &flags.key,
            flags.compare,
            DeleteCommand::MetaDelete,
        )),
    };
    let code = match deleted {
        Ok(DeleteOutcome::Done) if flags.quiet => return RequestOutcome::Done { body: 0 },
        Ok(DeleteOutcome::Done) => b"HD",
        Ok(DeleteOutcome::NotFound) => b"NF",
        Ok(DeleteOutcome::Exists) => b"EX",
        Err(_) => return reply_line(out, NO_MEMORY),
    };
    out.extend_from_slice(code);
    echo_all(out, &flags);
    RequestOutcome::Done { body: 0 }
}

/// Keeps the item, but marks it stale or removes its value.
fn invalidate_or_empty(
    caller: Caller<'_>,
    flags: &MetaFlags<'_>,
) -> Result<DeleteOutcome, ItemRefused> {
    let end = caller.optional_expiry(flags.expiry);
    let mut size = 0;
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let altered = worker.update(tenant, flags.key.bytes(), now, |entry| {
        let Some(item) = entry.current() else {
            return DeleteOutcome::NotFound;
        };
        size = item.value().len();
        let differs = |cas| operate::compare_cas(caller, item, cas) != CasOrdering::Same;
        if flags.compare.is_some_and(differs) {
            return DeleteOutcome::Exists;
        }
        rewrite(entry, flags, end);
        DeleteOutcome::Done
    })?;
    if altered == DeleteOutcome::Done && flags.empty {
        caller.instance.emit(caller.peer, || WatchEvent::Written {
            key: flags.key.bytes(),
            mode: StoreMode::Set,
            ttl: numbers::ttl(caller.tenancy.now(), end.unwrap_or(Expiry::Never)),
            size: 0,
        });
    }
    // An item that is only marked stale was not deleted.
    if altered != DeleteOutcome::Done || !flags.invalidate {
        operate::count_deleted(caller, &flags.key, altered, size, DeleteCommand::MetaDelete);
    }
    Ok(altered)
}

fn rewrite(entry: &mut Entry<'_>, flags: &MetaFlags<'_>, end: Option<Expiry>) {
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
