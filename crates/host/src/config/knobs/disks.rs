//! The knobs of one disk. A row is all there is of a knob: what was written of it, how a value is taken, what the disk has
//! then, and how a file says that. The file, `live.toml`, requests, `sublet disk add`, what is shown and the reference are made
//! from the rows.

use std::fmt::Display;

use sublet_types::{
    Bytes, DiskKind, DiskListen, DiskSettings, DiskTls, Durability, Fill, Slow, TenantName, Windows,
};

use super::knob::{Knob, Takes};

/// What a page number of 32 bits can name.
const SIZE_MIN: Bytes = Bytes::kib(64);
const SIZE_MAX: Bytes = Bytes::gib(16 << 10);

/// Each queue has a thread.
const QUEUES_MAX: u64 = sublet_frontends::vhost_user::QUEUES_MAX as u64;

/// Makes of the rows what was written of a disk, the table of its knobs, and its way into the disk's settings and out of them.
macro_rules! disk_knobs {
    ($($name:ident: $written:ty {
        unit: $unit:expr,
        default: $default:expr,
        sample: $sample:expr,
        why: $why:expr,
        help: $help:expr,
        flag: $flag:expr,
        takes: $takes:expr,
        set: $set:expr,
        mean: $mean:expr,
        line: $line:expr,
    })*) => {
        /// Everything that was said of one disk, over the defaults of the table.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct WrittenDisk {
            $(pub(in crate::config) $name: $written,)*
        }

        /// The knobs of one disk.
        pub const DISK_KNOBS: &[Knob<WrittenDisk>] = &[$(Knob {
            room: "disks.NAME",
            name: stringify!($name),
            unit: $unit,
            default: $default,
            sample: $sample,
            why: $why,
            help: $help,
            flag: $flag,
            takes: $takes,
            set: $set,
        },)*];

        /// How what was written comes into a disk's settings.
        const MEANINGS: &[fn(&WrittenDisk, &mut DiskSettings)] = &[$($mean,)*];

        /// How a file says each of a disk's settings.
        const LINES: &[(&str, Line)] = &[$((stringify!($name), $line),)*];
    };
}

/// How a file says a setting, if it says it.
type Line = fn(&DiskSettings) -> Option<toml::Value>;

impl WrittenDisk {
    /// Gives a disk what was written.
    pub(in crate::config) fn give(&self, disk: &mut DiskSettings) {
        for mean in MEANINGS {
            mean(self, disk);
        }
    }
}

/// A disk's settings, key by key, as a file says them.
pub(in crate::config) fn disk_lines(disk: &DiskSettings) -> Vec<(&'static str, toml::Value)> {
    let lines = LINES.iter();
    let said = lines.filter_map(|(key, line)| Some((*key, line(disk)?)));
    said.collect()
}

fn text(value: impl Display) -> toml::Value {
    value.to_string().into()
}

fn number(value: u64) -> toml::Value {
    toml::Value::from(value as i64)
}

/// TLS is of its parts.
fn give_tls(written: &WrittenDisk, disk: &mut DiskSettings) {
    let tls = written.tls_cert.clone().zip(written.tls_key.clone());
    disk.tls = tls.map(|(cert, key)| DiskTls {
        cert,
        key,
        client_ca: written.tls_client_ca.clone(),
    });
}

