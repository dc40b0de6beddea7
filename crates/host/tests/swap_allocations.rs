//! Tests that a swapping guest makes the daemon allocate nothing (P3, the disk's part). Otherwise the host would swap
//! to make room for swapping.
//!
//! The test counts the whole process: the thread that serves NBD, the disk's own thread, and this one, which is the
//! guest and allocates nothing itself. Memory is full, so that each new page displaces another. The stage is small, so
//! that some writes wait for the backing. A shard's directory grows, by a quarter at a time, only if many pages change
//! between places of their own and an extent's.

use std::alloc::System;
use std::env::args_os;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use sublet_frontends::backend::Backend;
use sublet_frontends::tenancy::{Clock, Ledger};
use sublet_host::config::{self, LoadedConfig};
use sublet_host::disk::{Disks, run_keeper};
use sublet_host::observe::events::Events;
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::{Bytes, DiskName, TenantName, TenantSettings};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MEMORY: Bytes = Bytes::mib(16);
const DIRTY_MAX: Bytes = Bytes::kib(256);
const DISK: Bytes = Bytes::mib(64);
const PAGE: u64 = 4096;
const PAGES: u64 = DISK.0 / PAGE;

/// Of this many pages that are touched, one may make a directory grow.
const GROWTH_ONE_IN: u64 = 1000;

/// The counted requests of each kind whose requests touch a page or two.
const COUNTED: u64 = 20_000;

/// The counted requests of each kind whose requests touch [`MANY`] pages.
const COUNTED_LARGE: u64 = 2_000;

/// This program is the keeper of its own stage, too: `THIS keep SOCKET`.
fn main() {
    let words: Vec<_> = args_os().skip(1).collect();
    match words.as_slice() {
        [verb, socket] if verb == "keep" => run_keeper(Path::new(socket)).expect("it keeps"),
        _ => a_swapping_guest_allocates_nothing(),
    }
}

/// Requests of one kind: the name, how many are counted, how many allocations they may make, and one of them.
type AllocationCase = (&'static str, u64, u64, fn(&mut Guest));

/// Allocations for the growth of directories, by requests that touch a page.
const GROWTH: u64 = COUNTED / GROWTH_ONE_IN;

/// The same, by requests that touch [`MANY`] pages. One allocation per request would be many times as many.
const GROWTH_LARGE: u64 = COUNTED_LARGE * MANY / GROWTH_ONE_IN;

fn a_swapping_guest_allocates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("swap.sock");
    let backend = backend();
    let loaded = config_of(folder.path(), &socket);
    let disks = Disks::open(&loaded, &backend, None, &Events::default()).expect("it opens");
    let mut guest = Guest::of(&socket);
    (0..PAGES).for_each(|page| guest.write(page));
    let kinds: [AllocationCase; 9] = [
        (
            "pages written over the whole disk",
            COUNTED,
            GROWTH,
            |guest| {
                let page = guest.random_below(PAGES);
                guest.write(page);
            },
        ),
        ("pages written again", COUNTED, GROWTH, |guest| {
            let page = guest.random_below(64);
            guest.write(page);
        }),
        ("pages read", COUNTED, GROWTH, |guest| {
            let page = guest.random_below(PAGES);
            guest.read(page);
        }),
        ("parts of pages written", COUNTED, GROWTH, |guest| {
            let page = guest.random_below(PAGES);
            guest.write_part(page);
        }),
        ("pages made zero", COUNTED, GROWTH, |guest| {
            let page = guest.random_below(PAGES);
            guest.zero(page);
        }),
        ("pages written and flushed", COUNTED, GROWTH, |guest| {
            let page = guest.random_below(PAGES);
            guest.write(page);
            guest.flush();
        }),
        (
            "256 KiB written across pages",
            COUNTED_LARGE,
            GROWTH_LARGE,
            |guest| {
                let page = guest.random_below(PAGES - MANY);
                guest.send(WRITE, page * PAGE + SECTOR, MANY * PAGE, MANY_BYTES);
            },
        ),
        (
            "256 KiB read across pages",
            COUNTED_LARGE,
            GROWTH_LARGE,
            |guest| {
                let page = guest.random_below(PAGES - MANY);
                guest.read_many(page);
            },
        ),
        (
            "clusters discarded and written anew",
            COUNTED,
            GROWTH,
            |guest| {
                let page = guest.random_below(PAGES);
                guest.discard(page / 512 * 512, 512);
                guest.write(page);
            },
        ),
    ];
    let counts = kinds.map(|(name, counted, growth, ask)| {
        (0..2 * counted).for_each(|_| ask(&mut guest));
        drain_samples(&backend.store);
        let before = allocated();
        (0..counted).for_each(|_| ask(&mut guest));
        (name, counted, growth, allocated() - before)
    });
    disks.end();
    for (name, counted, _, allocations) in counts {
        println!("{name}: {allocations} allocations for {counted}");
    }
    for (name, counted, growth, allocations) in counts {
        assert!(allocations <= growth, "{allocations} for {counted} {name}");
    }
}

