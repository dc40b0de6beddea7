//! mg: gets an item, with everything that is known of it.

use sublet_store::{Absence, Entry, Item, Lookup, Marks, NewItem, ReadKind};
use sublet_types::Expiry;

use super::expiry::{ExpiryTracker, expiry_of_created};
use super::reply::{echo, echo_all, refuse, write_flag};
use crate::memcached::caller::Caller;
use crate::memcached::map::KeyForm;
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::wire::flags::MetaFlags;
use crate::memcached::wire::words::Words;
use crate::memcached::{numbers, operate};

/// Runs mg.
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
    let mark = out.len();
    let found = match changes_item(&flags) {
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
    RequestOutcome::Done { body: 0 }
}

/// Returns whether the reply has the value: the client wants it and does not know it yet. The client names the cas
/// unique of the value that it knows in `C`.
fn shows_value(caller: Caller<'_>, flags: &MetaFlags<'_>, cas: impl FnOnce() -> u64) -> bool {
    let is_known = || {
        flags
            .compare
            .is_some_and(|known| known == caller.stored_cas(cas()))
    };
    flags.value && !is_known()
}

/// Returns whether the request may change the item.
fn changes_item(flags: &MetaFlags<'_>) -> bool {
    flags.expiry.is_some() || flags.vivify.is_some() || flags.recache.is_some()
}

/// Whether the reader of an item is the one to refresh it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recache {
    /// It is: the reply has the flag `W`.
    Won,
    /// It is not.
    NotWon,
}

/// What a reply shows of an item, besides what the store keeps.
#[derive(Clone, Copy, Debug)]
struct ItemView {
    expiry: ExpiryTracker,
    marks: Marks,
    recache: Recache,
}

impl ItemView {
    /// Takes from an item what a reply shows of it.
    fn of(item: &Item<'_>, recache: Recache) -> ItemView {
        ItemView {
            expiry: ExpiryTracker::of_existing(item.expiry()),
            marks: item.marks(),
            recache,
        }
    }
}

/// Reads an item without changing it. But if the item is stale and this reader is the first to see it, the item records
/// that.
fn read(caller: Caller<'_>, flags: &MetaFlags<'_>, out: &mut Vec<u8>) -> bool {
    let reading = match flags.no_use {
        true => ReadKind::Peek,
        false => ReadKind::Use,
    };
    let mark = out.len();
    let recache = operate::read(caller, &flags.key, reading, |item| {
        let marks = item.marks();
        let recache = match marks.stale && !marks.token_sent {
            true => Recache::Won,
            false => Recache::NotWon,
        };
        render(caller, flags, item, ItemView::of(item, recache), out);
        recache
    });
    if recache != Some(Recache::Won) || claim_recache(caller, flags) {
        return recache.is_some();
    }
    // Another reader was quicker: show what is there now. It was counted already.
    out.truncate(mark);
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let shown = worker.read(tenant, flags.key.bytes(), now, ReadKind::Peek, |item| {
        let shown = ItemView::of(item, Recache::NotWon);
        render(caller, flags, item, shown, out);
    });
    matches!(shown, Lookup::Hit(()))
}

/// Records that this reader is the one to refresh the item. Returns whether no other reader was before it.
fn claim_recache(caller: Caller<'_>, flags: &MetaFlags<'_>) -> bool {
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let claimed = worker.update(tenant, flags.key.bytes(), now, |entry| {
        let free = entry.current().is_some_and(|item| !item.marks().token_sent);
        if free {
            operate::rewrite(entry, |new| new.marks.token_sent = true);
        }
        free
    });
    claimed.unwrap_or(true)
}

/// Reads and changes an item in one operation.
fn update(caller: Caller<'_>, flags: &MetaFlags<'_>, out: &mut Vec<u8>) -> bool {
    let mark = out.len();
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let found = worker.update(tenant, flags.key.bytes(), now, |entry| {
        out.truncate(mark);
        match flags.vivify {
            Some(_) if entry.current().is_none() => Ok(vivify(caller, flags, entry, out)),
            _ => refresh(caller, flags, entry, out),
        }
    });
    // A lack of memory for an item that is created or stored again counts as a miss.
    let found = found.unwrap_or(Err(Absence::Unknown));
    match flags.expiry {
        Some(_) => operate::count_touched(caller, &flags.key, found),
        None => operate::count_fetched(caller, &flags.key, found),
    }
    found.is_ok()
}

