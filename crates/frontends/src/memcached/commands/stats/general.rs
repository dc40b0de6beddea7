//! `stats`: what the instance did.

use crate::figures::AtomicFigure;

use crate::memcached::caller::Caller;
use crate::memcached::instance::VERSION;
use crate::memcached::settings::TlsSettings;
use crate::memcached::wire::stat_writer::{StatWriter, write_all, write_one};

/// Figures of parts of memcached that do not exist here: its slabs, lists, crawler and buffers. They are always zero,
/// and exist because programs look for them.
const ALWAYS_ZERO: [&str; 25] = [
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

pub(super) fn write(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    process(caller, writer);
    connections(caller, writer);
    requests(caller, writer);
    memory(caller, writer);
    watchers(caller, writer);
    write_all(writer, "", &ALWAYS_ZERO.map(|name| (name, 0)));
    write_one(writer, "slab_reassign_last_busy_status", "none");
    if caller.instance.settings.tls.is_some() {
        tls(caller, writer);
    }
}

fn process(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let clock = caller.tenancy.clock();
    let cpu = caller.instance.process.cpu_time();
    write_one(writer, "pid", std::process::id());
    write_one(writer, "uptime", clock.uptime_secs());
    write_one(writer, "time", clock.unix(clock.now()));
    write_one(writer, "version", VERSION);
    write_one(writer, "pointer_size", usize::BITS);
    write_one(writer, "rusage_user", seconds(cpu.user_micros));
    write_one(writer, "rusage_system", seconds(cpu.system_micros));
    write_one(writer, "threads", caller.instance.settings.threads);
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn connections(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let figures = &caller.instance.figures;
    let zero = caller.instance.baseline(caller.tenancy.tenant());
    let current = figures.curr_connections.get();
    let max = caller.instance.settings.connections_max as u64;
    let since = |figure: &AtomicFigure, zero: u64| figure.get().saturating_sub(zero);
    write_all(
        writer,
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

fn requests(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let counters = caller.tenancy.ledger().since_reset(caller.tenancy.tenant());
    write_all(writer, "", &counters.named());
}

fn memory(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let figures = caller.figures();
    let zero = caller.instance.baseline(caller.tenancy.tenant());
    write_all(
        writer,
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
            ("read_buf_bytes", caller.instance.memory.reserved() as u64),
        ],
    );
}

fn watchers(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let watchers = &caller.instance.watchers;
    write_all(
        writer,
        "",
        &[
            ("log_watchers", watchers.count() as u64),
            ("log_watcher_sent", watchers.sent()),
            ("log_watcher_skipped", watchers.skipped()),
            ("log_worker_written", watchers.sent()),
        ],
    );
}

fn tls(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let clock = caller.tenancy.clock();
    let figures = &caller.instance.figures;
    let read = figures.ssl_certs_read_unix.get();
    let resumes = |tls: &TlsSettings| tls.resumes;
    if caller.instance.settings.tls.as_ref().is_some_and(resumes) {
        let new_sessions = figures.ssl_new_sessions.get();
        write_all(writer, "", &[("ssl_new_sessions", new_sessions)]);
    }
    write_all(
        writer,
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
