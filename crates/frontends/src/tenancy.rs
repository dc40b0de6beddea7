//! The handle by which a frontend acts for one tenant: time and counting happen here and nowhere else.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use sublet_store::{Pin, Store, TooManyWorkers, Whom, Worker};
use sublet_types::{Nanos, Second, TenantId};

/// The daemon's clock: seconds since the store was made, and what the wall said then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    unix_start: Duration,
}

/// Seconds count from 2, so that "a second ago" exists at the start.
const FIRST_SECOND: u32 = 2;

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
            unix_start: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// This second.
    pub fn now(&self) -> Second {
        Second(FIRST_SECOND + self.start.elapsed().as_secs() as u32)
    }

    /// This moment.
    pub fn moment(&self) -> Nanos {
        Nanos(nanos(self.start.elapsed()))
    }

    /// The moment at which a second of Unix time begins; `None` where that was before the start.
    pub(crate) fn moment_of_unix(&self, unix: u64) -> Option<Nanos> {
        let since = Duration::from_secs(unix).checked_sub(self.unix_start)?;
        Some(Nanos(nanos(since)))
    }

    /// Whole seconds since the start.
    pub fn uptime_secs(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    /// Unix time of a second, in seconds.
    pub fn unix(&self, second: Second) -> u64 {
        (self.unix_start.as_secs() + u64::from(second.0)).saturating_sub(u64::from(FIRST_SECOND))
    }

    /// The second of a Unix time; `None` where that was before the start.
    pub fn second(&self, unix: u64) -> Option<Second> {
        let since = (unix + u64::from(FIRST_SECOND)).checked_sub(self.unix_start.as_secs())?;
        Some(Second(since.min(u64::from(u32::MAX)) as u32))
    }
}

/// Nanoseconds; the most that there are for what is centuries away.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What one thread counted for one tenant since the start; or the sum of all threads'.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        impl Counters {
            /// Adds what `other` counted.
            pub fn add(&self, other: &Counters) {
                $(self.$name.add(other.$name.get());)*
            }

            /// Takes away what `other` counted.
            pub(crate) fn subtract(&self, other: &Counters) {
                $(self.$name.0.store(self.$name.get() - other.$name.get(), Ordering::Relaxed);)*
            }

            /// Every counter with its name.
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
    /// Reads that did not.
    get_misses,
    /// Misses because the time had run out.
    get_expired,
    /// Misses because of a flush.
    get_flushed,
    /// Deletes that found the item.
    delete_hits,
    /// Deletes that did not.
    delete_misses,
    /// Increments that found the item.
    incr_hits,
    /// Increments that did not.
    incr_misses,
    /// Decrements that found the item.
    decr_hits,
    /// Decrements that did not.
    decr_misses,
    /// cas stores that matched.
    cas_hits,
    /// cas stores of a missing item.
    cas_misses,
    /// cas stores whose unique was out of date.
    cas_badval,
    /// Touches that found the item.
    touch_hits,
    /// Touches that did not.
    touch_misses,
    /// Stores refused because the item was too large.
    store_too_large,
    /// Stores refused for want of memory.
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
    /// Turns given up after too many requests in a row.
    conn_yields,
    /// Searches for expired items that were asked for.
    lru_crawler_starts,
    /// Expired and flushed items that these removed.
    crawler_reclaimed,
}

/// A counter that one thread moves and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more. Only the owning thread counts, so load and store suffice.
    pub fn bump(&self) {
        self.add(1);
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// What was counted.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Every thread's counters, by tenant: what `stats`, the metrics and `status` read.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    /// What each tenant's open tenancies count, one a thread.
    open: HashMap<TenantId, Vec<Arc<Counters>>>,
    /// What tenancies counted that have ended.
    past: HashMap<TenantId, Counters>,
    zeros: HashMap<TenantId, Counters>,
}

