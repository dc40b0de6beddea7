//! Background work of a store and its instances: memory asked of the kernel ahead of use, and the chores of each
//! second.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sublet_frontends::backend::Backend;
use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::tenancy::{StoreHandle, Tenancy};
use sublet_store::{EvictAheadScope, Store, TooManyWorkers};
use sublet_types::TenantId;

use crate::heap::HeapTrimmer;
use crate::observe::log;
use crate::shutdown_signal::ShutdownSignal;

/// The pause after a block was populated if no more was needed. A client that stores as fast as it can uses up what is
/// populated ahead in some 20 ms.
const POPULATE_PAUSE_MIN: Duration = Duration::from_millis(5);

/// The pause while nothing is stored. 20 checks per second have no measurable cost.
const POPULATE_PAUSE_MAX: Duration = Duration::from_millis(50);

const SECOND: Duration = Duration::from_secs(1);

/// How long the store's chores go on at a stretch, and rest before the next stretch if more is to do. That is half of
/// one processor at most.
const STRETCH: Duration = Duration::from_millis(50);

/// How soon pages are evicted ahead again while puts take the frames. With all shards of a large tenant that is some
/// 100,000 pages per second.
const AHEAD_PAUSE: Duration = Duration::from_millis(20);

/// Why the chores could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ChoresError {
    /// The kernel refused a thread.
    #[error("cannot start a thread for the chores: {0}")]
    Thread(#[from] io::Error),
    /// The store takes no more workers.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

/// The threads that do the chores. They end when this is dropped.
pub struct Chores {
    end: Arc<ShutdownSignal>,
    threads: Vec<JoinHandle<()>>,
}

impl Chores {
    /// Starts the chores of a store and of the instances in front of it.
    pub fn start(
        backend: &Backend,
        instances: Vec<(Arc<Instance>, TenantId)>,
    ) -> Result<Chores, ChoresError> {
        Chores::start_with(backend, instances, || {})
    }

    /// The same, with one more chore per second.
    pub(crate) fn start_with(
        backend: &Backend,
        instances: Vec<(Arc<Instance>, TenantId)>,
        chore: impl FnMut() + Send + 'static,
    ) -> Result<Chores, ChoresError> {
        let mut chores = Chores {
            end: Arc::default(),
            threads: Vec::new(),
        };
        let (store, end) = (Arc::clone(&backend.store), Arc::clone(&chores.end));
        chores.spawn("populate", move || populate(&store, &end))?;
        // Tried here, because the thread below has nobody to report to.
        drop(backend.store.worker()?);
        let (backend, end) = (backend.clone(), Arc::clone(&chores.end));
        chores.spawn("second", move || {
            every_second(&backend, instances, chore, &end)
        })?;
        Ok(chores)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        self.end.declare();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Keeps memory populated ahead of use, so that no set waits for the kernel to zero a block.
fn populate(store: &Store, end: &ShutdownSignal) {
    let mut pause = POPULATE_PAUSE_MIN;
    while !end.wait_for(pause) {
        pause = (pause * 2).min(POPULATE_PAUSE_MAX);
        while store.populate() && !end.is_declared() {
            pause = POPULATE_PAUSE_MIN;
        }
    }
}

fn every_second(
    backend: &Backend,
    instances: Vec<(Arc<Instance>, TenantId)>,
    mut chore: impl FnMut(),
    end: &ShutdownSignal,
) {
    let store_handle = match StoreHandle::new(&backend.store, backend.clock, &backend.ledger) {
        Ok(store_handle) => store_handle,
        Err(error) => {
            tracing::error!(%error, "the store has no worker for the chores of each second; nothing is evicted ahead any more: restart the daemon with fewer `threads` or disks");
            return;
        }
    };
    let open = |(instance, tenant)| (instance, store_handle.open(tenant));
    let instances: Vec<(Arc<Instance>, Tenancy)> = instances.into_iter().map(open).collect();
    let (mut pause, mut heap) = (SECOND, HeapTrimmer::default());
    let mut due = Instant::now() + SECOND;
    while !end.wait_for(pause) {
        let mut whom = EvictAheadScope::Putting;
        if Instant::now() >= due {
            whom = EvictAheadScope::All;
            log::report_suppressed();
            chore();
            heap.trim(backend.store.held());
            let rest = match upkeep(&store_handle, end) {
                Backlog::None => SECOND,
                Backlog::Some => STRETCH,
            };
            for (instance, tenancy) in &instances {
                instance.tick(tenancy);
            }
            due = Instant::now() + rest;
        }
        let puts = store_handle.evict_ahead(whom);
        pause = due.saturating_duration_since(Instant::now());
        if puts {
            pause = pause.min(AHEAD_PAUSE);
        }
    }
    chore();
    log::report_all_suppressed();
}

/// Whether chores are left to do.
enum Backlog {
    None,
    Some,
}

/// Does the store's chores until none are left, for at most a stretch.
fn upkeep(store_handle: &StoreHandle, end: &ShutdownSignal) -> Backlog {
    let began = Instant::now();
    while store_handle.upkeep() {
        if began.elapsed() >= STRETCH || end.is_declared() {
            return Backlog::Some;
        }
        thread::yield_now();
    }
    Backlog::None
}
