//! The knobs of one disk.

use sublet_types::{Bytes, DiskKind, Durability, Fill, Windows};

use super::Knob;
use crate::config::written::WrittenDisk;

/// What a page number of 32 bits can name.
const SIZE_MIN: Bytes = Bytes::kib(64);
const SIZE_MAX: Bytes = Bytes::gib(16 << 10);

/// Each queue has a thread.
const QUEUES_MAX: u64 = sublet_frontends::vhost_user::QUEUES_MAX as u64;

/// The knobs of one disk.
pub const DISK_KNOBS: &[Knob<WrittenDisk>] = &[
    Knob {
        room: "disks.NAME",
        name: "tenant",
        unit: "a tenant's name",
        default: None,
        sample: "\"db\"",
        why: "it must be somebody's share",
        help: "Whose memory it uses, made if nobody is called so",
        flag: Some("tenant"),
        set: |w, said| said.tenant().map(|name| w.tenant = Some(name)),
    },
    Knob {
        room: "disks.NAME",
        name: "kind",
        unit: "disk or swap",
        default: Some("\"disk\""),
        sample: "\"swap\"",
        why: "what is taken for swap may be gone with the host; files may not",
        help: "Files (disk), of which memory holds a second copy, or swap, which lives in memory",
        flag: Some("kind"),
        set: |w, said| said.named(&DiskKind::ALL).map(|kind| w.kind = kind),
    },
    Knob {
        room: "disks.NAME",
        name: "backing",
        unit: "the path of a raw image or a block device",
        default: None,
        sample: "\"/var/lib/vm/db.img\"",
        why: "a disk has its own; a swap disk without one is given a file in the state folder",
        help: "What is behind it",
        flag: Some("backing"),
        set: |w, said| said.absolute().map(|path| w.backing = Some(path)),
    },
    Knob {
        room: "disks.NAME",
        name: "size",
        unit: "an amount from 64KiB to 16TiB, in whole pages of 4KiB",
        default: None,
        sample: "\"4GiB\"",
        why: "a backing that exists has its size; a swap disk without one must say it",
        help: "Its size",
        flag: Some("size"),
        set: |w, said| {
            said.pages_in(SIZE_MIN, SIZE_MAX)
                .map(|amount| w.size = Some(amount))
        },
    },
    Knob {
        room: "disks.NAME",
        name: "listen",
        unit: "a list of unix:PATH, tcp:HOST:PORT and vhost-user:PATH",
        default: None,
        sample: "[\"unix:/run/sublet/db.sock\"]",
        why: "yours",
        help: "Where it is served: NBD (unix, tcp; the export has the disk's name) and vhost-user-blk (vhost-user)",
        flag: Some("listen"),
        set: |w, said| said.disk_listeners().map(|places| w.listen = places),
    },
    Knob {
        room: "disks.NAME",
        name: "mode",
        unit: "a file mode in octal",
        default: Some("\"0600\""),
        sample: "\"0660\"",
        why: "who may open the socket may read the disk",
        help: "Mode of its sockets",
        flag: Some("mode"),
        set: |w, said| said.mode().map(|mode| w.mode = mode),
    },
    Knob {
        room: "disks.NAME",
        name: "read_only",
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "guests write",
        help: "Nobody may write",
        flag: Some("read-only"),
        set: |w, said| said.truth().map(|read_only| w.read_only = read_only),
    },
    Knob {
        room: "disks.NAME",
        name: "durability",
        unit: "memory, write-behind or write-through",
        default: None,
        sample: "\"write-through\"",
        why: "write-behind for swap, which nobody needs once the host is gone; write-through for disks, always",
        help: "When a write is safe, and from what: docs/disks.md has the table",
        flag: Some("durability"),
        set: |w, said| {
            said.named(&Durability::ALL)
                .map(|durability| w.durability = Some(durability))
        },
    },
    Knob {
        room: "disks.NAME",
        name: "fill",
        unit: "miss, second-miss or drop-on-read",
        default: None,
        sample: "\"second-miss\"",
        why: "second-miss for disks: the fewest misses on five traces (docs/decisions/2026-11-22-disk-admission.md); swap has none",
        help: "Which pages of a disk that were read from the backing are kept in memory",
        flag: Some("fill"),
        set: |w, said| said.named(&Fill::ALL).map(|fill| w.fill = Some(fill)),
    },
    Knob {
        room: "disks.NAME",
        name: "windows",
        unit: "pages or whole",
        default: None,
        sample: "\"whole\"",
        why: "pages for disks: on five traces whole windows stall more reads in the mean (docs/decisions/2026-11-22-windows-whole.md); swap has none",
        help: "What leaves memory together when a page of a disk is evicted: the page, or what is there of the 8 pages of its window",
        flag: Some("windows"),
        set: |w, said| {
            said.named(&Windows::ALL)
                .map(|windows| w.windows = Some(windows))
        },
    },
    Knob {
        room: "disks.NAME",
        name: "sequential_max",
        unit: "1 to 1000000 pages, or \"none\"",
        default: Some("\"none\""),
        sample: "256",
        why: "PUMA passes long runs by because its memory is slower than a disk read in order; this one is not",
        help: "Pages of a sequential run that are kept; the rest of the run passes memory by",
        flag: Some("sequential-max"),
        set: |w, said| {
            said.count_or("none", 1, 1_000_000)
                .map(|pages| w.sequential_max = pages.map(|n| n as u32))
        },
    },
    Knob {
        room: "disks.NAME",
        name: "queues",
        unit: "1 to 16",
        default: Some("1"),
        sample: "4",
        why: "each has a thread of its own; a guest with more processors may want more",
        help: "The most queues that a guest may use over vhost-user",
        flag: Some("queues"),
        set: |w, said| said.count(1, QUEUES_MAX).map(|n| w.queues = n as u16),
    },
    Knob {
        room: "disks.NAME",
        name: "slow",
        unit: "a latency, a bandwidth or both, such as \"4ms, 100MB/s\"",
        default: None,
        sample: "\"4ms, 100MB/s\"",
        why: "as fast as it is",
        help: "For experiments: makes the backing slower than it is",
        flag: Some("slow"),
        set: |w, said| said.slow().map(|slow| w.slow = Some(slow)),
    },
    Knob {
        room: "disks.NAME",
        name: "tls_cert",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/disks.crt\"",
        why: "yours",
        help: "Certificate chain; NBD over TCP then speaks TLS only",
        flag: Some("tls-cert"),
        set: |w, said| said.text().map(|path| w.tls_cert = Some(path)),
    },
    Knob {
        room: "disks.NAME",
        name: "tls_key",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/disks.key\"",
        why: "yours",
        help: "Its private key",
        flag: Some("tls-key"),
        set: |w, said| said.text().map(|path| w.tls_key = Some(path)),
    },
    Knob {
        room: "disks.NAME",
        name: "tls_client_ca",
        unit: "a PEM file",
        default: None,
        sample: "\"/etc/sublet/clients.crt\"",
        why: "yours",
        help: "Clients must show a certificate signed by one of these",
        flag: Some("tls-client-ca"),
        set: |w, said| said.text().map(|path| w.tls_client_ca = Some(path)),
    },
    Knob {
        room: "disks.NAME",
        name: "removed",
        unit: "true or false",
        default: Some("false"),
        sample: "true",
        why: "what is named is served",
        help: "Not served, though it is named here: how live.toml keeps that a disk was removed",
        flag: None,
        set: |w, said| said.truth().map(|removed| w.removed = removed),
    },
];
