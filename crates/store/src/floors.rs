//! Floors: the memory that no tenant loses to another.
//!
//! A floor is kept in blocks, rounded up. If all floors together exceed what there is, each is cut in proportion.
//! Persistent pages cannot be evicted for a put. So they must not enter blocks that other tenants' floors may need:
//!
//! ```text
//!   Σ max(floor, blocks of persistent pages)  ≤  blocks that tenants may hold
//! ```
//!
//! While that holds and a tenant is below its floor, a block is free or some tenant has one to give.

use sublet_types::Bytes;

use crate::tenants::{Tenant, Tenants};

/// What tenants may hold together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) block_bytes: usize,
    pub(crate) blocks: u32,
}

/// Every tenant's floor, cut to the room that there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floors {
    room: Capacity,
    /// What counts as a floor.
    kind: FloorKind,
    /// Blocks that all floors ask for together.
    requested: u64,
}

/// Which floors are meant.
#[derive(Clone, Copy, Debug)]
enum FloorKind {
    /// The floors that the owner promised.
    Promised,
    /// These, and what tenants keep if all memory is one pool.
    Kept,
}

impl FloorKind {
    fn of(self, tenant: &Tenant) -> u32 {
        match self {
            FloorKind::Promised => tenant.promised_blocks(),
            FloorKind::Kept => tenant.floor_blocks(),
        }
    }
}

impl Floors {
    /// Blocks of a tenant's floor.
    pub(crate) fn of(&self, tenant: &Tenant) -> u32 {
        let floor = self.kind.of(tenant);
        if self.requested <= u64::from(self.room.blocks) {
            return floor;
        }
        (u64::from(floor) * u64::from(self.room.blocks) / self.requested) as u32
    }

    /// Blocks that all floors ask for together.
    pub(crate) fn requested(&self) -> u64 {
        self.requested
    }

    /// Returns whether a tenant holds less than its floor.
    pub(crate) fn is_below(&self, tenant: &Tenant) -> bool {
        tenant.held() < self.of(tenant)
    }

    /// Blocks of a tenant that no other tenant may take.
    pub(crate) fn keeps(&self, tenant: &Tenant) -> u32 {
        self.of(tenant).max(tenant.pinned())
    }

    /// Returns whether a tenant has a block that another may take, beyond those that are already reserved.
    pub(crate) fn may_give(&self, tenant: &Tenant) -> bool {
        tenant.spare_blocks(self.keeps(tenant)) > 0
    }
}

impl Tenants {
    /// What each tenant keeps in this room if another tenant needs a block.
    pub(crate) fn floors(&self, room: Capacity) -> Floors {
        self.floors_of(FloorKind::Kept, room)
    }

    /// The floors that the owner promised, cut to this room.
    pub(crate) fn promised(&self, room: Capacity) -> Floors {
        self.floors_of(FloorKind::Promised, room)
    }

    fn floors_of(&self, which: FloorKind, room: Capacity) -> Floors {
        let floors = self.iter().map(|tenant| which.of(tenant));
        Floors {
            room,
            kind: which,
            requested: floors.map(u64::from).sum(),
        }
    }

    /// Returns whether a tenant may have another block of persistent pages while all floors are kept.
    pub(crate) fn may_pin(&self, tenant: &Tenant, room: Capacity) -> bool {
        let floors = self.promised(room);
        let kept = |other: &Tenant| {
            let more = u32::from(other.id == tenant.id);
            u64::from(floors.of(other).max(other.pinned() + more))
        };
        tenant.pinned() < floors.of(tenant)
            || self.iter().map(kept).sum::<u64>() <= u64::from(room.blocks)
    }

    /// Blocks of persistent pages that stand on other tenants' floors, and the tenant that owns them. This happens
    /// after a floor was raised or the room shrank. The tenant that has most above its own floor for its weight comes
    /// first.
    pub(crate) fn pinned_on_floors(&self, room: Capacity) -> Option<(&Tenant, u32)> {
        let floors = self.promised(room);
        let above = |tenant: &Tenant| tenant.pinned().saturating_sub(floors.of(tenant));
        let kept = self
            .iter()
            .map(|tenant| u64::from(floors.of(tenant)) + u64::from(above(tenant)));
        let over = kept.sum::<u64>().saturating_sub(u64::from(room.blocks));
        let per_weight = |tenant: &&Tenant| f64::from(above(tenant)) / f64::from(tenant.weight().0);
        let most = self
            .iter()
            .max_by(|a, b| per_weight(a).total_cmp(&per_weight(b)))?;
        let blocks = over.min(u64::from(above(most))) as u32;
        (blocks > 0).then_some((most, blocks))
    }
}

/// What tenants are promised together, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloorFigures {
    /// All floors, each rounded up to blocks.
    pub asked: Bytes,
    /// What tenants may hold together.
    pub room: Bytes,
}

impl FloorFigures {
    /// By how much the floors exceed the room. Each floor is then cut in proportion.
    pub fn short(&self) -> Bytes {
        self.asked - self.room
    }
}

#[cfg(test)]
mod tests {
    use sublet_types::{GiveWayOrder, TenantSettings, Weight};

    use super::*;

    const BLOCK: usize = 1 << 20;

    const ROOM: Capacity = Capacity {
        block_bytes: BLOCK,
        blocks: 64,
    };

    fn add<'a>(tenants: &'a Tenants, name: &str, floor: Option<Bytes>) -> &'a Tenant {
        let settings = TenantSettings {
            name: name.parse().expect("a name"),
            weight: Weight(100),
            floor,
            ceiling: None,
        };
        let id = tenants.add(settings).expect("added");
        tenants.get(id).expect("there")
    }

    #[test]
    fn persistent_pages_keep_off_promised_floors_and_not_off_what_is_kept_of_a_pool() {
        let all = Bytes((64 * BLOCK) as u64);
        let tenants = Tenants::new(BLOCK);
        let swap = add(&tenants, "swap", None);
        let cache = add(&tenants, "cache", None);
        cache.set_guard(Some(all), GiveWayOrder::ByAge);
        assert_eq!(tenants.floors(ROOM).of(cache), 64);
        assert_eq!(tenants.promised(ROOM).of(cache), 0);
        assert!(tenants.may_pin(swap, ROOM));
        add(&tenants, "promised", Some(all));
        assert!(!tenants.may_pin(swap, ROOM));
    }
}
