//! What stands between a guest's memory and its disk.

use sublet_types::{GiveWayOrder, Pages, Snapshot, TenantId};

use crate::rng::mixed;
use crate::virtual_time::VirtualInstant;

/// The two pools of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolKind {
    /// Swapped memory: persistent, and a get leaves the page (frontswap).
    Swap,
    /// Clean file pages: ephemeral, and a get takes the page (cleancache).
    File,
}

/// A page in the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierPage {
    /// Its owner.
    pub tenant: TenantId,
    /// Its pool.
    pub pool: PoolKind,
    /// The file, or the 2 MiB cluster of swap space.
    pub object: u64,
    /// The page in it.
    pub index: u32,
}

/// The content of a simulated page: 16 bytes that identify the page and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageStamp(pub [u8; 16]);

impl PageStamp {
    /// The content of version `version` of `page`.
    pub fn of(page: TierPage, version: u32) -> PageStamp {
        let tenant = u64::from(page.tenant.0) << 1 | u64::from(page.pool == PoolKind::Swap);
        let place = u64::from(page.index) << 32 | u64::from(version);
        let first = mixed(mixed(tenant) ^ page.object).wrapping_add(mixed(place));
        let second = mixed(first ^ 0x5ab1).wrapping_add(place);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        PageStamp(bytes)
    }
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierPutOutcome {
    /// The tier has the page.
    Stored,
    /// The tier has neither the page nor an older version of it.
    Refused,
}

/// The result of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierGetOutcome {
    /// The page, from memory.
    Hit(PageStamp),
    /// The page, which the tier itself had to move to its disk.
    OnDisk(PageStamp),
    /// There is no such page.
    Miss,
}

/// A tier of spare memory. The simulator passes only pages of tenants that the tier was made with.
pub trait Tier {
    /// Stores a page, or refuses it and forgets an older version.
    fn put(&mut self, page: TierPage, stamp: PageStamp, now: VirtualInstant) -> TierPutOutcome;

    /// Looks for a page. A hit in a [`PoolKind::File`] pool removes it.
    fn get(&mut self, page: TierPage, now: VirtualInstant) -> TierGetOutcome;

    /// Returns whether a page that is there lies in the memory of another host.
    fn is_far(&self, _page: TierPage) -> bool {
        false
    }

    /// Forgets a page.
    fn flush_page(&mut self, page: TierPage, now: VirtualInstant);

    /// Forgets all pages of an object.
    fn flush_object(&mut self, tenant: TenantId, pool: PoolKind, object: u64, now: VirtualInstant);

    /// Sets what a tenant may hold from now on.
    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, now: VirtualInstant);

    /// Sets what a tenant keeps if all tenants' memory is one pool, and when it gives the rest. It does nothing if
    /// weights decide.
    fn set_guard(&mut self, _tenant: TenantId, _guard: Option<Pages>, _giving: GiveWayOrder) {}

    /// Sets what all tenants may hold together from now on.
    fn resize(&mut self, total: Pages, now: VirtualInstant);

    /// Does what is due once per second.
    fn chores(&mut self, now: VirtualInstant);

    /// The figures since the last snapshot, as a policy needs them.
    fn snapshot(&mut self, now: VirtualInstant) -> Snapshot;

    /// The figures of every tenant.
    fn counts(&self) -> TierCounts;
}

/// Figures of a tier at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// What tenants may hold together.
    pub total: Pages,
    /// The part of it that nobody holds.
    pub free: Pages,
    /// What lies in the memory of other hosts.
    pub far: FarTierCounts,
    /// Every tenant, by number.
    pub tenants: Vec<TenantCounts>,
}

/// Figures of the part of a tier that lies in the memory of other hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarTierCounts {
    /// Pages that lie there.
    pub used: Pages,
    /// Puts that went there since the beginning.
    pub puts: u64,
}

/// One tenant's figures. Counts are since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TenantCounts {
    /// What it holds.
    pub held: Pages,
    /// Live pages in that.
    pub used: Pages,
    /// What it may hold.
    pub target: Option<Pages>,
    /// Puts.
    pub puts: u64,
    /// Those of the puts that were refused.
    pub refused: u64,
    /// Those of the puts that found no room without displacing a page of the same tenant, or no room at all.
    pub failed: u64,
    /// Gets.
    pub gets: u64,
    /// Those of the gets that hit.
    pub hits: u64,
    /// Pages flushed.
    pub flushes: u64,
    /// Ephemeral pages that left to make room.
    pub evictions: u64,
    /// Persistent pages that were moved to the tier's disk.
    pub spilled: u64,
}
