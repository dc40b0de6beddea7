//! The only table of memcached's options: how each is written, what it sets, and its line in `-h`.

use super::parsed_options::{ParsedOptions, PrintRequest, UsageError};
use super::suboptions;
use super::values::{item_size, number, path, port, positive};

/// One option.
pub(super) struct Flag {
    pub(super) short: char,
    pub(super) long: Option<&'static str>,
    pub(super) value: Option<&'static str>,
    /// Its line in `-h`. Options without effect are accepted, but not listed.
    pub(super) help: Option<&'static str>,
    pub(super) set: FlagEffect,
}

/// What an option does.
pub(super) enum FlagEffect {
    /// It takes no value.
    Plain(fn(&mut ParsedOptions)),
    /// It takes a value.
    Valued(fn(&mut ParsedOptions, &str) -> Result<(), UsageError>),
    /// It has no effect, because Sublet meets its purpose in another way. `-v` prints the reason.
    Nothing(&'static str),
}

use FlagEffect::{Nothing, Plain, Valued};

const fn flag(
    short: char,
    long: &'static str,
    value: Option<&'static str>,
    help: &'static str,
    set: FlagEffect,
) -> Flag {
    Flag {
        short,
        long: Some(long),
        value,
        help: Some(help),
        set,
    }
}

const fn ignored(
    short: char,
    long: &'static str,
    value: Option<&'static str>,
    why: &'static str,
) -> Flag {
    Flag {
        short,
        long: Some(long),
        value,
        help: None,
        set: Nothing(why),
    }
}

/// Every option, in the order of `-h`.
pub(super) const FLAGS: &[Flag] = &[
    flag(
        'p',
        "port",
        Some("num"),
        "TCP port to listen on; -1: the kernel chooses, 0: none (default: 11211)",
        Valued(|w, v| {
            w.port = Some(port("-p", v)?);
            Ok(())
        }),
    ),
    flag(
        'U',
        "udp-port",
        Some("num"),
        "0 only: UDP is not offered (default: 0)",
        Valued(|w, v| {
            w.udp_port = port("-U", v)?;
            Ok(())
        }),
    ),
    flag(
        's',
        "unix-socket",
        Some("file"),
        "Unix socket to listen on, in place of TCP",
        Valued(|w, v| {
            w.unix_socket = Some(path("-s", v)?);
            Ok(())
        }),
    ),
    flag(
        'a',
        "unix-mask",
        Some("mode"),
        "mode of the Unix socket, octal (default: 700)",
        Valued(|w, v| {
            w.settings.unix_mode = u32::from_str_radix(v, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
                .ok_or(UsageError::NotANumber {
                    option: "-a",
                    value: v.to_owned(),
                    wanted: "an octal mode such as 770",
                })?;
            Ok(())
        }),
    ),
    flag(
        'A',
        "enable-shutdown",
        None,
        "let clients end the process with \"shutdown\"",
        Plain(|w| w.settings.shutdown = true),
    ),
    flag(
        'l',
        "listen",
        Some("addr"),
        "addresses to listen on: host, host:port, [v6]:port, parted by commas;\nwith -Z also notls:, btls: (no client certificate), mtls: (client\ncertificate required) before one (default: all)",
        Valued(|w, v| {
            w.listen(v);
            Ok(())
        }),
    ),
    flag(
        'd',
        "daemon",
        None,
        "run in the background",
        Plain(|w| w.daemon = true),
    ),
    flag(
        'r',
        "enable-coredumps",
        None,
        "raise the limit on core files",
        Plain(|w| w.core_dumps = true),
    ),
    flag(
        'u',
        "user",
        Some("user"),
        "become this user (where started as root)",
        Valued(|w, v| {
            w.user = Some(v.to_owned());
            Ok(())
        }),
    ),
    flag(
        'm',
        "memory-limit",
        Some("MiB"),
        "most memory for items and their index (default: 64)",
        Valued(|w, v| {
            w.memory_mib = number("-m", v, "a number of MiB")?;
            Ok(())
        }),
    ),
    flag(
        'M',
        "disable-evictions",
        None,
        "refuse items when memory is full, evict none",
        Plain(|w| w.settings.evictions = false),
    ),
    flag(
        'c',
        "conn-limit",
        Some("num"),
        "most connections at once (default: 1024)",
        Valued(|w, v| {
            w.settings.connections_max = positive("-c", v, "most connections at once")?;
            Ok(())
        }),
    ),
    flag(
        'k',
        "lock-memory",
        None,
        "keep memory off the swap, as far as the system allows",
        Plain(|w| w.lock_memory = true),
    ),
    flag(
        'v',
        "verbose",
        None,
        "say more: warnings and what has no effect; requests are not shown",
        Plain(|w| {
            w.settings.verbosity = w.settings.verbosity.saturating_add(1);
        }),
    ),
    flag(
        'h',
        "help",
        None,
        "print this and exit",
        Plain(|w| w.shown = Some(PrintRequest::Help)),
    ),
    flag(
        'i',
        "license",
        None,
        "print the licence and exit",
        Plain(|w| w.shown = Some(PrintRequest::License)),
    ),
    flag(
        'V',
        "version",
        None,
        "print the version and exit",
        Plain(|w| w.shown = Some(PrintRequest::Version)),
    ),
    flag(
        'P',
        "pidfile",
        Some("file"),
        "write the process id there",
        Valued(|w, v| {
            w.pid_file = Some(path("-P", v)?);
            Ok(())
        }),
    ),
    flag(
        'f',
        "slab-growth-factor",
        Some("num"),
        "taken, without effect: there are no slabs",
        Valued(|w, v| {
            let above_one = v.parse().is_ok_and(|factor: f64| factor > 1.0);
            above_one
                .then(|| w.note_ignored("-f", "there are no slab classes"))
                .ok_or(UsageError::OutOfRange {
                    option: "-f",
                    value: v.to_owned(),
                    wanted: "greater than 1",
                })
        }),
    ),
    flag(
        'n',
        "slab-min-size",
        Some("bytes"),
        "taken, without effect: items take what they need",
        Valued(|w, v| {
            positive("-n", v, "bytes")?;
            w.note_ignored("-n", "items take what they need");
            Ok(())
        }),
    ),
    flag(
        'L',
        "enable-largepages",
        None,
        "taken, without effect: memory is in huge pages wherever possible",
        Plain(|w| {
            w.note_ignored("-L", "memory is in huge pages wherever possible");
        }),
    ),
    Flag {
        short: 'D',
        long: None,
        value: Some("char"),
        help: Some(
            "character between a key's prefix and its rest; collects \"stats detail\"\nfrom the start (default: :)",
        ),
        set: Valued(|w, v| {
            w.settings.prefix_delimiter = *v.as_bytes().first().ok_or(UsageError::NoDelimiter)?;
            w.settings.detail = true;
            Ok(())
        }),
    },
    flag(
        't',
        "threads",
        Some("num"),
        "threads that serve (default: 4)",
        Valued(|w, v| {
            w.settings.threads = positive("-t", v, "threads")?;
            Ok(())
        }),
    ),
    flag(
        'R',
        "max-reqs-per-event",
        Some("num"),
        "requests of one connection before others get a turn (default: 20)",
        Valued(|w, v| {
            w.settings.requests_per_turn = positive("-R", v, "requests of one turn")?;
            Ok(())
        }),
    ),
    flag(
        'C',
        "disable-cas",
        None,
        "do without cas uniques",
        Plain(|w| w.settings.cas = false),
    ),
    flag(
        'b',
        "listen-backlog",
        Some("num"),
        "connections that may wait to be accepted (default: 1024)",
        Valued(|w, v| {
            w.settings.backlog = number("-b", v, "a number of connections")?;
            Ok(())
        }),
    ),
    flag(
        'B',
        "protocol",
        Some("name"),
        "ascii, binary or auto: the first byte decides (default: auto)",
        Valued(|w, v| w.speak(v)),
    ),
    flag(
        'I',
        "max-item-size",
        Some("size"),
        "largest item, 1k to 1024m and at most half of -m (default: 1m)",
        Valued(|w, v| {
            w.settings.item_max = item_size(v)?;
            Ok(())
        }),
    ),
    flag(
        'S',
        "enable-sasl",
        None,
        "require SASL (PLAIN) on the binary protocol; users and passwords are the\nuser:password lines of the file that MEMCACHED_SASL_PWDB names; who has a\nline user@host:password logs in as user, too",
        Plain(|w| w.settings.sasl = true),
    ),
    flag(
        'F',
        "disable-flush-all",
        None,
        "refuse flush_all",
        Plain(|w| w.settings.flush = false),
    ),
    flag(
        'X',
        "disable-dumping",
        None,
        "refuse stats cachedump, stats detail and lru_crawler metadump",
        Plain(|w| w.settings.dump = false),
    ),
    flag(
        'W',
        "disable-watch",
        None,
        "refuse watch",
        Plain(|w| w.settings.watch = false),
    ),
    flag(
        'Y',
        "auth-file",
        Some("file"),
        "require authentication on the text protocol, by the file's user:password\nlines; SIGHUP rereads it",
        Valued(|w, v| {
            w.settings.auth_file = Some(path("-Y", v)?);
            Ok(())
        }),
    ),
    flag(
        'Z',
        "enable-ssl",
        None,
        "speak TLS on TCP; see ssl_chain_cert and ssl_key",
        Plain(|w| w.tls.enabled = true),
    ),
    flag(
        'o',
        "extended",
        Some("list"),
        "options parted by commas:",
        Valued(suboptions::set),
    ),
    Flag {
        short: 'e',
        long: Some("memory-file"),
        value: Some("file"),
        help: None,
        set: Valued(|w, _| {
            w.warn_ignored("-e", "items do not survive a restart");
            Ok(())
        }),
    },
    ignored(
        'N',
        "napi_ids",
        Some("num"),
        "threads are not bound to network queues",
    ),
];
