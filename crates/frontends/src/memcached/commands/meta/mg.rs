//! mg: get, with everything that can be known of an item.

use sublet_store::{Absence, Entry, Item, Lookup, Marks, NewItem, Reading};
use sublet_types::Expiry;

use super::ends::{Ends, end_of_made};
use super::reply::{echo, echo_all, refuse, show};
use crate::memcached::caller::Caller;
use crate::memcached::outcome::Ran;
use crate::memcached::wire::flags::Flags;
use crate::memcached::wire::words::Words;
use crate::memcached::{numbers, operate};

/// Answers mg.
pub(in crate::memcached) fn run(caller: Caller<'_>, words: Words<'_>, out: &mut Vec<u8>) -> Ran {
    let flags = match Flags::of(words) {
        Ok(flags) => flags,
        Err(why) => return refuse(out, why),
    };
    caller.counters().cmd_meta.bump();
    let mark = out.len();
    let found = match changes(&flags) {
        true => update(caller, &flags, out),
        false => read(caller, &flags, out),
    };
    if !found {
        out.truncate(mark);
        if !flags.quiet {
            out.extend_from_slice(b"EN");
            echo_all(out, &flags);
        }
    }
    Ran::Done { after: 0 }
}

/// Whether the value is wanted, and not known to who asks: `C` is its cas unique.
fn shows_value(caller: Caller<'_>, flags: &Flags<'_>, cas: impl FnOnce() -> u64) -> bool {
    let is_known = || {
        flags
            .compare
            .is_some_and(|known| known == caller.kept_cas(cas()))
    };
    flags.value && !is_known()
}

/// Whether the request may change the item.
fn changes(flags: &Flags<'_>) -> bool {
    flags.expiry.is_some() || flags.vivify.is_some() || flags.recache.is_some()
}

/// What is shown of an item besides what the store keeps.
#[derive(Clone, Copy, Debug)]
struct Shown {
    ends: Ends,
    marks: Marks,
    won: bool,
}

impl Shown {
    /// What was kept of an item, and whether its reader is the one to refresh it.
    fn of(item: &Item<'_>, won: bool) -> Shown {
        Shown {
            ends: Ends::of_old(item.expiry()),
            marks: item.marks(),
            won,
        }
    }
}

/// Reads without a change, unless the item is stale and this reader is the first to hear of it.
fn read(caller: Caller<'_>, flags: &Flags<'_>, out: &mut Vec<u8>) -> bool {
    let reading = match flags.no_use {
        true => Reading::Peek,
        false => Reading::Use,
    };
    let mark = out.len();
    let won = operate::read(caller, &flags.key, reading, |item| {
        let marks = item.marks();
        let won = marks.stale && !marks.token_sent;
        render(caller, flags, item, Shown::of(item, won), out);
        won
    });
    if won != Some(true) || take_token(caller, flags) {
        return won.is_some();
    }
    // Another reader was quicker: show what is there now. It was counted already.
    out.truncate(mark);
    let (worker, tenant, now) = caller.tenancy.acting();
    let shown = worker.read(tenant, flags.key.bytes(), now, Reading::Peek, |item| {
        render(caller, flags, item, Shown::of(item, false), out);
    });
    matches!(shown, Lookup::Hit(()))
}

/// Notes that this reader is the one to refresh the item; says whether nobody did so before.
fn take_token(caller: Caller<'_>, flags: &Flags<'_>) -> bool {
    let (worker, tenant, now) = caller.tenancy.acting();
    let taken = worker.update(tenant, flags.key.bytes(), now, |entry| {
        let free = entry.current().is_some_and(|item| !item.marks().token_sent);
        if free {
            operate::rewrite(entry, |new| new.marks.token_sent = true);
        }
        free
    });
    taken.unwrap_or(true)
}

/// Reads and changes in one.
fn update(caller: Caller<'_>, flags: &Flags<'_>, out: &mut Vec<u8>) -> bool {
    let mark = out.len();
    let (worker, tenant, now) = caller.tenancy.acting();
    let found = worker.update(tenant, flags.key.bytes(), now, |entry| {
        out.truncate(mark);
        match flags.vivify {
            Some(_) if entry.current().is_none() => Ok(vivify(caller, flags, entry, out)),
            _ => refresh(caller, flags, entry, out),
        }
    });
    // No memory for what is made or stored again is a miss.
    let found = found.unwrap_or(Err(Absence::Unknown));
    match flags.expiry {
        Some(_) => operate::count_touched(caller, &flags.key, found),
        None => operate::count_fetched(caller, &flags.key, found),
    }
    found.is_ok()
}

