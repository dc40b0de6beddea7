//! The handle by which a frontend acts for one tenant. Frontends read the time and count only through it.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use sublet_store::{EvictAheadScope, Pin, Store, TooManyWorkers, Worker};
use sublet_types::{Nanos, Second, TenantId};

use crate::clock::MonotonicClock;
use crate::far_pages::{FarGets, FetchFarPages};

/// The daemon's clock. It counts seconds since the store was made, and knows the Unix time of that moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    monotonic: MonotonicClock,
    start: Instant,
    unix_start: Duration,
}

/// Seconds count from 2, so that "a second ago" exists at the start.
const FIRST_SECOND: u32 = 2;

impl Clock {
    /// Makes a clock that starts now and goes by the kernel's.
    pub fn start() -> Clock {
        Clock::by(MonotonicClock::default())
    }

    /// Makes a clock that starts now and goes by another.
    pub fn by(monotonic: MonotonicClock) -> Clock {
        Clock {
            monotonic,
            start: monotonic.now(),
            unix_start: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// Returns the clock that it goes by. Deadlines of connections go by it, too.
    pub fn monotonic(&self) -> MonotonicClock {
        self.monotonic
    }

    fn elapsed(&self) -> Duration {
        self.monotonic.now().saturating_duration_since(self.start)
    }

    /// Returns the current second.
    pub fn now(&self) -> Second {
        Second(FIRST_SECOND + self.elapsed().as_secs() as u32)
    }

    /// Returns the current moment.
    pub fn moment(&self) -> Nanos {
        Nanos(nanos(self.elapsed()))
    }

    /// Returns the moment at which a second of Unix time begins; `None` if that was before the start.
    pub(crate) fn moment_of_unix(&self, unix: u64) -> Option<Nanos> {
        let since = Duration::from_secs(unix).checked_sub(self.unix_start)?;
        Some(Nanos(nanos(since)))
    }

    /// Returns the whole seconds since the start.
    pub fn uptime_secs(&self) -> u64 {
        self.elapsed().as_secs()
    }

    /// Returns the Unix time of a second, in seconds.
    pub fn unix(&self, second: Second) -> u64 {
        (self.unix_start.as_secs() + u64::from(second.0)).saturating_sub(u64::from(FIRST_SECOND))
    }

    /// Returns the second of a Unix time; `None` if that was before the start.
    pub fn second(&self, unix: u64) -> Option<Second> {
        let since = (unix + u64::from(FIRST_SECOND)).checked_sub(self.unix_start.as_secs())?;
        Some(Second(since.min(u64::from(u32::MAX)) as u32))
    }
}

/// Returns a duration in nanoseconds. A duration that does not fit, which takes centuries, becomes `u64::MAX`.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What one thread counted for one tenant since the start, or the sum over all threads.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Adds what `other` counted.
            pub fn add(&self, other: &Counters) {
                $(self.$name.add(other.$name.get());)*
            }

            /// Subtracts what `other` counted.
            pub(crate) fn subtract(&self, other: &Counters) {
                $(self.$name.0.store(self.$name.get() - other.$name.get(), Ordering::Relaxed);)*
            }

            /// Returns every counter with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)*]
            }
        }
    };
}

counters! {
    /// Keys asked for by get, gets, gat, mg and their binary forms.
    cmd_get,
    /// Stores tried: set, add, replace, append, prepend, cas, ms.
    cmd_set,
    /// flush_all.
    cmd_flush,
    /// touch and gat.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Reads that found the item.
    get_hits,
    /// Reads that did not find the item.
    get_misses,
    /// Reads that missed because the item had expired.
    get_expired,
    /// Reads that missed because of a flush.
    get_flushed,
    /// Deletes that found the item.
    delete_hits,
    /// Deletes that did not find the item.
    delete_misses,
    /// Increments that found the item.
    incr_hits,
    /// Increments that did not find the item.
    incr_misses,
    /// Decrements that found the item.
    decr_hits,
    /// Decrements that did not find the item.
    decr_misses,
    /// cas stores that matched.
    cas_hits,
    /// cas stores of a missing item.
    cas_misses,
    /// cas stores whose unique was out of date.
    cas_badval,
    /// Touches that found the item.
    touch_hits,
    /// Touches that did not find the item.
    touch_misses,
    /// Stores refused because the item was too large.
    store_too_large,
    /// Stores refused because no memory was left.
    store_no_memory,
    /// Authentications tried.
    auth_cmds,
    /// Authentications refused.
    auth_errors,
    /// Items that were stored.
    total_items,
    /// Bytes that came from clients.
    bytes_read,
    /// Bytes that went to clients.
    bytes_written,
    /// Turns that ended because the connection had run too many requests in a row.
    conn_yields,
    /// Searches for expired items that clients started.
    lru_crawler_starts,
    /// Expired and flushed items that these searches removed.
    crawler_reclaimed,
}

