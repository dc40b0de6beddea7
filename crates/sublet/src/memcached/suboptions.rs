//! The only table of memcached's `-o` options.

use sublet_frontends::memcached::settings::{ClientCertificateDemand, TlsVersion};

use super::parsed_options::{ParsedOptions, UsageError, idle_timeout};
use super::values::{number, path};

/// One option of the list.
pub(super) struct Suboption {
    pub(super) name: &'static str,
    takes: SuboptionEffect,
    pub(super) help: Option<&'static str>,
}

enum SuboptionEffect {
    /// It takes no value and has no effect.
    NoEffect(&'static str),
    /// It takes a number, and has no effect.
    NumberWithoutEffect(&'static str, ValueNeed),
    /// It takes a word, and has no effect.
    WordWithoutEffect(&'static str),
    /// It takes no value, and has an effect.
    Plain(fn(&mut ParsedOptions)),
    /// It takes a value, and has an effect.
    Valued(fn(&mut ParsedOptions, &str) -> Result<(), UsageError>),
    /// It is refused, because it would promise an effect it does not have here.
    Refused,
}

#[derive(PartialEq, Eq)]
enum ValueNeed {
    Required,
    Optional,
}

use SuboptionEffect::{NoEffect, NumberWithoutEffect, Plain, Refused, Valued, WordWithoutEffect};
use ValueNeed::{Optional, Required};

const NO_SLABS: &str = "there are no slabs";
const NO_LRU: &str = "there are no LRU lists";
const INDEX_GROWS: &str = "the index grows and shrinks by itself";
const NO_LOG_BUFFERS: &str = "watchers' buffers have a fixed size";
const ALWAYS: &str = "it is always so";

const fn silent(name: &'static str, takes: SuboptionEffect) -> Suboption {
    Suboption {
        name,
        takes,
        help: None,
    }
}

const fn offered(name: &'static str, help: &'static str, takes: SuboptionEffect) -> Suboption {
    Suboption {
        name,
        takes,
        help: Some(help),
    }
}

/// All options of the list. Those with an effect come first, as `-h` shows them.
pub(super) const SUBOPTIONS: &[Suboption] = &[
    offered(
        "idle_timeout",
        "seconds after which an idle connection is closed, TCP or Unix (default: 0, never)",
        Valued(|w, v| {
            w.settings.idle_timeout = idle_timeout(seconds("idle_timeout", v)?);
            Ok(())
        }),
    ),
    offered(
        "track_sizes",
        "collect \"stats sizes\"",
        Plain(|w| w.settings.track_sizes = true),
    ),
    offered(
        "ssl_chain_cert",
        "certificate chain, PEM",
        Valued(|w, v| {
            w.tls.chain = Some(path("-o ssl_chain_cert", v)?);
            Ok(())
        }),
    ),
    offered(
        "ssl_key",
        "private key, PEM, if it is not in the chain's file",
        Valued(|w, v| {
            w.tls.key = Some(path("-o ssl_key", v)?);
            Ok(())
        }),
    ),
    offered(
        "ssl_ca_cert",
        "who may sign clients' certificates, PEM",
        Valued(|w, v| {
            w.tls.client_ca = Some(path("-o ssl_ca_cert", v)?);
            Ok(())
        }),
    ),
    offered(
        "ssl_verify_mode",
        "clients' certificates: 0 not asked, 1 asked, 2 or 3 required (default: 0)",
        Valued(verify_mode),
    ),
    offered(
        "ssl_min_version",
        "oldest TLS: 2 (1.2) or 3 (1.3) (default: 2)",
        Valued(min_version),
    ),
    offered(
        "ssl_session_cache",
        "let clients resume their TLS sessions",
        Plain(|w| w.tls.resumes = true),
    ),
    offered("ssl_keyformat", "1 (PEM) only", Valued(key_format)),
    silent(
        "ssl_wbuf_size",
        Valued(|w, v| {
            let kib: u64 = number("-o ssl_wbuf_size", v, "a number of KiB")?;
            w.tls.write_buffer = kib.saturating_mul(1 << 10);
            w.note_ignored("-o ssl_wbuf_size", "buffers grow with the replies");
            Ok(())
        }),
    ),
    silent("ssl_kernel_tls", NoEffect("TLS is done in the process")),
    silent("ssl_ciphers", Refused),
    silent("drop_privileges", Refused),
    silent("no_drop_privileges", NoEffect(ALWAYS)),
    silent("relaxed_privileges", NoEffect("no privileges are dropped")),
    silent("maxconns_fast", NoEffect(ALWAYS)),
    silent(
        "no_maxconns_fast",
        NoEffect("connections above the limit are always refused at once"),
    ),
    silent("modern", NoEffect(ALWAYS)),
    silent("no_modern", Plain(|w| w.settings.crawler = false)),
    silent("hashpower", NumberWithoutEffect(INDEX_GROWS, Required)),
    silent("no_hashexpand", NoEffect(INDEX_GROWS)),
    silent(
        "hash_algorithm",
        WordWithoutEffect("there is one hash, XXH3, seeded anew at each start"),
    ),
    silent("slab_reassign", NoEffect(NO_SLABS)),
    silent("no_slab_reassign", NoEffect(NO_SLABS)),
    silent("slab_automove", NumberWithoutEffect(NO_SLABS, Optional)),
    silent("no_slab_automove", NoEffect(NO_SLABS)),
    silent(
        "slab_automove_ratio",
        NumberWithoutEffect(NO_SLABS, Required),
    ),
    silent(
        "slab_automove_window",
        NumberWithoutEffect(NO_SLABS, Required),
    ),
    silent("slab_chunk_max", NumberWithoutEffect(NO_SLABS, Required)),
    silent("slab_sizes", WordWithoutEffect(NO_SLABS)),
    silent("no_chunked_items", NoEffect(NO_SLABS)),
    silent("tail_repair_time", NumberWithoutEffect(NO_LRU, Required)),
    silent("lru_crawler", Plain(|w| w.settings.crawler = true)),
    silent("no_lru_crawler", Plain(|w| w.settings.crawler = false)),
    silent("lru_crawler_sleep", NumberWithoutEffect(NO_LRU, Required)),
    silent("lru_crawler_tocrawl", NumberWithoutEffect(NO_LRU, Required)),
    silent("lru_maintainer", NoEffect(NO_LRU)),
    silent("no_lru_maintainer", NoEffect(NO_LRU)),
    silent("hot_lru_pct", NumberWithoutEffect(NO_LRU, Required)),
    silent("warm_lru_pct", NumberWithoutEffect(NO_LRU, Required)),
    silent("hot_max_factor", NumberWithoutEffect(NO_LRU, Required)),
    silent("warm_max_factor", NumberWithoutEffect(NO_LRU, Required)),
    silent("temporary_ttl", NumberWithoutEffect(NO_LRU, Required)),
    silent(
        "watcher_logbuf_size",
        NumberWithoutEffect(NO_LOG_BUFFERS, Required),
    ),
    silent(
        "worker_logbuf_size",
        NumberWithoutEffect(NO_LOG_BUFFERS, Required),
    ),
    silent(
        "read_buf_mem_limit",
        NumberWithoutEffect("idle connections hold no buffers", Required),
    ),
    silent(
        "resp_obj_mem_limit",
        NumberWithoutEffect("idle connections hold no buffers", Optional),
    ),
    silent("inline_ascii_resp", NoEffect(ALWAYS)),
    silent("no_inline_ascii_resp", NoEffect(ALWAYS)),
    silent(
        "sock_cookie_id",
        NumberWithoutEffect("sockets are not marked", Required),
    ),
];

/// Applies a list of options: `name,name=value,…`.
pub(super) fn set(written: &mut ParsedOptions, list: &str) -> Result<(), UsageError> {
    for one in list.split(',').filter(|one| !one.is_empty()) {
        set_one(written, one)?;
    }
    Ok(())
}

fn set_one(written: &mut ParsedOptions, one: &str) -> Result<(), UsageError> {
    let (name, value) = match one.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (one, None),
    };
    let known = SUBOPTIONS.iter().find(|option| option.name == name);
    let option = known.ok_or_else(|| UsageError::UnknownSuboption(one.to_owned()))?;
    let required = value.ok_or_else(|| UsageError::NoSuboptionValue(name.to_owned()));
    match option.takes {
        NoEffect(why) => written.note_ignored(format!("-o {name}"), why),
        WordWithoutEffect(why) => {
            required?;
            written.note_ignored(format!("-o {name}"), why);
        }
        NumberWithoutEffect(why, ref kind) => {
            if *kind == Required {
                required?;
            }
            if let Some(value) = value {
                let _: f64 = number("-o", value, "a number")?;
            }
            written.note_ignored(format!("-o {name}"), why);
        }
        Plain(set) => set(written),
        Valued(set) => set(written, required?)?,
        Refused => return Err(UsageError::NotOffered(option.name)),
    }
    Ok(())
}

fn seconds(option: &'static str, value: &str) -> Result<u64, UsageError> {
    number(option, value, "a number of seconds")
}

fn verify_mode(written: &mut ParsedOptions, value: &str) -> Result<(), UsageError> {
    written.tls.client_certificate = match value {
        "0" => ClientCertificateDemand::Unasked,
        "1" => ClientCertificateDemand::Asked,
        "2" | "3" => ClientCertificateDemand::Required,
        _ => return Err(out_of_range("-o ssl_verify_mode", value, "0, 1, 2 or 3")),
    };
    Ok(())
}

fn min_version(written: &mut ParsedOptions, value: &str) -> Result<(), UsageError> {
    written.tls.min_version = match value {
        "2" => TlsVersion::V12,
        "3" => TlsVersion::V13,
        _ => {
            return Err(out_of_range(
                "-o ssl_min_version",
                value,
                "2 (TLS 1.2) or 3 (TLS 1.3)",
            ));
        }
    };
    Ok(())
}

fn key_format(_: &mut ParsedOptions, value: &str) -> Result<(), UsageError> {
    match value {
        "1" => Ok(()),
        _ => Err(out_of_range("-o ssl_keyformat", value, "1 (PEM)")),
    }
}

fn out_of_range(option: &'static str, value: &str, wanted: &'static str) -> UsageError {
    UsageError::OutOfRange {
        option,
        value: value.to_owned(),
        wanted,
    }
}
