//! Gives memory back to the kernel, and keeps tenants within what they may hold.

use std::sync::atomic::Ordering;

use sublet_types::{Bytes, Pages as PageCount, Second, ShrinkMode, TenantId};

use crate::api::*;
use crate::engine::{ENGINES, Engine, Engines, ReclaimCause};
use crate::loss::Loss;
use crate::release_order::{BlockOrder, ReleaseMethod};
use crate::tenants::Tenant;
use crate::worker::Worker;

/// Seconds after which heat is halved.
const HEAT_HALF_LIFE_SECS: u32 = 60;

/// Free blocks beyond this amount go back to the kernel, a part each second.
const FREE_KEPT: Bytes = Bytes::mib(128);

/// The fraction of surplus free blocks that goes back per second.
const SURPLUS_ONE_IN: usize = 4;

/// Blocks that one call of the chores takes from a tenant over its limit.
const LIMIT_PIECE: u32 = 32;

/// The most waits for readers of an old epoch. They take half a second if others want the processor, as they do when a
/// reader has lost it.
const WAITS_MAX: u32 = 50_000;

/// The heat of a block in an engine, and the number of blocks that it stands for.
struct BlockHeat {
    heat: u32,
    engine: usize,
    blocks: f64,
}

/// How many of the `quota` coldest blocks each engine has.
fn shares(mut heats: Vec<BlockHeat>, quota: u32) -> [u32; ENGINES] {
    heats.sort_by_key(|heat| heat.heat);
    let (mut shares, mut left) = ([0.0; ENGINES], f64::from(quota));
    for BlockHeat { engine, blocks, .. } in heats {
        let take = blocks.min(left);
        shares[engine] += take;
        left -= take;
    }
    shares.map(|blocks| blocks.round() as u32)
}

impl Worker {
    /// Gives memory back to the kernel. Returns after the last block has left. Do not call it within `pinned`.
    pub fn release(&self, release: Release, now: Second) -> ReleaseOutcome {
        let way = ReleaseMethod::of(release.mode);
        self.release_from(release.tenant, release.amount, way, now)
    }

    /// Gives back whole blocks of all tenants, in the caller's own order.
    pub fn release_by(&self, order: BlockOrder, amount: Bytes, now: Second) -> ReleaseOutcome {
        self.release_from(None, amount, ReleaseMethod::Whole(order), now)
    }

    fn release_from(
        &self,
        tenant: Option<TenantId>,
        amount: Bytes,
        way: ReleaseMethod,
        now: Second,
    ) -> ReleaseOutcome {
        let arena = &self.store().arena;
        let wanted = u64::from(self.store().blocks(amount));
        let before = arena.returned();
        let missing = || wanted.saturating_sub(arena.returned() - before);
        let mut total = Loss::default();
        if tenant.is_none() {
            arena.give_back(missing() as usize, arena.reserve());
        }
        if tenant.is_none() {
            self.take_back(missing() as u32);
        }
        let mut waits = 0;
        while waits < WAITS_MAX {
            let missed = missing();
            if missed == 0 {
                break;
            }
            let blocks = (missed as u32).saturating_sub(arena.in_limbo() as u32);
            let loss = self.shrink(&self.quotas(tenant, blocks), way, now);
            total.add(loss);
            arena.give_back(missing() as usize, arena.reserve());
            if missing() == missed {
                if loss.blocks == 0 && arena.in_limbo() == 0 {
                    break;
                }
                waits += 1;
                std::thread::yield_now();
            }
        }
        // If the tenants have nothing left to give, eviction needs no reserve either.
        arena.give_back(missing() as usize, 0);
        ReleaseOutcome {
            bytes: self.store().bytes((arena.returned() - before) as u32),
            items_lost: total.items,
            bytes_lost: Bytes(total.bytes),
            bytes_kept: Bytes(total.bytes_kept),
            pages_lost: PageCount(total.pages),
        }
    }