disk_knobs! {
    tenant: Option<TenantName> {
        unit: "a tenant's name",
        default: None,
        sample: "\"db\"",
        why: "it must be somebody's share",
        help: "Whose memory it uses, made if nobody is called so",
        flag: Some("tenant"),
        takes: Takes::Value,
        set: |w, said| said.tenant().map(|name| w.tenant = Some(name)),
        // A disk is made with it.
        mean: |_, _| {},
        line: |disk| Some(text(&disk.tenant)),
    }
    kind: DiskKind {
        unit: "disk or swap",
        default: Some("\"disk\""),
        sample: "\"swap\"",
        why: "what is taken for swap may be gone with the host; files may not",
        help: "Files (disk), of which memory holds a second copy, or swap, which lives in memory",
        flag: Some("kind"),
        takes: Takes::Value,
        set: |w, said| said.named(&DiskKind::ALL).map(|kind| w.kind = kind),
        mean: |w, disk| disk.kind = w.kind,
        line: |disk| Some(text(disk.kind)),
    }
    backing: Option<String> {
        unit: "the path of a raw image or a block device",
        default: None,
        sample: "\"/var/lib/vm/db.img\"",
        why: "a disk has its own; a swap disk without one is given a file in the state folder",
        help: "What is behind it",
        flag: Some("backing"),
        takes: Takes::Path,
        set: |w, said| said.absolute().map(|path| w.backing = Some(path)),
        mean: |w, disk| disk.backing = w.backing.clone(),
        line: |disk| disk.backing.as_ref().map(text),
    }
    size: Option<Bytes> {
        unit: "an amount from 64KiB to 16TiB, in whole pages of 4KiB",
        default: None,
        sample: "\"4GiB\"",
        why: "a backing that exists has its size; a swap disk without one must say it",
        help: "Its size",
        flag: Some("size"),
        takes: Takes::Value,
        set: |w, said| {
            said.pages_in(SIZE_MIN, SIZE_MAX)
                .map(|amount| w.size = Some(amount))
        },
        mean: |w, disk| disk.size = w.size,
        line: |disk| disk.size.map(|size| number(size.0)),
    }
    listen: Vec<DiskListen> {
        unit: "a list of unix:PATH, tcp:HOST:PORT and vhost-user:PATH",
        default: None,
        sample: "[\"unix:/run/sublet/db.sock\"]",
        why: "yours",
        help: "Where it is served: NBD (unix, tcp; the export has the disk's name) and vhost-user-blk (vhost-user)",
        flag: Some("listen"),
        takes: Takes::Values,
        set: |w, said| said.disk_listeners().map(|places| w.listen = places),
        mean: |w, disk| disk.listen = w.listen.clone(),
        line: |disk| Some(toml::Value::Array(disk.listen.iter().map(text).collect())),
    }
    mode: u32 {
        unit: "a file mode in octal",
        default: Some("\"0600\""),
        sample: "\"0660\"",
        why: "who may open the socket may read the disk",
        help: "Mode of its sockets",
        flag: Some("mode"),
        takes: Takes::Value,
        set: |w, said| said.mode().map(|mode| w.mode = mode),
        mean: |w, disk| disk.mode = w.mode,
        line: |disk| Some(text(format_args!("{:04o}", disk.mode))),
    }
    read_only: bool {
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "guests write",
        help: "Nobody may write",
        flag: Some("read-only"),
        takes: Takes::Truth,
        set: |w, said| said.truth().map(|read_only| w.read_only = read_only),
        mean: |w, disk| disk.read_only = w.read_only,
        line: |disk| Some(disk.read_only.into()),
    }
    durability: Option<Durability> {
        unit: "memory, write-behind or write-through",
        default: None,
        sample: "\"write-through\"",
        why: "write-behind for swap, which nobody needs once the host is gone; write-through for disks, always",
        help: "When a write is safe, and from what: docs/disks.md has the table",
        flag: Some("durability"),
        takes: Takes::Value,
        set: |w, said| {
            said.named(&Durability::ALL)
                .map(|durability| w.durability = Some(durability))
        },
        mean: |w, disk| disk.durability = w.durability,
        line: |disk| disk.durability.map(text),
    }
    fill: Option<Fill> {
        unit: "miss, second-miss or drop-on-read",
        default: None,
        sample: "\"second-miss\"",
        why: "second-miss for disks: the fewest misses on five traces (docs/decisions/2026-11-22-disk-admission.md); swap has none",
        help: "Which pages of a disk that were read from the backing are kept in memory",
        flag: Some("fill"),
        takes: Takes::Value,
        set: |w, said| said.named(&Fill::ALL).map(|fill| w.fill = Some(fill)),
        mean: |w, disk| disk.fill = w.fill,
        line: |disk| disk.fill.map(text),
    }
    windows: Option<Windows> {
        unit: "pages or whole",
        default: None,
        sample: "\"whole\"",
        why: "pages for disks: on five traces whole windows stall more reads in the mean (docs/decisions/2026-11-22-windows-whole.md); swap has none",
        help: "What leaves memory together when a page of a disk is evicted: the page, or what is there of the 8 pages of its window",
        flag: Some("windows"),
        takes: Takes::Value,
        set: |w, said| {
            said.named(&Windows::ALL)
                .map(|windows| w.windows = Some(windows))
        },
        mean: |w, disk| disk.windows = w.windows,
        line: |disk| disk.windows.map(text),
    }
    sequential_max: Option<u32> {
        unit: "1 to 1000000 pages, or \"none\"",
        default: Some("\"none\""),
        sample: "256",
        why: "PUMA passes long runs by because its memory is slower than a disk read in order; this one is not",
        help: "Pages of a sequential run that are kept; the rest of the run passes memory by",
        flag: Some("sequential-max"),
        takes: Takes::Value,
        set: |w, said| {
            said.count_or("none", 1, 1_000_000)
                .map(|pages| w.sequential_max = pages.map(|n| n as u32))
        },
        mean: |w, disk| disk.sequential_max = w.sequential_max,
        line: |disk| disk.sequential_max.map(|pages| number(pages.into())),
    }
    queues: u16 {
        unit: "1 to 16",
        default: Some("1"),
        sample: "4",
        why: "each has a thread of its own; a guest with more processors may want more",
        help: "The most queues that a guest may use over vhost-user",
        flag: Some("queues"),
        takes: Takes::Value,
        set: |w, said| said.count(1, QUEUES_MAX).map(|n| w.queues = n as u16),
        mean: |w, disk| disk.queues = w.queues,
        line: |disk| Some(number(disk.queues.into())),
    }
    slow: Option<Slow> {
        unit: "a latency, a bandwidth or both, such as \"4ms, 100MB/s\"",
        default: None,
        sample: "\"4ms, 100MB/s\"",
        why: "as fast as it is",
        help: "For experiments: makes the backing slower than it is",
        flag: Some("slow"),
        takes: Takes::Value,
        set: |w, said| said.slow().map(|slow| w.slow = Some(slow)),
        mean: |w, disk| disk.slow = w.slow,
        line: |disk| disk.slow.map(text),
    }
    tls_cert: Option<String> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/disks.crt\"",
        why: "yours",
        help: "Certificate chain; NBD over TCP then speaks TLS only",
        flag: Some("tls-cert"),
        takes: Takes::Path,
        set: |w, said| said.text().map(|path| w.tls_cert = Some(path)),
        mean: give_tls,
        line: |disk| Some(text(&disk.tls.as_ref()?.cert)),
    }
    tls_key: Option<String> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/disks.key\"",
        why: "yours",
        help: "Its private key",
        flag: Some("tls-key"),
        takes: Takes::Path,
        set: |w, said| said.text().map(|path| w.tls_key = Some(path)),
        mean: give_tls,
        line: |disk| Some(text(&disk.tls.as_ref()?.key)),
    }
    tls_client_ca: Option<String> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/clients.crt\"",
        why: "yours",
        help: "Clients must show a certificate signed by one of these",
        flag: Some("tls-client-ca"),
        takes: Takes::Path,
        set: |w, said| said.text().map(|path| w.tls_client_ca = Some(path)),
        mean: give_tls,
        line: |disk| disk.tls.as_ref()?.client_ca.as_ref().map(text),
    }
    removed: bool {
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "what is named is served",
        help: "Not served, though it is named here: how live.toml keeps that a disk was removed",
        flag: None,
        takes: Takes::Truth,
        set: |w, said| said.truth().map(|removed| w.removed = removed),
        // What is removed is no disk.
        mean: |_, _| {},
        line: |_| None,
    }
}
