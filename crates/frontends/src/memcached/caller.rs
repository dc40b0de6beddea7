//! The client that makes a request, and what the requests of one turn share.

use sublet_store::{Item, TenantFigures};
use sublet_types::{Bytes, Expiry, Second};

use super::connections::Peer;
use super::instance::Instance;
use super::numbers;
use crate::tenancy::{Counters, Tenancy};

/// What the requests of one turn share: the connection, the tenant's memory, and the settings.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) instance: &'a Instance,
    pub(super) peer: &'a Peer,
    pub(super) tenancy: &'a Tenancy,
    pub(super) position: PipelinePosition,
}

/// The position of a request among those of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipelinePosition {
    /// When the request came, its client had all its replies, or none were due.
    First,
    /// The request came behind another one.
    Behind,
}

impl Caller<'_> {
    /// Returns this thread's counters for the tenant.
    pub(super) fn counters(&self) -> &Counters {
        self.tenancy.counters()
    }

    /// Returns when an item stored now with this time to live expires.
    pub(super) fn expiry(&self, exptime: i64) -> Expiry {
        numbers::expiry(self.tenancy.clock(), self.tenancy.now(), exptime)
    }

    /// Returns the same for a time to live that may be absent.
    pub(super) fn optional_expiry(&self, exptime: Option<i32>) -> Option<Expiry> {
        exptime.map(|exptime| self.expiry(exptime.into()))
    }

    /// Returns whether an item of these sizes exceeds the largest that is stored.
    pub(super) fn too_large(&self, key: usize, flags: u32, value: usize) -> bool {
        numbers::item_size(key, flags, value) as u64 > self.instance.settings.item_max
    }

    /// Returns an item's cas unique, or 0 if the instance keeps none.
    pub(super) fn item_cas(&self, item: &Item<'_>) -> u64 {
        match self.instance.settings.cas {
            true => item.cas(),
            false => 0,
        }
    }

    /// Returns the cas unique that a store returned, or 0 if the instance keeps none.
    pub(super) fn stored_cas(&self, cas: u64) -> u64 {
        match self.instance.settings.cas {
            true => cas,
            false => 0,
        }
    }

    /// Returns the tenant's figures in the store.
    pub(super) fn figures(&self) -> TenantFigures {
        let (worker, tenant, _) = self.tenancy.worker_tenant_now();
        worker.store().tenant_figures(tenant)
    }

    /// Returns about when the oldest of the tenant's items was stored.
    pub(super) fn oldest_item(&self) -> Option<Second> {
        let (worker, tenant, _) = self.tenancy.worker_tenant_now();
        worker.store().oldest_item(tenant)
    }

    /// Returns how much memory the tenant may hold.
    pub(super) fn memory_limit(&self) -> Bytes {
        self.instance.process.memory_limit(self.tenancy.tenant())
    }
}
