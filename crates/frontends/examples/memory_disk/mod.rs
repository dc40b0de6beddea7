//! A disk whose bytes are in a file, for tests and examples. Some reads are answered at once; the rest by a thread, later
//! and in any order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use sublet_frontends::backend::Backend;
use sublet_frontends::block::{Desk, Disk, Fault, Outcome, Request, Shape, Verb};
use sublet_frontends::tenancy::{Clock, Doorman, Ledger};
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

/// How the disk behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// Reads that begin in the first `hits` of every 8 pages are answered at once.
    pub(crate) hits: u64,
    /// Writes are taken at once unless they must last.
    pub(crate) takes_writes: bool,
    /// Requests wait, up to so long each, and overtake each other.
    pub(crate) delay_max: Duration,
}

/// What the disk was asked for, and whether it still does it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Writes and zeroings that had to last.
    pub(crate) lasting: AtomicU64,
    /// Flushes.
    pub(crate) flushes: AtomicU64,
    /// Trims.
    pub(crate) trims: AtomicU64,
    /// Every request is given back undone from now on.
    pub(crate) is_leaving: AtomicBool,
    /// What was carried out is not given back meanwhile.
    pub(crate) is_held: AtomicBool,
}

/// The disk.
pub(crate) struct MemoryDisk {
    name: String,
    tenant: TenantId,
    shape: Shape,
    manners: Manners,
    bytes: Arc<File>,
    requests: Sender<Request>,
    /// What it was asked for.
    pub(crate) counts: Arc<Counts>,
}

impl MemoryDisk {
    /// A disk over a file, which is as long as the shape says. Its thread ends with it.
    pub(crate) fn new(
        name: &str,
        tenant: TenantId,
        shape: Shape,
        bytes: File,
        manners: Manners,
    ) -> Arc<MemoryDisk> {
        let (requests, coming) = mpsc::channel();
        let bytes = Arc::new(bytes);
        let counts = Arc::<Counts>::default();
        let (file, counted) = (Arc::clone(&bytes), Arc::clone(&counts));
        thread::spawn(move || carry_out_all(&file, &coming, &counted, manners.delay_max));
        Arc::new(MemoryDisk {
            name: name.to_owned(),
            tenant,
            shape,
            manners,
            bytes,
            requests,
            counts,
        })
    }
}

impl Disk for MemoryDisk {
    fn name(&self) -> &str {
        &self.name
    }

    fn tenant(&self) -> TenantId {
        self.tenant
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn desk(self: Arc<Self>, _: &Doorman) -> Box<dyn Desk> {
        Box::new(MemoryDesk(self))
    }

    fn start(&self, request: Request) {
        let _ = self.requests.send(request);
    }
}

struct MemoryDesk(Arc<MemoryDisk>);

impl Desk for MemoryDesk {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        (at / 4096) % 8 < self.0.manners.hits && self.0.bytes.read_exact_at(into, at).is_ok()
    }

    fn write(&self, at: u64, from: &[u8], lasting: bool) -> bool {
        let takes = self.0.manners.takes_writes && !lasting;
        takes && self.0.bytes.write_all_at(from, at).is_ok()
    }

    fn trim(&self, _: u64, _: u64) -> bool {
        false
    }

    fn flush(&self) -> bool {
        false
    }
}

/// The thread's loop: any of the requests that wait is next.
fn carry_out_all(bytes: &File, coming: &Receiver<Request>, counts: &Counts, delay_max: Duration) {
    let mut waiting: Vec<Request> = Vec::new();
    let mut luck = 0x9e37_79b9_u64;
    loop {
        if waiting.is_empty() {
            match coming.recv() {
                Ok(request) => waiting.push(request),
                Err(_) => return,
            }
        }
        waiting.extend(coming.try_iter());
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = match delay_max.is_zero() {
            true => 0,
            false => (luck >> 33) as usize % waiting.len(),
        };
        if !delay_max.is_zero() {
            thread::sleep(delay_max.mul_f64((luck >> 40) as f64 / f64::from(1 << 24)));
        }
        let request = waiting.remove(place);
        carry_out(bytes, request, counts);
    }
}

fn carry_out(bytes: &File, request: Request, counts: &Counts) {
    let Request {
        verb,
        at,
        len,
        mut buffer,
        to,
        token,
    } = request;
    let done = match verb {
        Verb::Read => bytes.read_exact_at(&mut buffer, at),
        Verb::Write { lasting } => {
            counts
                .lasting
                .fetch_add(u64::from(lasting), Ordering::Relaxed);
            bytes.write_all_at(&buffer, at)
        }
        Verb::Zero { lasting, .. } => {
            counts
                .lasting
                .fetch_add(u64::from(lasting), Ordering::Relaxed);
            bytes.write_all_at(&vec![0; len as usize], at)
        }
        Verb::Trim => {
            counts.trims.fetch_add(1, Ordering::Relaxed);
            bytes.write_all_at(&vec![0; len as usize], at)
        }
        Verb::Flush => {
            counts.flushes.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Verb::Prefetch | Verb::Extents { .. } => Ok(()),
    };
    while counts.is_held.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    to.done(Outcome {
        token,
        result: match counts.is_leaving.load(Ordering::Relaxed) {
            true => Err(Fault::Leaving),
            false => done.map_err(|_| Fault::Io),
        },
        buffer,
        extents: Vec::new(),
    });
}

/// A small store with one tenant, as a daemon would have it.
pub(crate) fn backend() -> (Backend, TenantId) {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(16),
        limit: Bytes::mib(16),
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings::default(),
    })
    .expect("memory for a small store");
    let tenant = TenantSettings {
        name: "default".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    };
    let tenant = store.add_tenant(tenant).expect("the first tenant");
    let backend = Backend {
        store,
        clock: Clock::start(),
        ledger: Arc::new(Ledger::default()),
    };
    (backend, tenant)
}
