//! Chooses the tenant that gives way when a block is needed and none is free.

use sublet_types::GiveWayOrder;

use crate::floors::{Capacity, Floors};
use crate::tenants::{Tenant, Tenants};

/// The age margin if all memory is one pool. Another tenant's oldest goes only if more than this fraction of the arena
/// was written between it and the putter's own oldest. A block that moves takes warm neighbours along.
const OLDER_BY_ONE_IN: u64 = 32;

/// The tenant that gives way.
#[derive(Clone, Copy)]
pub(crate) struct Giver<'a> {
    pub(crate) tenant: &'a Tenant,
    /// Blocks that it keeps. `None` if it makes room for itself.
    keeps: Option<u32>,
}

impl<'a> Giver<'a> {
    /// A tenant that makes room for itself.
    pub(crate) fn itself(tenant: &'a Tenant) -> Giver<'a> {
        Giver {
            tenant,
            keeps: None,
        }
    }

    /// Reserves up to `wanted` blocks of the giver, so that nobody else counts on them. Returns `None` if others took
    /// what it had to give since it was chosen.
    pub(crate) fn reserve_blocks(self, wanted: u32) -> Option<BlockReservation<'a>> {
        let blocks = match self.keeps {
            None => return Some(BlockReservation::of_itself(wanted)),
            Some(keeps) => self.tenant.reserve_blocks(wanted, keeps),
        };
        (blocks > 0).then_some(BlockReservation {
            blocks,
            reserved_at: Some(self.tenant),
        })
    }
}

/// Blocks that a tenant is about to give. It gives no more than these, and the reservation ends when this is dropped.
pub(crate) struct BlockReservation<'a> {
    pub(crate) blocks: u32,
    /// The tenant that counts them as reserved.
    reserved_at: Option<&'a Tenant>,
}

impl BlockReservation<'_> {
    fn of_itself(blocks: u32) -> Self {
        BlockReservation {
            blocks,
            reserved_at: None,
        }
    }
}

impl Drop for BlockReservation<'_> {
    fn drop(&mut self) {
        if let Some(giver) = self.reserved_at {
            giver.release_reservation(self.blocks);
        }
    }
}

impl Tenants {
    /// The tenant that gives way when `putter` needs a block. This may be the putter itself.
    ///
    /// - A putter that holds nothing or is below its floor gets its block from another tenant in any case.
    /// - No tenant goes below its floor for another.
    /// - No tenant gives blocks that persistent pages are in.
    pub(crate) fn gives_way<'a>(&'a self, putter: &'a Tenant, room: Capacity) -> Giver<'a> {
        match putter.is_pooled() {
            true => self.oldest_gives_way(putter, room),
            false => self.largest_gives_way(putter, room),
        }
    }

    /// The tenant that holds most for its weight, if it is ahead of the putter by more than a block (Mortar §5.2).
    pub(crate) fn largest_gives_way<'a>(&'a self, putter: &'a Tenant, room: Capacity) -> Giver<'a> {
        let floors = self.floors(room);
        let by_weight = |a: &&Tenant, b: &&Tenant| a.per_weight(0).total_cmp(&b.per_weight(0));
        let gives = |tenant: &&Tenant| {
            has_a_claim(putter, &floors) || tenant.per_weight(0) > putter.per_weight(1)
        };
        let largest = self.givers(putter, floors).max_by(by_weight);
        giver(largest.filter(gives), putter, &floors)
    }

    /// The tenant that gives way first. This is one that gives before others do, or the one whose next victim is
    /// oldest. It is the putter itself if no other comes before it.
    fn oldest_gives_way<'a>(&'a self, putter: &'a Tenant, room: Capacity) -> Giver<'a> {
        let floors = self.floors(room);
        let margin = u64::from(room.blocks) * room.block_bytes as u64 / OLDER_BY_ONE_IN;
        let place = |tenant: &Tenant| match tenant.is_gone() {
            true => (GiveWayOrder::First, 0),
            false => (tenant.giving(), tenant.tails.oldest()),
        };
        let (own, own_oldest) = place(putter);
        let gives = |tenant: &&Tenant| {
            let (giving, oldest) = place(tenant);
            has_a_claim(putter, &floors)
                || giving < own
                || (giving == own && oldest + margin < own_oldest)
        };
        let oldest = self
            .givers(putter, floors)
            .min_by_key(|tenant| place(tenant));
        giver(oldest.filter(gives), putter, &floors)
    }

    fn givers<'a>(
        &'a self,
        putter: &'a Tenant,
        floors: Floors,
    ) -> impl Iterator<Item = &'a Tenant> {
        let others = self.iter().filter(|tenant| tenant.id != putter.id);
        others.filter(move |tenant| floors.may_give(tenant))
    }
}

/// Returns whether a putter gets its block from another tenant, whatever the others hold.
fn has_a_claim(putter: &Tenant, floors: &Floors) -> bool {
    putter.held() == 0 || floors.is_below(putter)
}

/// The other tenant, if there is one, or the putter itself.
fn giver<'a>(other: Option<&'a Tenant>, putter: &'a Tenant, floors: &Floors) -> Giver<'a> {
    match other {
        None => Giver::itself(putter),
        Some(tenant) => Giver {
            tenant,
            keeps: Some(floors.keeps(tenant)),
        },
    }
}

#[cfg(test)]
mod tests {
    use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

    use super::*;

    const BLOCK: usize = 1 << 20;