/// Drops the samples of pages, as the Memory Manager does once per second.
fn drain_samples(store: &Store) {
    let tenants = store.tenants();
    let mut samples = Vec::new();
    tenants
        .iter()
        .for_each(|tenant| store.drain_samples(tenant.id, &mut samples));
}

/// Allocations and reallocations of this process so far.
fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as u64
}

fn backend() -> Backend {
    let store = Store::new(StoreSettings {
        capacity: MEMORY,
        limit: MEMORY,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    });
    let store = store.expect("addresses");
    let tenant = TenantSettings {
        name: tenant(),
        weight: Default::default(),
        floor: None,
        ceiling: None,
    };
    store.add_tenant(tenant).expect("the first");
    Backend {
        store,
        clock: Clock::start(),
        ledger: Arc::new(Ledger::default()),
    }
}

fn tenant() -> TenantName {
    "guests".parse().expect("a name")
}

fn name() -> DiskName {
    "swap".parse().expect("a name")
}

/// A daemon with one swap disk, and a stage that is smaller than a config may say.
fn config_of(folder: &Path, socket: &Path) -> LoadedConfig {
    let file = folder.join("sublet.toml");
    let text = format!(
        "[daemon]\nthreads = 1\nstate = {folder:?}\n[admin]\nsocket = {:?}\n\
         [disks.{}]\nkind = \"swap\"\ntenant = \"{}\"\nsize = \"{DISK}\"\nlisten = [\"unix:{}\"]\n",
        folder.join("admin.sock"),
        name(),
        tenant(),
        socket.display()
    );
    fs::write(&file, text).expect("written");
    let mut loaded = config::load(Some(&file), &[]).expect("a config");
    loaded.config.disk.dirty_max = DIRTY_MAX;
    loaded
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

const SECTOR: u64 = 512;

const HEAD: usize = 28;

/// Pages of a large request.
const MANY: u64 = 64;
const MANY_BYTES: usize = (MANY * PAGE) as usize;

/// A guest over NBD that allocates nothing once it has its disk.
struct Guest {
    stream: UnixStream,
    request: Box<[u8; HEAD + MANY_BYTES]>,
    read: Box<[u8; MANY_BYTES]>,
    seed: u64,
}

impl Guest {
    fn of(socket: &Path) -> Guest {
        let mut stream = UnixStream::connect(socket).expect("connected");
        stream.read_exact(&mut [0; 18]).expect("a greeting");
        let name = name();
        let name = name.as_str().as_bytes();
        let mut asked = 3u32.to_be_bytes().to_vec(); // fixed newstyle, no zeroes
        asked.extend(b"IHAVEOPT");
        asked.extend(1u32.to_be_bytes()); // EXPORT_NAME
        asked.extend((name.len() as u32).to_be_bytes());
        asked.extend(name);
        stream.write_all(&asked).expect("sent");
        stream.read_exact(&mut [0; 10]).expect("size and flags");
        Guest {
            stream,
            request: Box::new([7; HEAD + MANY_BYTES]),
            read: Box::new([0; MANY_BYTES]),
            seed: 1,
        }
    }

    /// A number below `bound`.
    fn random_below(&mut self, bound: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.seed >> 33) % bound
    }

    fn write(&mut self, page: u64) {
        self.send(WRITE, page * PAGE, PAGE, PAGE as usize);
    }

    fn write_part(&mut self, page: u64) {
        let at = page * PAGE + SECTOR;
        self.send(WRITE, at, SECTOR, SECTOR as usize);
    }

    fn zero(&mut self, page: u64) {
        self.send(WRITE_ZEROES, page * PAGE, PAGE, 0);
    }

    fn flush(&mut self) {
        self.send(FLUSH, 0, 0, 0);
    }

    fn read(&mut self, page: u64) {
        self.send(READ, page * PAGE, PAGE, 0);
        let page = &mut self.read[..PAGE as usize];
        self.stream.read_exact(page).expect("a page");
    }

    /// Reads from the middle of a page on.
    fn read_many(&mut self, page: u64) {
        self.send(READ, page * PAGE + SECTOR, MANY * PAGE, 0);
        self.stream.read_exact(&mut *self.read).expect("pages");
    }

    fn discard(&mut self, page: u64, pages: u64) {
        self.send(TRIM, page * PAGE, pages * PAGE, 0);
    }

    /// Sends a request with this many bytes behind it, and checks that it succeeded.
    fn send(&mut self, verb: u16, at: u64, len: u64, payload: usize) {
        let request = &mut self.request;
        request[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
        request[4..6].fill(0);
        request[6..8].copy_from_slice(&verb.to_be_bytes());
        request[16..24].copy_from_slice(&at.to_be_bytes());
        request[24..28].copy_from_slice(&(len as u32).to_be_bytes());
        request[HEAD..HEAD + 8].copy_from_slice(&self.seed.to_le_bytes());
        let sent = self.stream.write_all(&request[..HEAD + payload]);
        sent.expect("sent");
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[4..8], [0; 4], "no error");
    }
}