/// A counter that one thread changes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Only the owning thread counts, so a load and a store suffice.
    pub fn bump(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of all threads, by tenant. `stats`, the metrics and `status` read them.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<CountersByTenant>);

#[derive(Debug, Default)]
struct CountersByTenant {
    /// The counters of each tenant's open tenancies, one per thread.
    open: HashMap<TenantId, Vec<Arc<Counters>>>,
    /// The sums over the tenancies that have ended.
    past: HashMap<TenantId, Counters>,
    baselines: HashMap<TenantId, Counters>,
}

impl Ledger {
    fn open(&self, tenant: TenantId) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut counters_by_tenant = self.0.lock();
        counters_by_tenant
            .open
            .entry(tenant)
            .or_default()
            .push(Arc::clone(&counters));
        counters
    }

    /// Adds a tenancy's counters to the sums of the past and drops them. Disks come and go, each with tenancies of its
    /// own, so their counters must not pile up.
    fn close(&self, tenant: TenantId, counters: &Arc<Counters>) {
        let mut counters_by_tenant = self.0.lock();
        // The ledger keeps no past of a tenant that was forgotten in the meantime.
        let Some(open) = counters_by_tenant.open.get_mut(&tenant) else {
            return;
        };
        if let Some(index) = open.iter().position(|open| Arc::ptr_eq(open, counters)) {
            open.swap_remove(index);
            counters_by_tenant
                .past
                .entry(tenant)
                .or_default()
                .add(counters);
        }
    }

    /// Forgets a tenant that was removed. The next tenant with its number counts from zero.
    pub fn forget(&self, tenant: TenantId) {
        let mut counters_by_tenant = self.0.lock();
        counters_by_tenant.open.remove(&tenant);
        counters_by_tenant.past.remove(&tenant);
        counters_by_tenant.baselines.remove(&tenant);
    }

    /// Returns the sum of all threads' counters for a tenant since the start.
    pub fn total(&self, tenant: TenantId) -> Counters {
        self.0.lock().total(tenant)
    }

    /// Returns the same sum since the tenant's last [`reset`](Ledger::reset).
    pub(crate) fn since_reset(&self, tenant: TenantId) -> Counters {
        let counters_by_tenant = self.0.lock();
        let counters = counters_by_tenant.total(tenant);
        if let Some(baseline) = counters_by_tenant.baselines.get(&tenant) {
            counters.subtract(baseline);
        }
        counters
    }

    /// Resets the counts of a tenant (`stats reset`). The threads' counters stay as they are, because only their
    /// threads may write them.
    pub fn reset(&self, tenant: TenantId) {
        let mut counters_by_tenant = self.0.lock();
        let baseline = counters_by_tenant.total(tenant);
        counters_by_tenant.baselines.insert(tenant, baseline);
    }
}

impl CountersByTenant {
    fn total(&self, tenant: TenantId) -> Counters {
        let total = Counters::default();
        if let Some(past) = self.past.get(&tenant) {
            total.add(past);
        }
        for counters in self.open.get(&tenant).into_iter().flatten() {
            total.add(counters);
        }
        total
    }
}

/// One thread's handle on the store. The thread opens from it a tenancy for each tenant that it serves.
pub struct StoreHandle {
    worker: Rc<Worker>,
    clock: Clock,
    ledger: Arc<Ledger>,
    far: Option<Rc<RefCell<FarGets>>>,
}

impl StoreHandle {
    /// Makes the handle of this thread.
    pub fn new(
        store: &Arc<Store>,
        clock: Clock,
        ledger: &Arc<Ledger>,
    ) -> Result<StoreHandle, TooManyWorkers> {
        Ok(StoreHandle {
            worker: Rc::new(store.worker()?),
            clock,
            ledger: Arc::clone(ledger),
            far: None,
        })
    }

    /// The same handle. Gets of pages that lenders have wait for them.
    pub fn with_far_pages(self, source: Box<dyn FetchFarPages>) -> StoreHandle {
        StoreHandle {
            far: Some(Rc::new(RefCell::new(FarGets::new(source)))),
            ..self
        }
    }

    /// Does the store's chores of one second. Returns whether there is more to do at once; see [`Worker::upkeep`].
    pub fn upkeep(&self) -> bool {
        self.worker.upkeep(self.clock.now())
    }