    const ROOM: Capacity = Capacity {
        block_bytes: BLOCK,
        blocks: 64,
    };

    /// A tenant of one pool that keeps four blocks, holds some and has a tail.
    fn pooled(tenants: &Tenants, name: &str, held: u32, tail: u64) -> TenantId {
        let settings = TenantSettings {
            name: name.parse().expect("a name"),
            weight: Weight(100),
            floor: None,
            ceiling: None,
        };
        let id = tenants.add(settings).expect("added");
        let tenant = tenants.get(id).expect("there");
        tenant.set_guard(Some(Bytes(4 * BLOCK as u64)), GiveWayOrder::ByAge);
        (0..held).for_each(|_| tenant.gained_block());
        tenant.tails.record_page(tail * BLOCK as u64);
        id
    }

    #[test]
    fn the_oldest_gives_way_whoever_holds_most() {
        let tenants = Tenants::new(BLOCK);
        let large = pooled(&tenants, "large", 40, 900);
        let old = pooled(&tenants, "old", 8, 700);
        let putter = pooled(&tenants, "putter", 8, 800);
        let giver = |id| {
            let putter = tenants.get(id).expect("there");
            tenants.gives_way(putter, ROOM).tenant.id
        };
        assert_eq!([giver(putter), giver(large), giver(old)], [old, old, old]);
        let settings = tenants.get(putter).expect("there");
        assert_eq!(tenants.largest_gives_way(settings, ROOM).tenant.id, large);
    }

    #[test]
    fn who_gives_first_does_so_however_young_and_for_its_own_puts_too() {
        let tenants = Tenants::new(BLOCK);
        let flat = pooled(&tenants, "flat", 8, 900);
        let old = pooled(&tenants, "old", 8, 100);
        let gives_first = |id, kept: u64| {
            let tenant = tenants.get(id).expect("there");
            tenant.set_guard(Some(Bytes(kept * BLOCK as u64)), GiveWayOrder::First);
        };
        let giver = |id| {
            let putter = tenants.get(id).expect("there");
            tenants.gives_way(putter, ROOM).tenant.id
        };
        assert_eq!([giver(old), giver(flat)], [old, old]);
        gives_first(flat, 4);
        assert_eq!([giver(old), giver(flat)], [flat, flat]);
        gives_first(flat, 8);
        assert_eq!(
            [giver(old), giver(flat)],
            [old, flat],
            "it keeps what it has"
        );
        gives_first(flat, 9);
        assert_eq!(giver(flat), old, "who is below what it keeps gets it");
        gives_first(old, 4);
        gives_first(flat, 4);
        assert_eq!(
            [giver(old), giver(flat)],
            [old, old],
            "among themselves by age"
        );
    }

    #[test]
    fn who_is_about_to_give_its_last_block_is_asked_by_nobody_else() {
        let tenants = Tenants::new(BLOCK);
        let old = tenants.get(pooled(&tenants, "old", 6, 1)).expect("there");
        let putter = tenants.get(pooled(&tenants, "putter", 8, 900));
        let giver = || tenants.gives_way(putter.expect("there"), ROOM);
        let chosen = giver();
        let first = giver().reserve_blocks(8).expect("it has two");
        assert_eq!(first.blocks, 2);
        assert_ne!(giver().tenant.id, old.id);
        assert!(chosen.reserve_blocks(1).is_none(), "they went meanwhile");
        drop(first);
        assert_eq!(giver().tenant.id, old.id);
        let one = giver().reserve_blocks(1).expect("it has two");
        let other = giver().reserve_blocks(8).expect("it has another");
        assert_eq!((one.blocks, other.blocks), (1, 1));
        let itself = Giver::itself(old);
        assert_eq!(
            itself
                .reserve_blocks(9)
                .map(|reservation| reservation.blocks),
            Some(9)
        );
    }

    #[test]
    fn a_part_of_a_block_is_kept_as_a_whole_one() {
        let tenants = Tenants::new(BLOCK);
        let part = tenants.get(pooled(&tenants, "part", 4, 1)).expect("there");
        let putter = tenants
            .get(pooled(&tenants, "putter", 8, 900))
            .expect("there");
        let keeps = |bytes| {
            part.set_guard(Some(Bytes(bytes)), GiveWayOrder::ByAge);
            tenants.gives_way(putter, ROOM).tenant.id == putter.id
        };
        assert_eq!(
            [keeps(3 * BLOCK as u64), keeps(3 * BLOCK as u64 + 1)],
            [false, true]
        );
    }

    #[test]
    fn a_little_older_is_not_enough_and_nobody_is_brought_below_what_it_keeps() {
        let tenants = Tenants::new(BLOCK);
        let old = pooled(&tenants, "old", 8, 798);
        let putter = pooled(&tenants, "putter", 8, 800);
        let giver = |id| {
            let putter = tenants.get(id).expect("there");
            tenants.gives_way(putter, ROOM).tenant.id
        };
        assert_eq!(giver(putter), putter, "a 32nd of the arena is two blocks");
        let ancient = pooled(&tenants, "ancient", 4, 1);
        assert_eq!(giver(putter), putter, "it has no more than it keeps");
        let poor = pooled(&tenants, "poor", 3, 1000);
        assert_eq!(
            giver(poor),
            old,
            "who has less than it keeps gets it from whoever is oldest"
        );
        assert_ne!(giver(poor), ancient);
    }
}
