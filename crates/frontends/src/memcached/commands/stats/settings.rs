//! `stats settings`: the settings of the instance.

use std::path::Path;

use crate::memcached::caller::Caller;
use crate::memcached::settings::{
    ClientCertificateDemand, Crawler, Protocol, Settings, TlsSettings, TlsVersion,
};
use crate::memcached::watch::WATCH_BYTES_MAX;
use crate::memcached::wire::stat_writer::{StatWriter, YesNo, write_one};

pub(super) fn write(caller: Caller<'_>, writer: &mut dyn StatWriter) {
    let settings = &caller.instance.settings;
    write_one(writer, "maxbytes", caller.memory_limit().0);
    listening(settings, writer);
    write_one(writer, "verbosity", caller.instance.verbosity());
    write_one(writer, "oldest", 0);
    behaviour(settings, writer);
    write_one(
        writer,
        "detail_enabled",
        YesNo(caller.instance.prefixes.collects()),
    );
    write_one(
        writer,
        "lru_crawler",
        YesNo(caller.instance.crawler() == Crawler::On),
    );
    write_one(writer, "watcher_logbuf_size", WATCH_BYTES_MAX);
    without_meaning(writer);
    match &settings.tls {
        Some(tls) => speaking_tls(settings, tls, writer),
        None => write_one(writer, "ssl_enabled", "no"),
    }
}

fn listening(settings: &Settings, writer: &mut dyn StatWriter) {
    write_one(writer, "maxconns", settings.connections_max);
    write_one(writer, "tcpport", settings.port);
    write_one(writer, "udpport", 0);
    write_one(writer, "inter", settings.inter.as_deref().unwrap_or("NULL"));
    write_one(
        writer,
        "domain_socket",
        path(settings.unix_socket.as_deref()),
    );
    write_one(writer, "umask", format_args!("{:o}", settings.unix_mode));
    write_one(writer, "tcp_backlog", settings.backlog);
    write_one(
        writer,
        "idle_timeout",
        settings.idle_timeout.map_or(0, |time| time.as_secs()),
    );
    write_one(writer, "maxconns_fast", "yes");
}

fn behaviour(settings: &Settings, writer: &mut dyn StatWriter) {
    write_one(
        writer,
        "evictions",
        if settings.evictions { "on" } else { "off" },
    );
    write_one(writer, "shutdown_command", YesNo(settings.shutdown));
    write_one(writer, "num_threads", settings.threads);
    write_one(
        writer,
        "stat_key_prefix",
        char::from(settings.prefix_delimiter),
    );
    write_one(writer, "reqs_per_event", settings.requests_per_turn);
    write_one(writer, "cas_enabled", YesNo(settings.cas));
    write_one(writer, "binding_protocol", protocol(settings.protocol));
    write_one(writer, "auth_enabled_sasl", YesNo(settings.sasl));
    let auth_file = settings.auth_file.as_deref();
    write_one(
        writer,
        "auth_enabled_ascii",
        auth_file.map_or("no".into(), Path::to_string_lossy),
    );
    write_one(writer, "item_size_max", settings.item_max);
    write_one(writer, "flush_enabled", YesNo(settings.flush));
    write_one(writer, "dump_enabled", YesNo(settings.dump));
    write_one(writer, "track_sizes", YesNo(settings.track_sizes));
    write_one(writer, "client_flags_size", size_of::<u32>());
}

/// Writes settings of parts of memcached that do not exist here. Programs look for them and read numbers.
fn without_meaning(writer: &mut dyn StatWriter) {
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
        write_one(writer, name, value);
    }
}

fn speaking_tls(settings: &Settings, tls: &TlsSettings, writer: &mut dyn StatWriter) {
    write_one(writer, "ssl_enabled", "yes");
    write_one(writer, "ssl_chain_cert", tls.chain.display());
    write_one(writer, "ssl_key", path(tls.key.as_deref()));
    let verify = match tls.client_certificate {
        ClientCertificateDemand::Unasked => 0,
        ClientCertificateDemand::Asked => 1,
        ClientCertificateDemand::Required => 2,
    };
    write_one(writer, "ssl_verify_mode", verify);
    write_one(writer, "ssl_keyformat", 1);
    write_one(writer, "ssl_ciphers", "NULL");
    write_one(writer, "ssl_ca_cert", path(tls.client_ca.as_deref()));
    write_one(writer, "ssl_wbuf_size", settings.tls_write_buffer);
    write_one(writer, "ssl_session_cache", YesNo(tls.resumes));
    write_one(writer, "ssl_kernel_tls", "no");
    let oldest = match tls.min_version {
        TlsVersion::V12 => "tlsv1.2",
        TlsVersion::V13 => "tlsv1.3",
    };
    write_one(writer, "ssl_min_version", oldest);
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
