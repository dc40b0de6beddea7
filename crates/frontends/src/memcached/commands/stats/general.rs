//! `stats`: what the server did.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memcached::instance::VERSION;
use crate::memcached::settings::TlsSettings;
use crate::memcached::turn::Turn;
use crate::memcached::wire::rows::{Rows, put, write_all};

/// What memcached counts of parts that are not built here: its slabs, lists, crawler and buffers. Always zero, and there because
/// programs look for it.
const NOT_HERE: [&str; 25] = [
    "connection_structures",
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes_free",
    "read_buf_oom",
    "reserved_fds",
    "hash_power_level",
    "hash_bytes",
    "hash_is_expanding",
    "slab_reassign_running",
    "slabs_moved",
    "slab_global_page_pool",
    "lru_crawler_running",
    "lru_maintainer_juggles",
    "malloc_fails",
    "log_worker_dropped",
    "evicted_active",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
];

pub(super) fn write(turn: Turn<'_>, rows: &mut dyn Rows) {
    process(turn, rows);
    connections(turn, rows);
    requests(turn, rows);
    memory(turn, rows);
    watchers(turn, rows);
    write_all(rows, "", &NOT_HERE.map(|name| (name, 0)));
    put(rows, "slab_reassign_last_busy_status", "none");
    if turn.instance.settings.tls.is_some() {
        tls(turn, rows);
    }
}

fn process(turn: Turn<'_>, rows: &mut dyn Rows) {
    let clock = turn.tenancy.clock();
    let cpu = turn.instance.host.cpu_time();
    put(rows, "pid", std::process::id());
    put(rows, "uptime", clock.uptime_secs());
    put(rows, "time", clock.unix(clock.now()));
    put(rows, "version", VERSION);
    put(rows, "pointer_size", usize::BITS);
    put(rows, "rusage_user", seconds(cpu.user_micros));
    put(rows, "rusage_system", seconds(cpu.system_micros));
    put(rows, "threads", turn.instance.settings.threads);
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn load(figure: &AtomicU64) -> u64 {
    figure.load(Ordering::Relaxed)
}

fn connections(turn: Turn<'_>, rows: &mut dyn Rows) {
    let figures = &turn.instance.figures;
    let zero = turn.instance.zero(turn.tenancy.tenant());
    let current = load(&figures.curr_connections);
    let max = turn.instance.settings.connections_max as u64;
    let since = |figure: &AtomicU64, zero: u64| load(figure).saturating_sub(zero);
    write_all(
        rows,
        "",
        &[
            ("max_connections", max),
            ("curr_connections", current),
            (
                "total_connections",
                since(&figures.total_connections, zero.total_connections),
            ),
            (
                "rejected_connections",
                since(&figures.rejected_connections, zero.rejected_connections),
            ),
            ("accepting_conns", u64::from(current < max)),
            (
                "listen_disabled_num",
                since(&figures.listen_disabled, zero.listen_disabled),
            ),
            (
                "time_in_listen_disabled_us",
                load(&figures.listen_disabled_micros),
            ),
            ("idle_kicks", since(&figures.idle_kicks, zero.idle_kicks)),
        ],
    );
}

fn requests(turn: Turn<'_>, rows: &mut dyn Rows) {
    let counters = turn.tenancy.ledger().since_reset(turn.tenancy.tenant());
    write_all(rows, "", &counters.named());
}

fn memory(turn: Turn<'_>, rows: &mut dyn Rows) {
    let figures = turn.figures();
    let zero = turn.instance.zero(turn.tenancy.tenant());
    write_all(
        rows,
        "",
        &[
            ("limit_maxbytes", turn.memory_limit().0),
            ("bytes", figures.used.0),
            ("curr_items", figures.items),
            (
                "evictions",
                figures.evictions.saturating_sub(zero.evictions),
            ),
            (
                "evicted_unfetched",
                figures
                    .evicted_unfetched
                    .saturating_sub(zero.evicted_unfetched),
            ),
            (
                "reclaimed",
                figures.reclaimed.saturating_sub(zero.reclaimed),
            ),
            (
                "expired_unfetched",
                figures
                    .expired_unfetched
                    .saturating_sub(zero.expired_unfetched),
            ),
            ("read_buf_bytes", turn.instance.memory.taken() as u64),
        ],
    );
}

fn watchers(turn: Turn<'_>, rows: &mut dyn Rows) {
    let watchers = &turn.instance.watchers;
    write_all(
        rows,
        "",
        &[
            ("log_watchers", watchers.count() as u64),
            ("log_watcher_sent", watchers.sent()),
            ("log_watcher_skipped", watchers.skipped()),
            ("log_worker_written", watchers.sent()),
        ],
    );
}

fn tls(turn: Turn<'_>, rows: &mut dyn Rows) {
    let clock = turn.tenancy.clock();
    let figures = &turn.instance.figures;
    let read = load(&figures.ssl_certs_read_unix);
    let resumes = |tls: &TlsSettings| tls.resumes;
    if turn.instance.settings.tls.as_ref().is_some_and(resumes) {
        let made = load(&figures.ssl_new_sessions);
        write_all(rows, "", &[("ssl_new_sessions", made)]);
    }
    write_all(
        rows,
        "",
        &[
            ("ssl_handshake_errors", load(&figures.ssl_handshake_errors)),
            ("ssl_proto_errors", load(&figures.ssl_proto_errors)),
            (
                "time_since_server_cert_refresh",
                clock.unix(clock.now()).saturating_sub(read),
            ),
        ],
    );
}
