//! A tier of which a part lies in the memory of other hosts.
//!
//! A page is put into the host's own memory if there is room, else into that of another host. It stays where it is until
//! it is flushed or put again. So do the allocators of vMCA, which a put walks from near to far (§III-A).

use sublet_types::{GiveWayOrder, Pages, Snapshot, TenantId};

use super::tier::{
    FarTierCounts, PageStamp, PoolKind, Tier, TierCounts, TierGetOutcome, TierPage, TierPutOutcome,
};
use crate::stable_hash::StableHashMap;
use crate::virtual_time::VirtualInstant;

/// A tier that knows which of its pages lie at other hosts. It follows swapped pages. File pages always count as near.
pub(crate) struct FarTier {
    tier: Box<dyn Tier>,
    /// The host's own memory for the tier.
    own: Pages,
    places: StableHashMap<TierPage, PagePlace>,
    /// Pages that lie in the host's own memory.
    near: u64,
    /// Puts that went to other hosts since the beginning.
    far_puts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PagePlace {
    Near,
    Far,
}

impl FarTier {
    /// A tier on a host that has `own` memory itself. What `tier` has beyond that is at other hosts.
    pub(crate) fn of(tier: Box<dyn Tier>, own: Pages) -> FarTier {
        FarTier {
            tier,
            own,
            places: StableHashMap::default(),
            near: 0,
            far_puts: 0,
        }
    }

    fn forget(&mut self, page: TierPage) {
        if self.places.remove(&page) == Some(PagePlace::Near) {
            self.near -= 1;
        }
    }

    fn place(&mut self, page: TierPage) {
        let place = match self.near < self.own.0 {
            true => PagePlace::Near,
            false => PagePlace::Far,
        };
        match place {
            PagePlace::Near => self.near += 1,
            PagePlace::Far => self.far_puts += 1,
        }
        self.places.insert(page, place);
    }
}

impl Tier for FarTier {
    fn put(&mut self, page: TierPage, stamp: PageStamp, now: VirtualInstant) -> TierPutOutcome {
        self.forget(page);
        let put = self.tier.put(page, stamp, now);
        if put == TierPutOutcome::Stored && page.pool == PoolKind::Swap {
            self.place(page);
        }
        put
    }

    fn get(&mut self, page: TierPage, now: VirtualInstant) -> TierGetOutcome {
        self.tier.get(page, now)
    }

    fn is_far(&self, page: TierPage) -> bool {
        self.places.get(&page) == Some(&PagePlace::Far)
    }

    fn flush_page(&mut self, page: TierPage, now: VirtualInstant) {
        self.forget(page);
        self.tier.flush_page(page, now);
    }

    fn flush_object(&mut self, tenant: TenantId, pool: PoolKind, object: u64, now: VirtualInstant) {
        let is_of_it =
            |page: &TierPage| page.tenant == tenant && page.pool == pool && page.object == object;
        let flushed: Vec<TierPage> = self.places.keys().copied().filter(is_of_it).collect();
        flushed.into_iter().for_each(|page| self.forget(page));
        self.tier.flush_object(tenant, pool, object, now);
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, now: VirtualInstant) {
        self.tier.set_target(tenant, target, now);
    }

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>, giving: GiveWayOrder) {
        self.tier.set_guard(tenant, guard, giving);
    }

    fn resize(&mut self, total: Pages, now: VirtualInstant) {
        self.tier.resize(total, now);
    }

    fn chores(&mut self, now: VirtualInstant) {
        self.tier.chores(now);
    }

    fn snapshot(&mut self, now: VirtualInstant) -> Snapshot {
        self.tier.snapshot(now)
    }

    fn counts(&self) -> TierCounts {
        let far = FarTierCounts {
            used: Pages(self.places.len() as u64 - self.near),
            puts: self.far_puts,
        };
        TierCounts {
            far,
            ..self.tier.counts()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tier_map::MapTier;
    use crate::rng::SimRng;
    use sublet_types::ShrinkMode;

    fn page(index: u32) -> TierPage {
        TierPage {
            tenant: TenantId(0),
            pool: PoolKind::Swap,
            object: u64::from(index / 8),
            index: index % 8,
        }
    }

    fn tier(own: u64, total: u64) -> FarTier {
        let tables = MapTier::of(Pages(total), 1, ShrinkMode::Never);
        FarTier::of(Box::new(tables), Pages(own))
    }

    fn put(tier: &mut FarTier, index: u32) -> bool {
        let stamp = PageStamp::of(page(index), 0);
        tier.put(page(index), stamp, VirtualInstant::START) == TierPutOutcome::Stored
    }

    #[test]
    fn pages_lie_far_when_the_own_memory_is_full_and_stay_there() {
        let mut tier = tier(2, 3);
        let stored = [0, 1, 2, 3].map(|index| put(&mut tier, index));
        assert_eq!(stored, [true, true, true, false]);
        let far = |tier: &FarTier| [0, 1, 2, 3].map(|index| tier.is_far(page(index)));
        assert_eq!(far(&tier), [false, false, true, false]);
        tier.flush_page(page(0), VirtualInstant::START);
        assert_eq!(far(&tier), [false, false, true, false]);
        assert!(put(&mut tier, 2) && put(&mut tier, 3));
        assert_eq!(far(&tier), [false, false, false, true]);
        let counted = tier.counts().far;
        assert_eq!((counted.used, counted.puts), (Pages(1), 2));
    }

    /// A put goes far only when the host's own memory is full.
    #[test]
    fn own_memory_is_used_first_whatever_is_put_and_flushed() {
        let own = 20;
        let mut tier = tier(own, 50);
        let mut rng = SimRng::seeded(3);
        let mut there = [false; 64];
        for _ in 0..5_000 {
            let index = rng.below(64) as u32;
            there[index as usize] = false;
            tier.flush_page(page(index), VirtualInstant::START);
            if rng.happens(0.4) {
                continue;
            }
            let is_near = |index: &u32| there[*index as usize] && !tier.is_far(page(*index));
            let near = (0..64).filter(is_near).count() as u64;
            if put(&mut tier, index) {
                there[index as usize] = true;
                assert_eq!(tier.is_far(page(index)), near == own);
            }
        }
        for object in 0..8 {
            tier.flush_object(TenantId(0), PoolKind::Swap, object, VirtualInstant::START);
        }
        assert_eq!((tier.near, tier.places.len()), (0, 0));
    }
}
