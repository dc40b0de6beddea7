//! What stands between a guest's memory and its disk.

use sublet_types::{Giving, Pages, Snapshot, TenantId};

use crate::chance::mixed;
use crate::virtual_time::Moment;

/// Which of a guest's two pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// Swapped memory: persistent, a get leaves the page (frontswap).
    Swap,
    /// Clean file pages: ephemeral, a get takes the page (cleancache).
    File,
}

/// A page in the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierPage {
    /// Whose.
    pub tenant: TenantId,
    /// In which pool.
    pub pool: Pool,
    /// The file, or the 2 MiB cluster of swap space.
    pub object: u64,
    /// The page in it.
    pub index: u32,
}

/// What a simulated page holds: 16 bytes that tell whose it is, which, and which version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp(pub [u8; 16]);

impl Stamp {
    /// The content of version `version` of `page`.
    pub fn of(page: TierPage, version: u32) -> Stamp {
        let tenant = u64::from(page.tenant.0) << 1 | u64::from(page.pool == Pool::Swap);
        let place = u64::from(page.index) << 32 | u64::from(version);
        let first = mixed(mixed(tenant) ^ page.object).wrapping_add(mixed(place));
        let second = mixed(first ^ 0x5ab1).wrapping_add(place);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        Stamp(bytes)
    }
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The tier has the page.
    Stored,
    /// It has not, nor an older version of it.
    Refused,
}

/// What a get found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get {
    /// The page, from memory.
    Hit(Stamp),
    /// The page, which the tier itself had to move to its disk.
    OnDisk(Stamp),
    /// Nothing.
    Miss,
}

/// A tier of spare memory. The simulator's arguments are always pages of tenants that it was made with.
pub trait Tier {
    /// Stores a page, or refuses it and forgets an older version.
    fn put(&mut self, page: TierPage, stamp: Stamp, now: Moment) -> Put;

    /// Looks for a page; a hit in a [`Pool::File`] takes it out.
    fn get(&mut self, page: TierPage, now: Moment) -> Get;

    /// Forgets a page.
    fn flush_page(&mut self, page: TierPage, now: Moment);

    /// Forgets all pages of an object.
    fn flush_object(&mut self, tenant: TenantId, pool: Pool, object: u64, now: Moment);

    /// Sets what a tenant may hold from now on.
    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, now: Moment);

    /// Sets what a tenant keeps of one pool that all tenants' memory is, and when it gives the rest; nothing where weights decide.
    fn set_guard(&mut self, _tenant: TenantId, _guard: Option<Pages>, _giving: Giving) {}

    /// Sets what all may hold together from now on.
    fn resize(&mut self, total: Pages, now: Moment);

    /// What is due once a second.
    fn chores(&mut self, now: Moment);

    /// The figures that a policy decides by, since the last snapshot.
    fn snapshot(&mut self, now: Moment) -> Snapshot;

    /// The figures of every tenant.
    fn census(&self) -> Census;
}

/// Figures of a tier at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// What tenants may hold together.
    pub total: Pages,
    /// What nobody holds of it.
    pub free: Pages,
    /// Every tenant, by number.
    pub tenants: Vec<TenantCount>,
}

/// One tenant's figures; counts are since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TenantCount {
    /// What it holds.
    pub held: Pages,
    /// What lives in that.
    pub used: Pages,
    /// What it may hold.
    pub target: Option<Pages>,
    /// Puts.
    pub puts: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Of the puts, those that found no room without displacing something of their own, or none at all.
    pub failed: u64,
    /// Gets.
    pub gets: u64,
    /// Of these, hits.
    pub hits: u64,
    /// Pages flushed.
    pub flushes: u64,
    /// Ephemeral pages that left to make room.
    pub evictions: u64,
    /// Persistent pages that were moved to the tier's disk.
    pub spilled: u64,
}
