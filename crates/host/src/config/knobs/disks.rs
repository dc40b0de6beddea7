//! The knobs of one disk. A row holds everything about a knob: its written form, how a value is read, what the disk
//! then has, and how a file says that.
//!
//! The rows make the file, `live.toml`, requests, `sublet disk add`, what is shown, and the reference.

use std::fmt::Display;

use sublet_types::{
    Bytes, DiskKind, DiskListen, DiskSettings, DiskTls, Durability, FillPolicy, SlowBacking,
    TenantName, WindowEviction,
};

use super::knob::{Knob, KnobArgument};

/// The largest size is what a page number of 32 bits can name.
const SIZE_MIN: Bytes = Bytes::kib(64);
const SIZE_MAX: Bytes = Bytes::gib(16 << 10);

/// Each queue has a thread.
const QUEUES_MAX: u64 = sublet_frontends::vhost_user::QUEUES_MAX as u64;

/// Makes three things from the rows: what was written of a disk, the table of its knobs, and the way into the disk's
/// settings and back.
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
        /// Everything that was set for one disk, over the defaults of the table.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct WrittenDisk {
            $(pub(in crate::config) $name: $written,)*
        }

        /// The knobs of one disk.
        pub const DISK_KNOBS: &[Knob<WrittenDisk>] = &[$(Knob {
            table: "disks.NAME",
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

        /// Functions that put what was written into a disk's settings.
        const MEANINGS: &[fn(&WrittenDisk, &mut DiskSettings)] = &[$($mean,)*];

        /// How a file says each of a disk's settings.
        const LINES: &[(&str, SettingToToml)] = &[$((stringify!($name), $line),)*];
    };
}

/// How a file says a setting, if it says it.
type SettingToToml = fn(&DiskSettings) -> Option<toml::Value>;

impl WrittenDisk {
    /// Puts what was written into a disk's settings.
    pub(in crate::config) fn apply_to(&self, disk: &mut DiskSettings) {
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

/// TLS consists of its parts.
fn apply_tls(written: &WrittenDisk, disk: &mut DiskSettings) {
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
        why: "the disk's memory must come from some tenant's share",
        help: "The tenant whose memory the disk uses; the daemon adds the tenant if there is none of this name",
        flag: Some("tenant"),
        takes: KnobArgument::Value,
        set: |w, said| said.tenant().map(|name| w.tenant = Some(name)),
        // A disk is made with its name.
        mean: |_, _| {},
        line: |disk| Some(text(&disk.tenant)),
    }
    kind: DiskKind {
        unit: "disk or swap",
        default: Some("\"disk\""),
        sample: "\"swap\"",
        why: "what is taken for swap may be lost with the host; files may not",
        help: "Files (disk), of which memory holds a second copy, or swap, which lives in memory",
        flag: Some("kind"),
        takes: KnobArgument::Value,
        set: |w, said| said.named_choice(&DiskKind::ALL).map(|kind| w.kind = kind),
        mean: |w, disk| disk.kind = w.kind,
        line: |disk| Some(text(disk.kind)),
    }
    backing: Option<String> {
        unit: "the path of a raw image or a block device",
        default: None,
        sample: "\"/var/lib/vm/db.img\"",
        why: "a disk has its own backing; a swap disk without one gets a file in the state folder",
        help: "The file or device behind the disk",
        flag: Some("backing"),
        takes: KnobArgument::Path,
        set: |w, said| said.absolute().map(|path| w.backing = Some(path)),
        mean: |w, disk| disk.backing = w.backing.clone(),
        line: |disk| disk.backing.as_ref().map(text),
    }
    size: Option<Bytes> {
        unit: "an amount from 64KiB to 16TiB, in whole pages of 4KiB",
        default: None,
        sample: "\"4GiB\"",
        why: "an existing backing has its own size; a swap disk without a backing needs a size",
        help: "Size of the disk",
        flag: Some("size"),
        takes: KnobArgument::Value,
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
        help: "Where the disk is served: over NBD (unix, tcp), under the disk's name as the export, and over vhost-user-blk (vhost-user)",
        flag: Some("listen"),
        takes: KnobArgument::Values,
        set: |w, said| said.disk_listeners().map(|places| w.listen = places),
        mean: |w, disk| disk.listen = w.listen.clone(),
        line: |disk| Some(toml::Value::Array(disk.listen.iter().map(text).collect())),
    }
    mode: u32 {
        unit: "a file mode in octal",
        default: Some("\"0600\""),
        sample: "\"0660\"",
        why: "a program that can open the socket can read the disk",
        help: "Mode of the disk's sockets",
        flag: Some("mode"),
        takes: KnobArgument::Value,
        set: |w, said| said.mode().map(|mode| w.mode = mode),
        mean: |w, disk| disk.mode = w.mode,
        line: |disk| Some(text(format_args!("{:04o}", disk.mode))),
    }
    read_only: bool {
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "guests write",
        help: "Guests cannot write to the disk",
        flag: Some("read-only"),
        takes: KnobArgument::Bool,
        set: |w, said| said.boolean().map(|read_only| w.read_only = read_only),
        mean: |w, disk| disk.read_only = w.read_only,
        line: |disk| Some(disk.read_only.into()),
    }
    durability: Option<Durability> {
        unit: "memory, write-behind or write-through",
        default: None,
        sample: "\"write-through\"",
        why: "write-behind for swap, because nobody needs it once the host is gone; write-through for disks, always",
        help: "When a write is safe, and from what; docs/disks.md has the table",
        flag: Some("durability"),
        takes: KnobArgument::Value,
        set: |w, said| {
            said.named_choice(&Durability::ALL)
                .map(|durability| w.durability = Some(durability))
        },
        mean: |w, disk| disk.durability = w.durability,
        line: |disk| disk.durability.map(text),
    }
    fill: Option<FillPolicy> {
        unit: "miss, second-miss or drop-on-read",
        default: None,
        sample: "\"second-miss\"",
        why: "second-miss for disks: the fewest misses on five traces (docs/decisions/2026-11-22-disk-admission.md); swap has no such setting",
        help: "Which pages that were read from the backing a disk keeps in memory",
        flag: Some("fill"),
        takes: KnobArgument::Value,
        set: |w, said| said.named_choice(&FillPolicy::ALL).map(|fill| w.fill = Some(fill)),
        mean: |w, disk| disk.fill = w.fill,
        line: |disk| disk.fill.map(text),
    }
    windows: Option<WindowEviction> {
        unit: "pages or whole",
        default: None,
        sample: "\"whole\"",
        why: "pages for disks: on five traces whole windows stall more reads on average (docs/decisions/2026-11-22-windows-whole.md); swap has no such setting",
        help: "What leaves memory when a page of a disk is evicted: only the page, or all cached pages of its 8-page window",
        flag: Some("windows"),
        takes: KnobArgument::Value,
        set: |w, said| {
            said.named_choice(&WindowEviction::ALL)
                .map(|windows| w.windows = Some(windows))
        },
        mean: |w, disk| disk.windows = w.windows,
        line: |disk| disk.windows.map(text),
    }
    sequential_max: Option<u32> {
        unit: "1 to 1000000 pages, or \"none\"",
        default: Some("\"none\""),
        sample: "256",
        why: "PUMA lets long runs bypass its memory because that is slower than a disk read in order; Sublet's memory is not slower",
        help: "Pages of a sequential run that the disk keeps; the rest of the run bypasses memory",
        flag: Some("sequential-max"),
        takes: KnobArgument::Value,
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
        why: "each queue has its own thread; a guest with more processors may want more",
        help: "The most queues that a guest may use over vhost-user",
        flag: Some("queues"),
        takes: KnobArgument::Value,
        set: |w, said| said.count(1, QUEUES_MAX).map(|n| w.queues = n as u16),
        mean: |w, disk| disk.queues = w.queues,
        line: |disk| Some(number(disk.queues.into())),
    }
    slow: Option<SlowBacking> {
        unit: "a latency, a bandwidth or both, such as \"4ms, 100MB/s\"",
        default: None,
        sample: "\"4ms, 100MB/s\"",
        why: "the backing is as fast as it is",
        help: "For experiments: makes the backing slower than it is",
        flag: Some("slow"),
        takes: KnobArgument::Value,
        set: |w, said| said.slow().map(|slow| w.slow = Some(slow)),
        mean: |w, disk| disk.slow = w.slow,
        line: |disk| disk.slow.map(text),
    }
    tls_cert: Option<String> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/disks.crt\"",
        why: "yours",
        help: "Certificate chain; with it NBD over TCP speaks TLS only",
        flag: Some("tls-cert"),
        takes: KnobArgument::Path,
        set: |w, said| said.text().map(|path| w.tls_cert = Some(path)),
        mean: apply_tls,
        line: |disk| Some(text(&disk.tls.as_ref()?.cert)),
    }
    tls_key: Option<String> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/disks.key\"",
        why: "yours",
        help: "Private key of that certificate",
        flag: Some("tls-key"),
        takes: KnobArgument::Path,
        set: |w, said| said.text().map(|path| w.tls_key = Some(path)),
        mean: apply_tls,
        line: |disk| Some(text(&disk.tls.as_ref()?.key)),
    }
    tls_client_ca: Option<String> {
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/clients.crt\"",
        why: "yours",
        help: "Clients must show a certificate that one of these has signed",
        flag: Some("tls-client-ca"),
        takes: KnobArgument::Path,
        set: |w, said| said.text().map(|path| w.tls_client_ca = Some(path)),
        mean: apply_tls,
        line: |disk| disk.tls.as_ref()?.client_ca.as_ref().map(text),
    }
    removed: bool {
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "the daemon serves every disk that is named",
        help: "The daemon does not serve the disk, though the file names it; live.toml uses this to keep a removed disk",
        flag: None,
        takes: KnobArgument::Bool,
        set: |w, said| said.boolean().map(|removed| w.removed = removed),
        // A removed disk has no settings.
        mean: |_, _| {},
        line: |_| None,
    }
}