/// Shows the item and changes it as the flags ask; says how long its value is.
fn refresh(
    caller: Caller<'_>,
    flags: &Flags<'_>,
    entry: &mut Entry<'_>,
    out: &mut Vec<u8>,
) -> operate::Found {
    let Some(item) = entry.current() else {
        if !flags.no_use {
            entry.note_use();
        }
        return Err(entry.absence());
    };
    let size = item.value().len();
    let (marks, expiry) = (item.marks(), item.expiry());
    let won = !marks.token_sent && (marks.stale || fades(caller, flags, expiry));
    render(caller, flags, item, Shown::of(item, won), out);
    if !flags.no_use {
        entry.note_use();
    }
    if won || flags.expiry.is_some() {
        operate::rewrite(entry, |new| {
            new.marks.token_sent |= won;
            new.expiry = caller.end_of(flags.expiry).unwrap_or(new.expiry);
        });
    }
    Ok(size)
}

/// Whether the item is to be refreshed: `R` looks at the end that the item has when its turn comes.
fn fades(caller: Caller<'_>, flags: &Flags<'_>, expiry: Expiry) -> bool {
    let mut end = Ends::of_old(expiry);
    caller.end_of(flags.recache).is_some_and(|limit| {
        let before = flags.returned().take_while(|flag| flag[0] != b'R');
        before.for_each(|flag| end.pass(caller, flags, flag[0]));
        end.now != Expiry::Never && ends(end.now) < ends(limit)
    })
}

/// A number that grows with the end.
fn ends(expiry: Expiry) -> u64 {
    match expiry {
        Expiry::At(second) => second.0.into(),
        Expiry::Never => u64::MAX,
    }
}

/// Makes an empty item, which this reader is to fill; its value has no length.
fn vivify(
    caller: Caller<'_>,
    flags: &Flags<'_>,
    entry: &mut Entry<'_>,
    out: &mut Vec<u8>,
) -> usize {
    let (token_sent, binary_key) = (true, flags.binary_key);
    let marks = Marks {
        token_sent,
        binary_key,
        ..Marks::default()
    };
    let new = NewItem {
        flags: 0,
        expiry: end_of_made(caller, flags),
        marks,
        cas: flags.new_cas(),
        value: &[],
    };
    if !flags.no_use {
        entry.note_use();
    }
    let cas = entry.store(&new);
    render_made(caller, flags, cas, out);
    0
}

/// Shows an item that was made for its reader.
fn render_made(caller: Caller<'_>, flags: &Flags<'_>, cas: u64, out: &mut Vec<u8>) {
    let value = shows_value(caller, flags, || cas);
    out.extend_from_slice(if value { b"VA 0" } else { b"HD" });
    let mut ends = Ends::of_made();
    for flag in flags.returned() {
        ends.pass(caller, flags, flag[0]);
        match flag[0] {
            b's' | b'f' | b'h' | b'l' => show(out, flag[0], 0),
            b't' => show(out, b't', numbers::ttl(caller.tenancy.now(), ends.now)),
            b'c' => show(out, b'c', caller.kept_cas(cas)),
            _ => echo(out, flag, flags.key.bytes(), flags.binary_key),
        }
    }
    out.extend_from_slice(b" W\r\n");
    if value {
        out.extend_from_slice(b"\r\n");
    }
}

/// Shows an item.
fn render(
    caller: Caller<'_>,
    flags: &Flags<'_>,
    item: &Item<'_>,
    mut shown: Shown,
    out: &mut Vec<u8>,
) {
    let (key, value) = (item.key(), item.value());
    let now = caller.tenancy.now();
    let wanted = shows_value(caller, flags, || item.cas());
    if wanted {
        out.extend_from_slice(b"VA ");
        numbers::write(out, value.len());
    } else {
        out.extend_from_slice(b"HD");
    }
    for flag in flags.returned() {
        shown.ends.pass(caller, flags, flag[0]);
        match flag[0] {
            b's' => show(out, b's', value.len()),
            b't' => show(out, b't', numbers::ttl(now, shown.ends.now)),
            b'c' => show(out, b'c', caller.cas_of(item)),
            b'f' => show(out, b'f', item.flags()),
            b'l' => show(out, b'l', now.0.saturating_sub(item.last_access().0)),
            b'h' => show(out, b'h', u8::from(item.fetched())),
            _ => echo(out, flag, key, shown.marks.binary_key),
        }
    }
    finish(out, shown);
    if wanted {
        value.copy_to(out);
        out.extend_from_slice(b"\r\n");
    }
}

fn finish(out: &mut Vec<u8>, shown: Shown) {
    if shown.marks.token_sent {
        out.extend_from_slice(b" Z");
    }
    if shown.marks.stale {
        out.extend_from_slice(b" X");
    }
    if shown.won {
        out.extend_from_slice(b" W");
    }
    out.extend_from_slice(b"\r\n");
}
