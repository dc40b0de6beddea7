//! A disk whose bytes are in a file, for tests and examples. It answers some reads at once. A thread answers the rest,
//! later and in any order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use sublet_frontends::backend::Backend;
use sublet_frontends::block_device::{
    Disk, DiskFastPath, DiskFault, DiskOperation, DiskOutcome, DiskRequest, DiskShape, Fua, Zeroing,
};
use sublet_frontends::tenancy::{Clock, Ledger, StoreHandle};
use sublet_store::{PageSettings, Store, StoreSettings};
use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

/// How the disk behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskBehavior {
    /// The disk answers reads at once if they begin in the first `hits` of every 8 pages.
    pub(crate) hits: u64,
    /// Whether the disk takes writes at once, unless they have FUA.
    pub(crate) takes_writes: bool,
    /// How long each request waits at most. Requests overtake each other.
    pub(crate) delay_max: Duration,
}

/// What the disk was asked for, and how it behaves from now on.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    /// Writes and zeroings with FUA.
    pub(crate) fua: AtomicU64,
    /// Flushes.
    pub(crate) flushes: AtomicU64,
    /// Trims.
    pub(crate) trims: AtomicU64,
    /// Whether the disk gives every request back undone.
    pub(crate) is_leaving: AtomicBool,
    /// Whether the disk keeps requests that it has carried out.
    pub(crate) is_held: AtomicBool,
}

impl RequestCounts {
    fn count_fua(&self, fua: Fua) {
        if fua == Fua::On {
            self.fua.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The disk.
pub(crate) struct MemoryDisk {
    name: String,
    tenant: TenantId,
    shape: DiskShape,
    behavior: DiskBehavior,
    bytes: Arc<File>,
    requests: Sender<DiskRequest>,
    /// The counts of requests.
    pub(crate) counts: Arc<RequestCounts>,
}

impl MemoryDisk {
    /// A disk over a file, which is as long as the shape says. The disk's thread ends with it.
    pub(crate) fn new(
        name: &str,
        tenant: TenantId,
        shape: DiskShape,
        bytes: File,
        behavior: DiskBehavior,
    ) -> Arc<MemoryDisk> {
        let (requests, received) = mpsc::channel();
        let bytes = Arc::new(bytes);
        let counts = Arc::<RequestCounts>::default();
        let (file, counted) = (Arc::clone(&bytes), Arc::clone(&counts));
        thread::spawn(move || carry_out_all(&file, &received, &counted, behavior.delay_max));
        Arc::new(MemoryDisk {
            name: name.to_owned(),
            tenant,
            shape,
            behavior,
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

    fn shape(&self) -> DiskShape {
        self.shape
    }

    fn fast_path(self: Arc<Self>, _: &StoreHandle) -> Box<dyn DiskFastPath> {
        Box::new(MemoryFastPath(self))
    }

    fn submit(&self, request: DiskRequest) {
        let _ = self.requests.send(request);
    }
}

struct MemoryFastPath(Arc<MemoryDisk>);

impl DiskFastPath for MemoryFastPath {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        (at / 4096) % 8 < self.0.behavior.hits && self.0.bytes.read_exact_at(into, at).is_ok()
    }

    fn write(&self, at: u64, from: &[u8], fua: Fua) -> bool {
        let takes = self.0.behavior.takes_writes && fua == Fua::Off;
        takes && self.0.bytes.write_all_at(from, at).is_ok()
    }

    fn trim(&self, _: u64, _: u64) -> bool {
        false
    }

    fn flush(&self) -> bool {
        false
    }
}

/// The thread's loop. It takes any of the waiting requests next.
fn carry_out_all(
    bytes: &File,
    received: &Receiver<DiskRequest>,
    counts: &RequestCounts,
    delay_max: Duration,
) {
    let mut waiting: Vec<DiskRequest> = Vec::new();
    let mut random = 0x9e37_79b9_u64;
    loop {
        if waiting.is_empty() {
            match received.recv() {
                Ok(request) => waiting.push(request),
                Err(_) => return,
            }
        }
        waiting.extend(received.try_iter());
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = match delay_max.is_zero() {
            true => 0,
            false => (random >> 33) as usize % waiting.len(),
        };
        if !delay_max.is_zero() {
            thread::sleep(delay_max.mul_f64((random >> 40) as f64 / f64::from(1 << 24)));
        }
        let request = waiting.remove(place);
        carry_out(bytes, request, counts);
    }
}

fn carry_out(bytes: &File, request: DiskRequest, counts: &RequestCounts) {
    let DiskRequest {
        operation,
        at,
        len,
        mut buffer,
        outcomes,
        token,
    } = request;
    let done = match operation {
        DiskOperation::Read => bytes.read_exact_at(&mut buffer, at),
        DiskOperation::Write { fua } => {
            counts.count_fua(fua);
            bytes.write_all_at(&buffer, at)
        }
        DiskOperation::Zero(Zeroing { fua, .. }) => {
            counts.count_fua(fua);
            bytes.write_all_at(&vec![0; len as usize], at)
        }
        DiskOperation::Trim => {
            counts.trims.fetch_add(1, Ordering::Relaxed);
            bytes.write_all_at(&vec![0; len as usize], at)
        }
        DiskOperation::Flush => {
            counts.flushes.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        DiskOperation::Prefetch | DiskOperation::Extents { .. } => Ok(()),
    };
    while counts.is_held.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    outcomes.deliver(DiskOutcome {
        token,
        result: match counts.is_leaving.load(Ordering::Relaxed) {
            true => Err(DiskFault::Leaving),
            false => done.map_err(|_| DiskFault::Io),
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
