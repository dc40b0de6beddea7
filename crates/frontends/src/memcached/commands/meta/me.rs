//! me: shows an item's head to people.

use sublet_store::{Item, Lookup, ReadKind};

use super::super::reply::{BAD_FORMAT, reply_line};
use crate::memcached::caller::Caller;
use crate::memcached::map::{self, Key, KeyForm};
use crate::memcached::numbers;
use crate::memcached::outcome::RequestOutcome;
use crate::memcached::wire::words::Words;

/// Runs me.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> RequestOutcome {
    let key = words.next().and_then(Key::new);
    let key = match words.next() {
        Some(b"b") => key.and_then(|key| key.decoded()),
        _ => key,
    };
    let Some(key) = key else {
        return reply_line(out, BAD_FORMAT);
    };
    caller.counters().cmd_meta.bump();
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    match worker.read(tenant, key.bytes(), now, ReadKind::Peek, |item| {
        describe(caller, item, out)
    }) {
        Lookup::Hit(()) => RequestOutcome::Done { body: 0 },
        Lookup::Miss(_) => reply_line(out, b"EN\r\n"),
    }
}

fn describe(caller: Caller<'_>, item: &Item<'_>, out: &mut Vec<u8>) {
    let now = caller.tenancy.now();
    out.extend_from_slice(b"ME ");
    match KeyForm::of_item(item.marks()) {
        KeyForm::Base64 => map::write_base64(out, item.key()),
        KeyForm::Plain => out.extend_from_slice(item.key()),
    }
    let exp = numbers::ttl(now, item.expiry());
    let la = now.0.saturating_sub(item.last_access().0);
    let cas = caller.item_cas(item);
    let fetch = if item.fetched() { "yes" } else { "no" };
    let size = numbers::item_size(item.key().len(), item.flags(), item.value().len());
    let line = format!(" exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size}\r\n");
    out.extend_from_slice(line.as_bytes());
}
