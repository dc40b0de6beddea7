//! What a store and its instances need done in the background: memory asked of the kernel ahead of use,
//! and the chores of a second.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sublet_frontends::backend::Backend;
use sublet_frontends::memcached::instance::Instance;
use sublet_frontends::tenancy::{Doorman, Tenancy};
use sublet_store::{Store, TooManyWorkers, Whom};
use sublet_types::TenantId;

use crate::ending::Ending;
use crate::heap::Heap;
use crate::observe::log;

/// Pause after a block was populated and no more was needed: a client that stores as fast as it can
/// uses up what is populated ahead in some 20 ms.
const POPULATE_PAUSE_MIN: Duration = Duration::from_millis(5);

/// Pause while nothing is stored: 20 looks a second cost nothing that could be measured.
const POPULATE_PAUSE_MAX: Duration = Duration::from_millis(50);

const SECOND: Duration = Duration::from_secs(1);

/// How long the store's chores go on at a stretch, and rest before the next while more is to do: half
/// of one processor at most.
const STRETCH: Duration = Duration::from_millis(50);

/// How soon pages are evicted ahead again while puts take the frames: with all shards of a large tenant some 100,000 a second.
const AHEAD_PAUSE: Duration = Duration::from_millis(20);

/// Why the chores could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ChoresError {
    /// The kernel refused a thread.
    #[error("cannot start a thread for the chores: {0}")]
    Thread(#[from] io::Error),
    /// More workers than the store takes.
    #[error(transparent)]
    TooManyWorkers(#[from] TooManyWorkers),
}

/// Threads that do the chores, until dropped.
pub struct Chores {
    end: Arc<Ending>,
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

    /// The same, and one more chore of a second.
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
        // Tried here, because the thread below has nobody to tell.
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
fn populate(store: &Store, end: &Ending) {
    let mut pause = POPULATE_PAUSE_MIN;
    while !end.came_within(pause) {
        pause = (pause * 2).min(POPULATE_PAUSE_MAX);
        while store.populate() && !end.came() {
            pause = POPULATE_PAUSE_MIN;
        }
    }
}

fn every_second(
    backend: &Backend,
    instances: Vec<(Arc<Instance>, TenantId)>,
    mut chore: impl FnMut(),
    end: &Ending,
) {
    let Ok(doorman) = Doorman::new(&backend.store, backend.clock, &backend.ledger) else {
        tracing::error!("no place for the worker that does the chores of a second");
        return;
    };
    let open = |(instance, tenant)| (instance, doorman.open(tenant));
    let instances: Vec<(Arc<Instance>, Tenancy)> = instances.into_iter().map(open).collect();
    let (mut pause, mut heap) = (SECOND, Heap::default());
    let mut due = Instant::now() + SECOND;
    while !end.came_within(pause) {
        let mut whom = Whom::Putting;
        if Instant::now() >= due {
            whom = Whom::All;
            log::tell_left_out();
            chore();
            heap.tidy(backend.store.held());
            let rest = match upkeep(&doorman, end) {
                Backlog::None => SECOND,
                Backlog::Some => STRETCH,
            };
            for (instance, tenancy) in &instances {
                instance.tick(tenancy);
            }
            due = Instant::now() + rest;
        }
        let puts = doorman.evict_ahead(whom);
        pause = due.saturating_duration_since(Instant::now());
        if puts {
            pause = pause.min(AHEAD_PAUSE);
        }
    }
    chore();
    log::tell_all_left_out();
}

/// Whether chores are left to do.
enum Backlog {
    None,
    Some,
}

/// Does the store's chores until none are left, for a stretch at most.
fn upkeep(doorman: &Doorman, end: &Ending) -> Backlog {
    let began = Instant::now();
    while doorman.upkeep() {
        if began.elapsed() >= STRETCH || end.came() {
            return Backlog::Some;
        }
        thread::yield_now();
    }
    Backlog::None
}
