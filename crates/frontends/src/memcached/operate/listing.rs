//! Walks through all items: `lru_crawler metadump`, `mgdump` and `crawl`, `stats cachedump` and `sizes`.

use sublet_store::Item;
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::{map, numbers};
use super::sizes::Sizes;

/// What a walk through all items is for.
pub(in crate::memcached) enum Form {
    /// A line of figures for each item.
    Metadump,
    /// The mg request for each item.
    Mgdump,
    /// Nothing is listed: what has expired is removed.
    Crawl,
    /// A line for each of some items.
    Cachedump(Bounds),
    /// Items are counted by size; told at the end.
    Sizes(Sizes, Tell),
}

/// Replies with what was counted.
pub(in crate::memcached) type Tell = Box<dyn FnOnce(&Sizes, &mut Vec<u8>) + Send>;

/// A walk on its way: it goes on part by part, and others have their turn in between.
pub(in crate::memcached) struct Listing {
    form: Form,
    cursor: u64,
}

impl Listing {
    /// A walk that has not begun.
    pub(in crate::memcached) fn new(form: Form) -> Listing {
        Listing { form, cursor: 0 }
    }

    /// Appends one part; returns what is still to be done.
    pub(in crate::memcached) fn run(
        mut self: Box<Self>,
        caller: Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Box<Listing>> {
        match self.part(caller, out) {
            Some(cursor) => {
                self.cursor = cursor;
                Some(self)
            }
            None => {
                self.form.end(out);
                None
            }
        }
    }

    fn part(&mut self, caller: Caller<'_>, out: &mut Vec<u8>) -> Option<u64> {
        let at = self.cursor;
        let (worker, tenant, now) = caller.tenancy.acting();
        match &mut self.form {
            Form::Metadump => worker.scan(tenant, at, now, |item| figures(caller, item, out)),
            Form::Mgdump => worker.scan(tenant, at, now, |item| request(item, out)),
            Form::Crawl => crawl(caller, at),
            Form::Cachedump(bounds) => {
                let next = worker.scan(tenant, at, now, |item| entry(caller, item, bounds, out));
                next.filter(|_| !bounds.are_reached())
            }
            Form::Sizes(sizes, _) => worker.scan(tenant, at, now, |item| sizes.count(item)),
        }
    }
}

impl Form {
    fn end(self, out: &mut Vec<u8>) {
        match self {
            Form::Metadump | Form::Cachedump(_) => out.extend_from_slice(b"END\r\n"),
            Form::Mgdump => out.extend_from_slice(b"EN\r\n"),
            Form::Crawl => out.extend_from_slice(b"OK\r\n"),
            Form::Sizes(sizes, tell) => tell(&sizes, out),
        }
    }
}

/// How much cachedump still lists.
pub(in crate::memcached) struct Bounds {
    items: u32,
    bytes: usize,
}

impl Bounds {
    /// Up to `limit` items (0: all).
    pub(in crate::memcached) fn of(limit: u32) -> Bounds {
        Bounds {
            items: if limit == 0 { u32::MAX } else { limit },
            bytes: CACHEDUMP_MAX,
        }
    }

    fn are_reached(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }
}

fn crawl(caller: Caller<'_>, cursor: u64) -> Option<u64> {
    let mut reclaimed = 0;
    let (worker, tenant, now) = caller.tenancy.acting();
    let next = worker.reclaim(tenant, cursor, now, &mut reclaimed);
    caller.counters().crawler_reclaimed.add(reclaimed);
    next
}

fn figures(caller: Caller<'_>, item: &Item<'_>, out: &mut Vec<u8>) {
    let clock = caller.tenancy.clock();
    let exp = match item.expiry() {
        Expiry::Never => -1,
        Expiry::At(second) => clock.unix(second) as i64,
    };
    let la = clock.unix(item.last_access());
    let cas = caller.cas_of(item);
    let fetch = if item.fetched() { "yes" } else { "no" };
    let flags = item.flags();
    let size = numbers::item_size(item.key().len(), flags, item.value().len());
    out.extend_from_slice(b"key=");
    map::write_uri(out, item.key());
    let line =
        format!(" exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size} flags={flags} \n");
    out.extend_from_slice(line.as_bytes());
}

fn request(item: &Item<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"mg ");
    if item.marks().binary_key {
        map::write_base64(out, item.key());
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(item.key());
    }
    out.extend_from_slice(b"\r\n");
}

/// The longest listing of cachedump, bytes.
const CACHEDUMP_MAX: usize = 2 << 20;

/// Appends a line for an item that has a plain key.
fn entry(caller: Caller<'_>, item: &Item<'_>, bounds: &mut Bounds, out: &mut Vec<u8>) {
    if bounds.are_reached() || item.marks().binary_key {
        return;
    }
    let begin = out.len();
    let exp = match item.expiry() {
        Expiry::Never => 0,
        Expiry::At(second) => caller.tenancy.clock().unix(second),
    };
    out.extend_from_slice(b"ITEM ");
    out.extend_from_slice(item.key());
    let rest = format!(" [{} b; {exp} s]\r\n", item.value().len());
    out.extend_from_slice(rest.as_bytes());
    bounds.items -= 1;
    bounds.bytes = bounds.bytes.saturating_sub(out.len() - begin);
}
