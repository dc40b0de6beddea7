//! `stats slabs`: the memory of the only class. Its pages are blocks, and an item is a chunk, of any size up to the
//! limit.

use sublet_types::BLOCK_BYTES;

use crate::memcached::caller::Caller;
use crate::memcached::wire::stat_writer::{CLASS, StatWriter, write_all};

pub(super) fn write(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let figures = caller.figures();
    let pages = figures.held.0.div_ceil(BLOCK_BYTES);
    let class = figures.items > 0 || pages > 0;
    if class {
        let counters = caller.tenancy.ledger().since_reset(caller.tenancy.tenant());
        write_all(
            writer,
            &format!("{CLASS}:"),
            &[
                ("chunk_size", caller.instance.settings.item_max),
                (
                    "chunks_per_page",
                    figures.items.checked_div(pages).unwrap_or(0),
                ),
                ("total_pages", pages),
                ("total_chunks", figures.items),
                ("used_chunks", figures.items),
                ("free_chunks", 0),
                ("free_chunks_end", 0),
                ("get_hits", counters.get_hits.get()),
                ("cmd_set", counters.cmd_set.get()),
                ("delete_hits", counters.delete_hits.get()),
                ("incr_hits", counters.incr_hits.get()),
                ("decr_hits", counters.decr_hits.get()),
                ("cas_hits", counters.cas_hits.get()),
                ("cas_badval", counters.cas_badval.get()),
                ("touch_hits", counters.touch_hits.get()),
            ],
        );
    }
    write_all(
        writer,
        "",
        &[
            ("active_slabs", class.into()),
            ("total_malloced", figures.held.0),
        ],
    );
}