impl Ledger {
    fn open(&self, tenant: TenantId) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut pages = self.0.lock();
        pages
            .open
            .entry(tenant)
            .or_default()
            .push(Arc::clone(&counters));
        counters
    }

    /// Keeps what was counted, and lets the page itself go: disks come and go, each with tenancies of its own.
    fn close(&self, tenant: TenantId, counters: &Arc<Counters>) {
        let mut pages = self.0.lock();
        // A tenant that was forgotten meanwhile is nobody's past.
        let Some(open) = pages.open.get_mut(&tenant) else {
            return;
        };
        if let Some(place) = open.iter().position(|open| Arc::ptr_eq(open, counters)) {
            open.swap_remove(place);
            pages.past.entry(tenant).or_default().add(counters);
        }
    }

    /// A tenant is no more: who has its number next counts from the start.
    pub fn forget(&self, tenant: TenantId) {
        let mut pages = self.0.lock();
        pages.open.remove(&tenant);
        pages.past.remove(&tenant);
        pages.zeros.remove(&tenant);
    }

    /// The sum of all threads' counters for a tenant, since the start.
    pub fn total(&self, tenant: TenantId) -> Counters {
        self.0.lock().total(tenant)
    }

    /// The same since the tenant's last [`reset`](Ledger::reset).
    pub(crate) fn since_reset(&self, tenant: TenantId) -> Counters {
        let pages = self.0.lock();
        let counters = pages.total(tenant);
        if let Some(zero) = pages.zeros.get(&tenant) {
            counters.subtract(zero);
        }
        counters
    }

    /// Counts anew for a tenant (`stats reset`). What threads counted stays: only they may write it.
    pub fn reset(&self, tenant: TenantId) {
        let mut pages = self.0.lock();
        let zero = pages.total(tenant);
        pages.zeros.insert(tenant, zero);
    }
}

impl Pages {
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

/// One thread's handle on the store, from which it opens a tenancy for each tenant it serves.
pub struct Doorman {
    worker: Rc<Worker>,
    clock: Clock,
    ledger: Arc<Ledger>,
}

impl Doorman {
    /// A doorman for this thread.
    pub fn new(
        store: &Arc<Store>,
        clock: Clock,
        ledger: &Arc<Ledger>,
    ) -> Result<Doorman, TooManyWorkers> {
        Ok(Doorman {
            worker: Rc::new(store.worker()?),
            clock,
            ledger: Arc::clone(ledger),
        })
    }

    /// The store's chores of a second; says whether there is more to do at once, see [`Worker::upkeep`].
    pub fn upkeep(&self) -> bool {
        self.worker.upkeep(self.clock.now())
    }

    /// Evicts a few pages ahead of puts; says whether it is worth to come again soon, see [`Worker::evict_ahead`].
    pub fn evict_ahead(&self, whom: Whom) -> bool {
        self.worker.evict_ahead(whom, self.clock.now())
    }

    /// A tenancy for `tenant`. Open one a thread and tenant, and keep it.
    pub fn open(&self, tenant: TenantId) -> Tenancy {
        Tenancy {
            worker: Rc::clone(&self.worker),
            clock: self.clock,
            counters: self.ledger.open(tenant),
            ledger: Arc::clone(&self.ledger),
            tenant,
            second: Cell::new(None),
        }
    }
}

/// The handle by which a frontend acts for one tenant, on one thread.
pub struct Tenancy {
    worker: Rc<Worker>,
    clock: Clock,
    counters: Arc<Counters>,
    ledger: Arc<Ledger>,
    tenant: TenantId,
    /// This second, while a batch runs: reading the clock costs as much as a lookup.
    second: Cell<Option<Second>>,
}

/// All blocks held still and the time standing, for as long as it lives.
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
    /// Whom it acts for.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The daemon's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// This thread's counters for this tenant.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All threads' counters.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// All blocks are held still and the time stands for as long as the batch lives: its requests pay for the pin and the
    /// clock once. Nothing may be waited for meanwhile.
    #[inline]
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            outer: self.second.replace(Some(self.clock.now())),
            _pin: self.worker.pin(),
            tenancy: self,
        }
    }

    /// This second; within a [`batch`](Tenancy::batch) the one in which it began.
    pub fn now(&self) -> Second {
        self.second.get().unwrap_or_else(|| self.clock.now())
    }

    /// What each verb of the store asks for: this thread's worker, who acts, and when.
    #[inline]
    pub fn acting(&self) -> (&Worker, TenantId, Second) {
        (&self.worker, self.tenant, self.now())
    }

    /// Flushes, if that was put off until now. Ask before each request: what is stored before its moment has to go, and what
    /// is stored after has to stay. The clock is read only while a flush is put off.
    #[inline]
    pub fn flush_if_due(&self) {
        if self.worker.awaits_flush(self.tenant) {
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
