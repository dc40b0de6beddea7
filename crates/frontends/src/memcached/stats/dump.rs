//! Walks through all items: `lru_crawler metadump`, `mgdump` and `crawl`, `stats cachedump`.

use sublet_store::Item;
use sublet_types::Expiry;

use super::super::turn::Turn;
use super::super::{map, numbers};

/// What a walk through all items is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum Form {
    /// A line of figures for each item.
    Metadump,
    /// The mg request for each item.
    Mgdump,
    /// Nothing is listed: what has expired is removed.
    Crawl,
}

/// A listing on its way: it goes on part by part, and others have their turn in between.
#[derive(Clone, Copy, Debug)]
pub(in crate::memcached) struct Dump {
    form: Form,
    cursor: u64,
}

impl Dump {
    /// A listing that has not begun.
    pub(in crate::memcached) fn new(form: Form) -> Dump {
        Dump { form, cursor: 0 }
    }

    /// Appends one part; returns what is still to be listed.
    pub(in crate::memcached) fn run(self, turn: Turn<'_>, out: &mut Vec<u8>) -> Option<Dump> {
        let at = self.cursor;
        let next = match self.form {
            Form::Metadump => turn.tenancy.scan(at, |item| figures(turn, item, out)),
            Form::Mgdump => turn.tenancy.scan(at, |item| request(item, out)),
            Form::Crawl => crawl(turn, at),
        };
        if let Some(cursor) = next {
            return Some(Dump { cursor, ..self });
        }
        out.extend_from_slice(match self.form {
            Form::Metadump => b"END\r\n",
            Form::Mgdump => b"EN\r\n",
            Form::Crawl => b"OK\r\n",
        });
        None
    }
}

fn crawl(turn: Turn<'_>, cursor: u64) -> Option<u64> {
    let mut reclaimed = 0;
    let next = turn.tenancy.reclaim(cursor, &mut reclaimed);
    turn.counters().crawler_reclaimed.add(reclaimed);
    next
}

fn figures(turn: Turn<'_>, item: &Item<'_>, out: &mut Vec<u8>) {
    let clock = turn.tenancy.clock();
    let exp = match item.expiry() {
        Expiry::Never => -1,
        Expiry::At(second) => clock.unix(second) as i64,
    };
    let la = clock.unix(item.last_access());
    let cas = turn.cas_of(item);
    let fetch = if item.fetched() { "yes" } else { "no" };
    let flags = item.flags();
    let size = numbers::item_size(item.key().len(), flags, item.value().len());
    out.extend_from_slice(b"key=");
    map::write_uri(out, item.key());
    let line =
        format!(" exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size} flags={flags}\n");
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

/// Appends a line for each of up to `limit` items (0: for all) that have a plain key.
pub(in crate::memcached) fn cachedump(turn: Turn<'_>, limit: u32, out: &mut Vec<u8>) {
    let clock = turn.tenancy.clock();
    let end = out.len() + CACHEDUMP_MAX;
    let mut left = if limit == 0 { u32::MAX } else { limit };
    let mut cursor = Some(0);
    while let Some(at) = cursor.filter(|_| left > 0 && out.len() < end) {
        cursor = turn.tenancy.scan(at, |item| {
            if left == 0 || out.len() >= end || item.marks().binary_key {
                return;
            }
            left -= 1;
            let exp = match item.expiry() {
                Expiry::Never => 0,
                Expiry::At(second) => clock.unix(second),
            };
            out.extend_from_slice(b"ITEM ");
            out.extend_from_slice(item.key());
            let rest = format!(" [{} b; {exp} s]\r\n", item.value().len());
            out.extend_from_slice(rest.as_bytes());
        });
    }
}
