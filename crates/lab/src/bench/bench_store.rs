//! A separate store inside the bench, filled with items of one size.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sublet_store::{
    BlockOrder, CreatePoolError, ItemRefused, Lookup, NewCas, NewItem, ReadKind, Release,
    ReleaseOutcome, Store, StoreSettings, TenantError, TooManyWorkers, Worker,
};
use sublet_types::{
    Bytes, Expiry, ReleaseMode, Second, TenantId, TenantNameError, TenantSettings, Weight,
};

use super::keyspace::Keyspace;

/// Why the store of a bench failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchStoreError {
    /// Its memory could not be reserved.
    #[error("cannot reserve memory for a store: {0}")]
    Arena(#[from] io::Error),
    /// Its tenant could not be named.
    #[error(transparent)]
    Name(#[from] TenantNameError),
    /// Its tenant could not be added.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// Its pool could not be made.
    #[error(transparent)]
    Pool(#[from] CreatePoolError),
    /// It has no slot for a worker.
    #[error(transparent)]
    Worker(#[from] TooManyWorkers),
    /// It refused an item.
    #[error("the store did not take an item: {0}")]
    Refused(#[from] ItemRefused),
}

/// The length of a key.
const KEY_BYTES: usize = 30;

/// A second of the store's clock passes after this many requests.
const REQUESTS_A_SECOND: u64 = 20_000;

/// A store with one tenant, one worker, and the thread that asks the kernel for memory ahead of use.
pub(super) struct BenchStore {
    worker: Worker,
    tenant: TenantId,
    keyspace: Keyspace,
    requests: u64,
    populating: PopulateThread,
}

/// What reading a key found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyLookup {
    /// The key was there.
    Hit,
    /// It was not.
    Miss,
}

impl BenchStore {
    /// An empty store that may hold `limit`.
    pub(super) fn new(limit: Bytes, value_bytes: usize) -> Result<BenchStore, BenchStoreError> {
        let settings = StoreSettings {
            capacity: limit,
            limit,
            item_max: Bytes::mib(1),
            seed: 0x5eed,
            evicts: true,
            pages: sublet_store::PageSettings::default(),
        };
        let store = Store::new(settings)?;
        let tenant = store.add_tenant(TenantSettings {
            name: "bench".parse()?,
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        })?;
        Ok(BenchStore {
            worker: store.worker()?,
            tenant,
            keyspace: Keyspace::new(KEY_BYTES, value_bytes),
            requests: 0,
            populating: PopulateThread::start(store),
        })
    }

    /// How many keys make up `amount` of keys and values.
    pub(super) fn keys_in(&self, amount: Bytes) -> u32 {
        (amount.0 / self.keyspace.item_bytes() as u64) as u32
    }

    /// The store.
    pub(super) fn store(&self) -> &Arc<Store> {
        self.worker.store()
    }

    /// Memory that the store holds now.
    pub(super) fn held(&self) -> Bytes {
        self.worker.store().figures().held
    }

    /// Stores a key.
    pub(super) fn set(&mut self, key: u32) -> Result<(), BenchStoreError> {
        let now = self.tick();
        let (name, value) = (self.name(key), self.keyspace.value(key));
        let new = NewItem {
            flags: 0,
            expiry: Expiry::Never,
            marks: Default::default(),
            cas: NewCas::Fresh,
            value: &[value],
        };
        self.worker
            .update(self.tenant, &name, now, |entry| entry.store(&new))?;
        Ok(())
    }

    /// Reads a key.
    pub(super) fn get(&mut self, key: u32) -> KeyLookup {
        let now = self.tick();
        let name = self.name(key);
        let read = self
            .worker
            .read(self.tenant, &name, now, ReadKind::Use, |item| {
                std::hint::black_box(item.value().len());
            });
        match read {
            Lookup::Hit(()) => KeyLookup::Hit,
            _ => KeyLookup::Miss,
        }
    }

    /// Releases `amount`.
    pub(super) fn release(&self, amount: Bytes, mode: ReleaseMode) -> ReleaseOutcome {
        let release = Release {
            amount,
            mode,
            tenant: None,
        };
        self.worker.release(release, self.now())
    }

    /// Releases `amount` in whole blocks, in the given order.
    pub(super) fn release_by(&self, order: BlockOrder, amount: Bytes) -> ReleaseOutcome {
        self.worker.release_by(order, amount, self.now())
    }

    fn name(&self, key: u32) -> Vec<u8> {
        let mut name = Vec::with_capacity(KEY_BYTES);
        self.keyspace.put_key(key, &mut name);
        name
    }

    fn now(&self) -> Second {
        Second(2 + (self.requests / REQUESTS_A_SECOND) as u32)
    }

    /// Advances the clock by one request. The chores run every second.
    fn tick(&mut self) -> Second {
        self.requests += 1;
        let now = self.now();
        if self.requests.is_multiple_of(REQUESTS_A_SECOND) {
            self.worker.upkeep(now);
        }
        now
    }

    /// Stops asking the kernel for memory, so that a release can be timed.
    pub(super) fn pause_populating(&self) {
        self.populating.pause();
    }

    /// Asks the kernel for memory again.
    pub(super) fn resume_populating(&self) {
        self.populating.resume();
    }
}

/// The thread that populates blocks ahead of use, as the daemon's does.
struct PopulateThread {
    paused: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PopulateThread {
    fn start(store: Arc<Store>) -> PopulateThread {
        let paused = Arc::new(AtomicBool::new(false));
        let ended = Arc::new(AtomicBool::new(false));
        let (is_paused, is_ended) = (Arc::clone(&paused), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            while !is_ended.load(Ordering::Relaxed) {
                if is_paused.load(Ordering::Relaxed) || !store.populate() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        PopulateThread {
            paused,
            ended,
            thread: Some(thread),
        }
    }

    fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }
}

impl Drop for PopulateThread {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has reported itself.
            let _ = thread.join();
        }
    }
}
