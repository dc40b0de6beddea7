//! `stats settings`: how the server behaves.

use std::path::Path;

use crate::memcached::caller::Caller;
use crate::memcached::settings::{
    ClientCertificate, Crawler, Protocol, Settings, TlsSettings, TlsVersion,
};
use crate::memcached::watch::WATCH_BYTES_MAX;
use crate::memcached::wire::rows::{Rows, put, yes_no};

pub(super) fn write(caller: Caller<'_>, rows: &mut dyn Rows) {
    let settings = &caller.instance.settings;
    put(rows, "maxbytes", caller.memory_limit().0);
    listening(settings, rows);
    put(rows, "verbosity", caller.instance.verbosity());
    put(rows, "oldest", 0);
    behaviour(settings, rows);
    put(
        rows,
        "detail_enabled",
        yes_no(caller.instance.prefixes.collects()),
    );
    put(
        rows,
        "lru_crawler",
        yes_no(caller.instance.crawler() == Crawler::On),
    );
    put(rows, "watcher_logbuf_size", WATCH_BYTES_MAX);
    without_meaning(rows);
    match &settings.tls {
        Some(tls) => speaking_tls(settings, tls, rows),
        None => put(rows, "ssl_enabled", "no"),
    }
}

fn listening(settings: &Settings, rows: &mut dyn Rows) {
    put(rows, "maxconns", settings.connections_max);
    put(rows, "tcpport", settings.port);
    put(rows, "udpport", 0);
    put(rows, "inter", settings.inter.as_deref().unwrap_or("NULL"));
    put(rows, "domain_socket", path(settings.unix_socket.as_deref()));
    put(rows, "umask", format_args!("{:o}", settings.unix_mode));
    put(rows, "tcp_backlog", settings.backlog);
    put(
        rows,
        "idle_timeout",
        settings.idle_timeout.map_or(0, |time| time.as_secs()),
    );
    put(rows, "maxconns_fast", "yes");
}

fn behaviour(settings: &Settings, rows: &mut dyn Rows) {
    put(
        rows,
        "evictions",
        if settings.evictions { "on" } else { "off" },
    );
    put(rows, "shutdown_command", yes_no(settings.shutdown));
    put(rows, "num_threads", settings.threads);
    put(
        rows,
        "stat_key_prefix",
        char::from(settings.prefix_delimiter),
    );
    put(rows, "reqs_per_event", settings.requests_per_turn);
    put(rows, "cas_enabled", yes_no(settings.cas));
    put(rows, "binding_protocol", protocol(settings.protocol));
    put(rows, "auth_enabled_sasl", yes_no(settings.sasl));
    let auth_file = settings.auth_file.as_deref();
    put(
        rows,
        "auth_enabled_ascii",
        auth_file.map_or("no".into(), Path::to_string_lossy),
    );
    put(rows, "item_size_max", settings.item_max);
    put(rows, "flush_enabled", yes_no(settings.flush));
    put(rows, "dump_enabled", yes_no(settings.dump));
    put(rows, "track_sizes", yes_no(settings.track_sizes));
    put(rows, "client_flags_size", size_of::<u32>());
}

/// What tunes parts of memcached that are not built here; programs look for it, and read numbers.
fn without_meaning(rows: &mut dyn Rows) {
    let settings = [
        ("growth_factor", "1.25"),
        ("chunk_size", "48"),
        ("hashpower_init", "0"),
        ("slab_reassign", "no"),
        ("slab_automove", "0"),
        ("slab_automove_ratio", "0.80"),
        ("slab_automove_window", "10"),
        ("slab_chunk_max", "524288"),
        ("lru_crawler_sleep", "100"),
        ("lru_crawler_tocrawl", "0"),
        ("tail_repair_time", "0"),
        ("hash_algorithm", "xxh3"),
        ("lru_maintainer_thread", "no"),
        ("lru_segmented", "no"),
        ("hot_lru_pct", "20"),
        ("warm_lru_pct", "40"),
        ("hot_max_factor", "0.20"),
        ("warm_max_factor", "2.00"),
        ("temp_lru", "no"),
        ("temporary_ttl", "61"),
        ("inline_ascii_response", "no"),
    ];
    for (name, value) in settings {
        put(rows, name, value);
    }
}

fn speaking_tls(settings: &Settings, tls: &TlsSettings, rows: &mut dyn Rows) {
    put(rows, "ssl_enabled", "yes");
    put(rows, "ssl_chain_cert", tls.chain.display());
    put(rows, "ssl_key", path(tls.key.as_deref()));
    let verify = match tls.client_certificate {
        ClientCertificate::Unasked => 0,
        ClientCertificate::Asked => 1,
        ClientCertificate::Required => 2,
    };
    put(rows, "ssl_verify_mode", verify);
    put(rows, "ssl_keyformat", 1);
    put(rows, "ssl_ciphers", "NULL");
    put(rows, "ssl_ca_cert", path(tls.client_ca.as_deref()));
    put(rows, "ssl_wbuf_size", settings.tls_write_buffer);
    put(rows, "ssl_session_cache", yes_no(tls.resumes));
    put(rows, "ssl_kernel_tls", "no");
    let oldest = match tls.min_version {
        TlsVersion::V12 => "tlsv1.2",
        TlsVersion::V13 => "tlsv1.3",
    };
    put(rows, "ssl_min_version", oldest);
}

fn path(path: Option<&Path>) -> String {
    path.map_or("NULL".into(), |path| path.display().to_string())
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Auto => "auto-negotiate",
        Protocol::Ascii => "ascii",
        Protocol::Binary => "binary",
    }
}