    /// Makes each tenant give up its quota of blocks, the coldest of any engine.
    fn shrink(&self, quotas: &[(&Tenant, u32)], way: ReleaseMethod, now: Second) -> Loss {
        let mut total = Loss::default();
        for (tenant, quota) in quotas {
            total.add(self.shrink_tenant(tenant, *quota, way, now));
        }
        total
    }

    /// Each engine gives as many blocks as it has of the coldest, plus those that the engines before it could not give.
    /// The last engine gives all that is left. The others then give what it could not.
    fn shrink_tenant(&self, tenant: &Tenant, quota: u32, way: ReleaseMethod, now: Second) -> Loss {
        let engines = self.store().engines();
        let give = |engine: &dyn Engine, blocks: u32| {
            let cause = ReclaimCause::Release(way);
            self.pinned(|| engine.reclaim_blocks(tenant, blocks, cause, now, self))
        };
        let shares = self.shares(&engines, tenant, quota);
        let (mut total, mut wanted) = (Loss::default(), 0);
        for (n, engine) in engines.iter().enumerate() {
            wanted = match n + 1 == ENGINES {
                true => quota,
                false => wanted + shares[n],
            };
            total.add(give(*engine, wanted.saturating_sub(total.blocks)));
        }
        for engine in &engines[..ENGINES - 1] {
            total.add(give(*engine, quota.saturating_sub(total.blocks)));
        }
        total
    }

    /// How many of a tenant's `quota` coldest blocks each engine has. If a tenant has many blocks, a thousand of them
    /// are sampled, different ones each time.
    fn shares(&self, engines: &Engines<'_>, tenant: &Tenant, quota: u32) -> [u32; ENGINES] {
        let have_some = engines.map(|engine| engine.held(tenant) > 0);
        if have_some.iter().filter(|has| **has).count() < 2 {
            return have_some.map(|has| if has { quota } else { 0 });
        }
        let heats = (0..ENGINES).flat_map(|n| self.heats(engines, tenant, n));
        shares(heats.collect(), quota)
    }

    /// The heat of some of a tenant's blocks in one engine.
    fn heats(&self, engines: &Engines<'_>, tenant: &Tenant, engine: usize) -> Vec<BlockHeat> {
        let arena = &self.store().arena;
        let Some(list) = engines[engine].blocks_of(tenant) else {
            return Vec::new();
        };
        let sample = list.sample(arena);
        let blocks = f64::from(list.len()) / sample.len().max(1) as f64;
        let of_sample = sample.iter().map(|block| BlockHeat {
            heat: arena.block(*block).heat(),
            engine,
            blocks,
        });
        of_sample.collect()
    }

    /// Brings tenants under their ceilings, one piece of each per call. It also brings them under their targets, unless
    /// the store was told not to. Returns whether there is more to do.
    fn keep_limits(&self, now: Second) -> bool {
        let shrinking = self.store().shrinking();
        let over = |tenant: &Tenant| match shrinking {
            ShrinkMode::Active => tenant.blocks_over_limit(),
            ShrinkMode::Never => tenant.blocks_over_ceiling(),
        };
        let tenants = self.store().tenants.iter();
        let quotas: Vec<(&Tenant, u32)> = tenants
            .filter(|tenant| over(tenant) > 0)
            .map(|tenant| (tenant, over(tenant).min(LIMIT_PIECE)))
            .collect();
        self.shrink(&quotas, ReleaseMethod::Ordered, now).blocks > 0
            && quotas.iter().any(|(tenant, _)| over(tenant) > 0)
    }

    /// How many blocks each tenant gives. The tenant that holds most for its weight gives next, again and again.
    fn quotas(&self, only: Option<TenantId>, blocks: u32) -> Vec<(&Tenant, u32)> {
        let tenants = &self.store().tenants;
        if let Some(only) = only {
            return tenants
                .get(only)
                .map(|tenant| (tenant, blocks))
                .into_iter()
                .collect();
        }
        tenants.give_back(blocks)
    }

