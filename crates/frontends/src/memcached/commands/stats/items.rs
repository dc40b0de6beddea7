//! `stats items`: the items of the only class.

use crate::memcached::caller::Caller;
use crate::memcached::wire::stat_writer::{CLASS, StatWriter, write_all};

pub(super) fn write(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let figures = caller.figures();
    if figures.items == 0 {
        return;
    }
    let tenant = caller.tenancy.tenant();
    let baseline = caller.instance.baseline(tenant);
    let counters = caller.tenancy.ledger().since_reset(tenant);
    let since = u64::saturating_sub;
    let now = caller.tenancy.now();
    let oldest = caller.oldest_item();
    let age = oldest.map_or(0, |oldest| now.0.saturating_sub(oldest.0));
    write_all(
        writer,
        &format!("items:{CLASS}:"),
        &[
            ("number", figures.items),
            ("number_hot", 0),
            ("number_warm", 0),
            ("number_cold", figures.items),
            ("number_temp", 0),
            ("age_hot", 0),
            ("age_warm", 0),
            ("age", age.into()),
            ("mem_requested", figures.used.0),
            ("evicted", since(figures.evictions, baseline.evictions)),
            (
                "evicted_unfetched",
                since(figures.evicted_unfetched, baseline.evicted_unfetched),
            ),
            ("outofmemory", counters.store_no_memory.get()),
            ("tailrepairs", 0),
            ("reclaimed", since(figures.reclaimed, baseline.reclaimed)),
            (
                "expired_unfetched",
                since(figures.expired_unfetched, baseline.expired_unfetched),
            ),
            ("crawler_reclaimed", counters.crawler_reclaimed.get()),
            ("crawler_items_checked", 0),
            ("lrutail_reflocked", 0),
            ("moves_to_cold", 0),
            ("moves_to_warm", 0),
            ("moves_within_lru", 0),
            ("direct_reclaims", 0),
            ("hits_to_hot", 0),
            ("hits_to_warm", 0),
            ("hits_to_cold", counters.get_hits.get()),
            ("hits_to_temp", 0),
        ],
    );
}