/// Shows the item and changes it as the flags say. Returns the length of its value.
fn refresh(
    caller: Caller<'_>,
    flags: &MetaFlags<'_>,
    entry: &mut Entry<'_>,
    out: &mut Vec<u8>,
) -> operate::FetchResult {
    let Some(item) = entry.current() else {
        if !flags.no_use {
            entry.record_use();
        }
        return Err(entry.absence());
    };
    let size = item.value().len();
    let (marks, expiry) = (item.marks(), item.expiry());
    let won = !marks.token_sent && (marks.stale || needs_recache(caller, flags, expiry));
    let recache = match won {
        true => Recache::Won,
        false => Recache::NotWon,
    };
    render(caller, flags, item, ItemView::of(item, recache), out);
    if !flags.no_use {
        entry.record_use();
    }
    if won || flags.expiry.is_some() {
        operate::rewrite(entry, |new| {
            new.marks.token_sent |= won;
            new.expiry = caller.optional_expiry(flags.expiry).unwrap_or(new.expiry);
        });
    }
    Ok(size)
}

/// Returns whether the item shall be refreshed. `R` looks at the expiry that the item has when the flag's turn comes.
fn needs_recache(caller: Caller<'_>, flags: &MetaFlags<'_>, expiry: Expiry) -> bool {
    let mut tracker = ExpiryTracker::of_existing(expiry);
    caller.optional_expiry(flags.recache).is_some_and(|limit| {
        let before = flags.in_request_order().take_while(|flag| flag[0] != b'R');
        before.for_each(|flag| tracker.apply_flag(caller, flags, flag[0]));
        tracker.now != Expiry::Never && expiry_rank(tracker.now) < expiry_rank(limit)
    })
}

/// Returns a number that grows with the expiry.
fn expiry_rank(expiry: Expiry) -> u64 {
    match expiry {
        Expiry::At(second) => second.0.into(),
        Expiry::Never => u64::MAX,
    }
}

/// Creates an empty item, which this reader is to fill. Returns 0, the length of its value.
fn vivify(
    caller: Caller<'_>,
    flags: &MetaFlags<'_>,
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
        expiry: expiry_of_created(caller, flags),
        marks,
        cas: flags.new_cas(),
        value: &[],
    };
    if !flags.no_use {
        entry.record_use();
    }
    let cas = entry.store(&new);
    render_created(caller, flags, cas, out);
    0
}

/// Shows an item that was created for its reader.
fn render_created(caller: Caller<'_>, flags: &MetaFlags<'_>, cas: u64, out: &mut Vec<u8>) {
    let value = shows_value(caller, flags, || cas);
    out.extend_from_slice(if value { b"VA 0" } else { b"HD" });
    let mut expiry = ExpiryTracker::of_created();
    for flag in flags.in_request_order() {
        expiry.apply_flag(caller, flags, flag[0]);
        match flag[0] {
            b's' | b'f' | b'h' | b'l' => write_flag(out, flag[0], 0),
            b't' => write_flag(out, b't', numbers::ttl(caller.tenancy.now(), expiry.now)),
            b'c' => write_flag(out, b'c', caller.stored_cas(cas)),
            _ => echo(out, flag, flags.key.bytes(), flags.key_form()),
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
    flags: &MetaFlags<'_>,
    item: &Item<'_>,
    mut shown: ItemView,
    out: &mut Vec<u8>,
) {
    let (key, value) = (item.key(), item.value());
    let now = caller.tenancy.now();
    let has_value = shows_value(caller, flags, || item.cas());
    if has_value {
        out.extend_from_slice(b"VA ");
        numbers::write(out, value.len());
    } else {
        out.extend_from_slice(b"HD");
    }
    for flag in flags.in_request_order() {
        shown.expiry.apply_flag(caller, flags, flag[0]);
        match flag[0] {
            b's' => write_flag(out, b's', value.len()),
            b't' => write_flag(out, b't', numbers::ttl(now, shown.expiry.now)),
            b'c' => write_flag(out, b'c', caller.item_cas(item)),
            b'f' => write_flag(out, b'f', item.flags()),
            b'l' => write_flag(out, b'l', now.0.saturating_sub(item.last_access().0)),
            b'h' => write_flag(out, b'h', u8::from(item.fetched())),
            _ => echo(out, flag, key, KeyForm::of_item(shown.marks)),
        }
    }
    write_win_flags(out, shown);
    if has_value {
        value.copy_to(out);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_win_flags(out: &mut Vec<u8>, shown: ItemView) {
    if shown.marks.token_sent {
        out.extend_from_slice(b" Z");
    }
    if shown.marks.stale {
        out.extend_from_slice(b" X");
    }
    if shown.recache == Recache::Won {
        out.extend_from_slice(b" W");
    }
    out.extend_from_slice(b"\r\n");
}
