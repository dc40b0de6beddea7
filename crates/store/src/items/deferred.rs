//! A flush that was put off: at its moment it takes everything that was stored before, and nothing that is stored after.
//!
//! Nobody waits for the moment. Whoever acts for the tenant looks at the clock before each request, while a flush is put off,
//! and the first that finds the moment past flushes before it goes on.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sublet_types::{Nanos, Second, TenantId};

use crate::store::Worker;
use crate::tenants::Tenant;

/// No flush is put off.
const NEVER: u64 = u64::MAX;

/// A tenant's flush that was put off, if there is one.
pub(crate) struct Deferred {
    due: AtomicU64,
    /// Held by who flushes: others go on only when that is done.
    flushing: Mutex<()>,
}

impl Default for Deferred {
    fn default() -> Deferred {
        Deferred {
            due: AtomicU64::new(NEVER),
            flushing: Mutex::default(),
        }
    }
}

impl Deferred {
    fn set(&self, due: Nanos) {
        self.due.store(due.0.min(NEVER - 1), Ordering::Release);
    }

    /// Takes back what was put off.
    pub(crate) fn cancel(&self) {
        self.due.store(NEVER, Ordering::Release);
    }

    fn due(&self) -> u64 {
        self.due.load(Ordering::Acquire)
    }
}

impl Worker {
    /// Puts a flush off until `due`, in place of one that was put off before.
    pub fn defer_flush(&self, tenant: TenantId, due: Nanos) {
        if let Some(tenant) = self.store().tenants.get(tenant) {
            self.items().part(tenant).deferred.set(due);
        }
    }

    /// Whether a flush was put off: if so, [`flush_if_due`](Worker::flush_if_due) has to be asked before each request.
    #[inline]
    pub fn awaits_flush(&self, tenant: TenantId) -> bool {
        let tenant = self.store().tenants.get(tenant);
        tenant.is_some_and(|tenant| self.items().part(tenant).deferred.due() != NEVER)
    }

    /// Flushes, if that was put off until `moment` or before. When it returns, nothing is left that was due.
    pub fn flush_if_due(&self, tenant: TenantId, moment: Nanos, now: Second) {
        let Some(tenant) = self.store().tenants.get(tenant) else {
            return;
        };
        while self.items().part(tenant).deferred.due() <= moment.0 {
            self.pinned(|| self.take_due_flush(tenant, moment, now));
        }
    }

    fn take_due_flush(&self, tenant: &Tenant, moment: Nanos, now: Second) {
        let deferred = &self.items().part(tenant).deferred;
        let Some(_flushing) = deferred.flushing.try_lock() else {
            return self.unpinned(|| drop(deferred.flushing.lock()));
        };
        let due = deferred.due();
        if due <= moment.0 {
            self.flush_tenant(tenant, now);
            // Another may have been put off meanwhile.
            let _ = deferred
                .due
                .compare_exchange(due, NEVER, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}
