//! Scans of all items: `lru_crawler metadump`, `mgdump` and `crawl`, `stats cachedump` and `sizes`.

use sublet_store::Item;
use sublet_types::Expiry;

use super::super::caller::Caller;
use super::super::map::{self, KeyForm};
use super::super::numbers;
use super::sizes::SizeHistogram;

/// The purpose of a scan of all items.
pub(in crate::memcached) enum ListingKind {
    /// Write a line of figures for each item.
    Metadump,
    /// Write the mg request for each item.
    Mgdump,
    /// List nothing, and remove expired items.
    Crawl,
    /// Write a line for each of some items.
    Cachedump(CachedumpBudget),
    /// Count items by size, and reply with the counts at the end.
    Sizes(SizeHistogram, ReplySizes),
}

/// Replies with the counts.
pub(in crate::memcached) type ReplySizes = Box<dyn FnOnce(&SizeHistogram, &mut Vec<u8>) + Send>;

/// A scan under way. It proceeds part by part, and other connections have their turn in between.
pub(in crate::memcached) struct Listing {
    kind: ListingKind,
    cursor: u64,
}

impl Listing {
    /// Makes a scan that has not begun.
    pub(in crate::memcached) fn new(kind: ListingKind) -> Listing {
        Listing { kind, cursor: 0 }
    }

    /// Appends one part. Returns the scan if there is more to do.
    pub(in crate::memcached) fn run(
        mut self: Box<Self>,
        caller: Caller<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Box<Listing>> {
        match self.scan_part(caller, out) {
            Some(cursor) => {
                self.cursor = cursor;
                Some(self)
            }
            None => {
                self.kind.write_end(out);
                None
            }
        }
    }

    fn scan_part(&mut self, caller: Caller<'_>, out: &mut Vec<u8>) -> Option<u64> {
        let at = self.cursor;
        let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
        match &mut self.kind {
            ListingKind::Metadump => worker.scan(tenant, at, now, |item| {
                write_metadump_line(caller, item, out)
            }),
            ListingKind::Mgdump => worker.scan(tenant, at, now, |item| write_mg_request(item, out)),
            ListingKind::Crawl => crawl(caller, at),
            ListingKind::Cachedump(budget) => {
                let next = worker.scan(tenant, at, now, |item| {
                    write_cachedump_line(caller, item, budget, out)
                });
                next.filter(|_| !budget.is_spent())
            }
            ListingKind::Sizes(sizes, _) => worker.scan(tenant, at, now, |item| sizes.count(item)),
        }
    }
}

impl ListingKind {
    fn write_end(self, out: &mut Vec<u8>) {
        match self {
            ListingKind::Metadump | ListingKind::Cachedump(_) => out.extend_from_slice(b"END\r\n"),
            ListingKind::Mgdump => out.extend_from_slice(b"EN\r\n"),
            ListingKind::Crawl => out.extend_from_slice(b"OK\r\n"),
            ListingKind::Sizes(sizes, reply) => reply(&sizes, out),
        }
    }
}

/// How much cachedump may still list.
pub(in crate::memcached) struct CachedumpBudget {
    items: u32,
    bytes: usize,
}

impl CachedumpBudget {
    /// Returns the budget for up to `limit` items (0: all).
    pub(in crate::memcached) fn of(limit: u32) -> CachedumpBudget {
        CachedumpBudget {
            items: if limit == 0 { u32::MAX } else { limit },
            bytes: CACHEDUMP_MAX,
        }
    }

    fn is_spent(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }
}

fn crawl(caller: Caller<'_>, cursor: u64) -> Option<u64> {
    let mut reclaimed = 0;
    let (worker, tenant, now) = caller.tenancy.worker_tenant_now();
    let next = worker.reclaim(tenant, cursor, now, &mut reclaimed);
    caller.counters().crawler_reclaimed.add(reclaimed);
    next
}

fn write_metadump_line(caller: Caller<'_>, item: &Item<'_>, out: &mut Vec<u8>) {
    let clock = caller.tenancy.clock();
    let exp = match item.expiry() {
        Expiry::Never => -1,
        Expiry::At(second) => clock.unix(second) as i64,
    };
    let la = clock.unix(item.last_access());
    let cas = caller.item_cas(item);
    let fetch = if item.fetched() { "yes" } else { "no" };
    let flags = item.flags();
    let size = numbers::item_size(item.key().len(), flags, item.value().len());
    out.extend_from_slice(b"key=");
    map::write_uri(out, item.key());
    let line =
        format!(" exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size} flags={flags} \n");
    out.extend_from_slice(line.as_bytes());
}

fn write_mg_request(item: &Item<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"mg ");
    match KeyForm::of_item(item.marks()) {
        KeyForm::Base64 => {
            map::write_base64(out, item.key());
            out.extend_from_slice(b" b");
        }
        KeyForm::Plain => out.extend_from_slice(item.key()),
    }
    out.extend_from_slice(b"\r\n");
}

/// The longest listing of cachedump, in bytes.
const CACHEDUMP_MAX: usize = 2 << 20;

/// Appends a line for an item that has a plain key.
fn write_cachedump_line(
    caller: Caller<'_>,
    item: &Item<'_>,
    budget: &mut CachedumpBudget,
    out: &mut Vec<u8>,
) {
    if budget.is_spent() || KeyForm::of_item(item.marks()) == KeyForm::Base64 {
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
    budget.items -= 1;
    budget.bytes = budget.bytes.saturating_sub(out.len() - begin);
}
