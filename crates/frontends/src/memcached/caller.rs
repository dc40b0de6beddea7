//! Who asks: what the requests of one turn share.

use sublet_store::{Item, TenantFigures};
use sublet_types::{Bytes, Expiry, Second};

use super::connections::Peer;
use super::instance::Instance;
use super::numbers;
use crate::tenancy::{Counters, Tenancy};

/// What the requests of one turn share: whose connection, whose memory, which settings.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) instance: &'a Instance,
    pub(super) peer: &'a Peer,
    pub(super) tenancy: &'a Tenancy,
    pub(super) place: Place,
}

/// Where a request stands among those of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its client had all its replies, or none were due, when it came.
    First,
    /// It came behind another one.
    Behind,
}

impl Caller<'_> {
    /// This thread's counters for the tenant.
    pub(super) fn counters(&self) -> &Counters {
        self.tenancy.counters()
    }

    /// When something stored now with this time to live ceases to be.
    pub(super) fn expiry(&self, exptime: i64) -> Expiry {
        numbers::expiry(self.tenancy.clock(), self.tenancy.now(), exptime)
    }

    /// The same of a time to live that may not have been given.
    pub(super) fn end_of(&self, exptime: Option<i32>) -> Option<Expiry> {
        exptime.map(|exptime| self.expiry(exptime.into()))
    }

    /// Whether an item of these sizes is beyond the largest that is stored.
    pub(super) fn too_large(&self, key: usize, flags: u32, value: usize) -> bool {
        numbers::item_size(key, flags, value) as u64 > self.instance.settings.item_max
    }

    /// An item's cas unique; 0 where none are kept.
    pub(super) fn cas_of(&self, item: &Item<'_>) -> u64 {
        match self.instance.settings.cas {
            true => item.cas(),
            false => 0,
        }
    }

    /// The cas unique that a store told; 0 where none are kept.
    pub(super) fn kept_cas(&self, cas: u64) -> u64 {
        match self.instance.settings.cas {
            true => cas,
            false => 0,
        }
    }

    /// The tenant's figures in the store.
    pub(super) fn figures(&self) -> TenantFigures {
        let (worker, tenant, _) = self.tenancy.acting();
        worker.store().tenant_figures(tenant)
    }

    /// When the oldest of the tenant's items was stored, about.
    pub(super) fn oldest_item(&self) -> Option<Second> {
        let (worker, tenant, _) = self.tenancy.acting();
        worker.store().oldest_item(tenant)
    }

    /// How much memory the tenant may hold.
    pub(super) fn memory_limit(&self) -> Bytes {
        self.instance.host.memory_limit(self.tenancy.tenant())
    }
}