    /// The background chores: dead segments, dropped pages, the index's size, heat, surplus and limits.
    ///
    /// A call takes about a millisecond. Returns whether there is more to do at once. Call it at least once per second.
    pub fn upkeep(&self, now: Second) -> bool {
        let mut more = false;
        for engine in self.store().engines() {
            more |= self.pinned(|| engine.chores(now));
        }
        if let Some(before) = self.store().begin_second(now) {
            for engine in self.store().engines() {
                self.pinned(|| engine.chores_each_second(now, self));
            }
            // The chores may skip seconds if there is much to do.
            if before.0 / HEAT_HALF_LIFE_SECS < now.0 / HEAT_HALF_LIFE_SECS {
                self.store().arena.cool_all();
            }
            self.return_surplus();
        }
        more |= self.pinned(|| self.block_reclaim(now).clear_floors());
        more |= self.keep_limits(now);
        more |= self.make_room_for_tables(now);
        more
    }

    /// Gives memory back for tables beside the arena, if the arena holds more than they leave it. Returns whether there
    /// is more to do.
    fn make_room_for_tables(&self, now: Second) -> bool {
        let arena = &self.store().arena;
        let over = || arena.held().saturating_sub(arena.limit());
        let piece = over().min(arena.charged()).min(LIMIT_PIECE);
        if piece == 0 {
            return false;
        }
        let amount = self.store().bytes(piece);
        let released = self.release_from(None, amount, ReleaseMethod::Ordered, now);
        released.bytes > Bytes::ZERO && over() > 0
    }

    /// Evicts a few pages ahead of the puts of tenants that have all they may have, and keeps far blocks ready for
    /// those whose pages go to lenders. Returns whether any of them puts. Call it again after some milliseconds then.
    pub fn evict_ahead(&self, whom: EvictAheadScope, now: Second) -> bool {
        let mut puts = self.keep_far_blocks_ready();
        for tenant in self.store().tenants.iter() {
            puts |= self.pinned(|| self.store().pages.evict_ahead(tenant, whom, now));
        }
        puts
    }

    fn return_surplus(&self) {
        let arena = &self.store().arena;
        let surplus = arena.ready().saturating_sub(self.store().blocks(FREE_KEPT));
        arena.give_back(surplus as usize / SURPLUS_ONE_IN, arena.reserve());
    }
}

impl crate::store::Store {
    fn shrinking(&self) -> ShrinkMode {
        match self.shrinks.load(Ordering::Relaxed) {
            true => ShrinkMode::Active,
            false => ShrinkMode::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heats(engine: usize, blocks: f64, heats: impl Iterator<Item = u32>) -> Vec<BlockHeat> {
        let of = |heat| BlockHeat {
            heat,
            engine,
            blocks,
        };
        heats.map(of).collect()
    }

    #[test]
    fn each_engine_gives_what_it_has_of_the_coldest() {
        let both = |quota| {
            let cold = heats(0, 1.0, [1, 2, 3, 50].into_iter());
            let warm = heats(1, 1.0, [2, 60, 70].into_iter());
            shares(cold.into_iter().chain(warm).collect(), quota)
        };
        assert_eq!(both(1), [1, 0]);
        assert_eq!(both(4), [3, 1]);
        assert_eq!(both(5), [4, 1]);
        assert_eq!(both(100), [4, 3], "all that there is");
    }

    /// A thousand of 4,000 blocks were looked at, so each stands for four. All 100 blocks of the other engine were
    /// looked at.
    #[test]
    fn what_was_looked_at_stands_for_the_others() {
        let many = heats(0, 4.0, (0..1000).map(|n| 2 * n));
        let few = heats(1, 1.0, (0..100).map(|n| 2 * n + 1));
        let all = || heats(0, 4.0, (0..1000).map(|n| 2 * n)).into_iter();
        assert_eq!(shares(many.into_iter().chain(few).collect(), 50), [40, 10]);
        let hot = heats(1, 1.0, (0..100).map(|_| u32::MAX));
        assert_eq!(shares(all().chain(hot).collect(), 4050), [4000, 50]);
    }
}
