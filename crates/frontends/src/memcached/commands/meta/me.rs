//! me: an item's head, for people.

use sublet_store::{Item, Lookup, Reading};

use super::super::reply::{BAD_FORMAT, say};
use crate::memcached::caller::Caller;
use crate::memcached::map::{self, Key};
use crate::memcached::numbers;
use crate::memcached::outcome::Ran;
use crate::memcached::wire::words::Words;

/// Answers me.
pub(in crate::memcached) fn run(
    caller: Caller<'_>,
    mut words: Words<'_>,
    out: &mut Vec<u8>,
) -> Ran {
    let key = words.next().and_then(Key::new);
    let key = match words.next() {
        Some(b"b") => key.and_then(|key| key.decoded()),
        _ => key,
    };
    let Some(key) = key else {
        return say(out, BAD_FORMAT);
    };
    caller.counters().cmd_meta.bump();
    let (worker, tenant, now) = caller.tenancy.acting();
    match worker.read(tenant, key.bytes(), now, Reading::Peek, |item| {
        describe(caller, item, out)
    }) {
        Lookup::Hit(()) => Ran::Done { after: 0 },
        Lookup::Miss(_) => say(out, b"EN\r\n"),
    }
}

fn describe(caller: Caller<'_>, item: &Item<'_>, out: &mut Vec<u8>) {
    let now = caller.tenancy.now();
    out.extend_from_slice(b"ME ");
    match item.marks().binary_key {
        true => map::write_base64(out, item.key()),
        false => out.extend_from_slice(item.key()),
    }
    let exp = numbers::ttl(now, item.expiry());
    let la = now.0.saturating_sub(item.last_access().0);
    let cas = caller.cas_of(item);
    let fetch = if item.fetched() { "yes" } else { "no" };
    let size = numbers::item_size(item.key().len(), item.flags(), item.value().len());
    let line = format!(" exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size}\r\n");
    out.extend_from_slice(line.as_bytes());
}