    /// Evicts a few pages ahead of puts. Returns whether another call soon is worthwhile; see [`Worker::evict_ahead`].
    pub fn evict_ahead(&self, whom: EvictAheadScope) -> bool {
        self.worker.evict_ahead(whom, self.clock.now())
    }

    /// Opens a tenancy for `tenant`. Open one per thread and tenant, and keep it.
    pub fn open(&self, tenant: TenantId) -> Tenancy {
        Tenancy {
            worker: Rc::clone(&self.worker),
            clock: self.clock,
            counters: self.ledger.open(tenant),
            ledger: Arc::clone(&self.ledger),
            far: self.far.clone(),
            tenant,
            second: Cell::new(None),
        }
    }
}

/// The handle by which a frontend acts for one tenant on one thread.
pub struct Tenancy {
    worker: Rc<Worker>,
    clock: Clock,
    counters: Arc<Counters>,
    ledger: Arc<Ledger>,
    far: Option<Rc<RefCell<FarGets>>>,
    tenant: TenantId,
    /// The current second while a batch runs, because reading the clock costs as much as a lookup.
    second: Cell<Option<Second>>,
}

/// A batch of requests. The store moves no block, and the time stands still, for as long as the batch lives.
pub struct Batch<'a> {
    tenancy: &'a Tenancy,
    _pin: Pin<'a>,
    /// The second of the batch around this one.
    outer: Option<Second>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.tenancy.second.set(self.outer);
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        self.ledger.close(self.tenant, &self.counters);
    }
}

impl Tenancy {
    /// Returns the tenant for which this acts.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The thread's gets that wait for lenders. `None` if gets of this thread do not wait for any.
    pub(crate) fn far_gets(&self) -> Option<RefMut<'_, FarGets>> {
        self.far.as_ref().map(|far| far.borrow_mut())
    }

    /// Returns the daemon's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns this thread's counters for this tenant.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the counters of all threads.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Begins a batch. The store moves no block, and the time stands still, for as long as the batch lives. So its
    /// requests pay for the pin and for the clock once. The thread must not wait for anything in the meantime.
    #[inline]
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            outer: self.second.replace(Some(self.clock.now())),
            _pin: self.worker.pin(),
            tenancy: self,
        }
    }

    /// Returns the current second. Within a [`batch`](Tenancy::batch) it is the second in which the batch began.
    pub fn now(&self) -> Second {
        self.second.get().unwrap_or_else(|| self.clock.now())
    }

    /// Returns what each operation of the store needs: this thread's worker, the tenant, and the current second.
    #[inline]
    pub fn worker_tenant_now(&self) -> (&Worker, TenantId, Second) {
        (&self.worker, self.tenant, self.now())
    }

    /// Flushes the tenant if a deferred flush is due. Call it before each request, so that the flush removes what was
    /// stored before its moment and nothing stored later. It reads the clock only while a flush is deferred.
    #[inline]
    pub fn flush_if_due(&self) {
        if self.worker.has_deferred_flush(self.tenant) {
            let moment = self.clock.moment();
            self.worker.flush_if_due(self.tenant, moment, self.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_tenancies_counted_stays_and_they_do_not() {
        let ledger = Ledger::default();
        let (tenant, other) = (TenantId(1), TenantId(2));
        let stays = ledger.open(tenant);
        stays.cmd_get.bump();
        for _ in 0..1000 {
            for whose in [tenant, other] {
                let counters = ledger.open(whose);
                counters.cmd_get.bump();
                ledger.close(whose, &counters);
            }
        }
        let open = |whose| ledger.0.lock().open.get(&whose).map_or(0, Vec::len);
        assert_eq!((open(tenant), open(other)), (1, 0));
        assert_eq!(ledger.total(tenant).cmd_get.get(), 1001);
        assert_eq!(ledger.total(other).cmd_get.get(), 1000);
        ledger.reset(other);
        assert_eq!(ledger.since_reset(other).cmd_get.get(), 0);
    }

    #[test]
    fn who_has_a_number_after_another_counts_from_the_start() {
        let ledger = Ledger::default();
        let (gone, stays) = (TenantId(1), TenantId(2));
        let [late, early, others] = [gone, gone, stays].map(|whose| ledger.open(whose));
        for counters in [&late, &early, &others] {
            counters.cmd_get.bump();
        }
        ledger.close(gone, &early);
        ledger.reset(gone);
        ledger.forget(gone);
        late.cmd_get.bump();
        ledger.close(gone, &late);
        assert_eq!(ledger.total(gone).cmd_get.get(), 0);
        assert_eq!(ledger.since_reset(gone).cmd_get.get(), 0);
        assert_eq!(ledger.total(stays).cmd_get.get(), 1);
    }
}
