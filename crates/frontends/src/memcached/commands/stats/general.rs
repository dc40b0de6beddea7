//! `stats`: what the server did.

use crate::figures::Figure;

use crate::memcached::caller::Caller;
use crate::memcached::instance::VERSION;
use crate::memcached::settings::TlsSettings;
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

pub(super) fn write(caller: Caller<'_>, rows: &mut dyn Rows) {
    process(caller, rows);
    connections(caller, rows);
    requests(caller, rows);
    memory(caller, rows);
    watchers(caller, rows);
    write_all(rows, "", &NOT_HERE.map(|name| (name, 0)));
    put(rows, "slab_reassign_last_busy_status", "none");
    if caller.instance.settings.tls.is_some() {
        tls(caller, rows);
    }
}

fn process(caller: Caller<'_>, rows: &mut dyn Rows) {
    let clock = caller.tenancy.clock();
    let cpu = caller.instance.host.cpu_time();
    put(rows, "pid", std::process::id());
    put(rows, "uptime", clock.uptime_secs());
    put(rows, "time", clock.unix(clock.now()));
    put(rows, "version", VERSION);
    put(rows, "pointer_size", usize::BITS);
    put(rows, "rusage_user", seconds(cpu.user_micros));
    put(rows, "rusage_system", seconds(cpu.system_micros));
    put(rows, "threads", caller.instance.settings.threads);
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn connections(caller: Caller<'_>, rows: &mut dyn Rows) {
    let figures = &caller.instance.figures;
    let zero = caller.instance.zero(caller.tenancy.tenant());
    let current = figures.curr_connections.get();
    let max = caller.instance.settings.connections_max as u64;
    let since = |figure: &Figure, zero: u64| figure.get().saturating_sub(zero);
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
                figures.listen_disabled_micros.get(),
            ),
            ("idle_kicks", since(&figures.idle_kicks, zero.idle_kicks)),
        ],
    );
}

fn requests(caller: Caller<'_>, rows: &mut dyn Rows) {
    let counters = caller.tenancy.ledger().since_reset(caller.tenancy.tenant());
    write_all(rows, "", &counters.named());
}

fn memory(caller: Caller<'_>, rows: &mut dyn Rows) {
    let figures = caller.figures();
    let zero = caller.instance.zero(caller.tenancy.tenant());
    write_all(
        rows,
        "",
        &[
            ("limit_maxbytes", caller.memory_limit().0),
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
            ("read_buf_bytes", caller.instance.memory.taken() as u64),
        ],
    );
}

fn watchers(caller: Caller<'_>, rows: &mut dyn Rows) {
    let watchers = &caller.instance.watchers;
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

fn tls(caller: Caller<'_>, rows: &mut dyn Rows) {
    let clock = caller.tenancy.clock();
    let figures = &caller.instance.figures;
    let read = figures.ssl_certs_read_unix.get();
    let resumes = |tls: &TlsSettings| tls.resumes;
    if caller.instance.settings.tls.as_ref().is_some_and(resumes) {
        let made = figures.ssl_new_sessions.get();
        write_all(rows, "", &[("ssl_new_sessions", made)]);
    }
    write_all(
        rows,
        "",
        &[
            ("ssl_handshake_errors", figures.ssl_handshake_errors.get()),
            ("ssl_proto_errors", figures.ssl_proto_errors.get()),
            (
                "time_since_server_cert_refresh",
                clock.unix(clock.now()).saturating_sub(read),
            ),
        ],
    );
}
