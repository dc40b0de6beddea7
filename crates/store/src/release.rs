//! Giving memory back, and the chores that keep tenants within what they may hold.

use std::sync::atomic::Ordering;

use sublet_types::{Bytes, Pages as PageCount, Second, Shrinking, TenantId};

use crate::api::*;
use crate::engine::{Cause, ENGINES, Engine, Engines};
use crate::loss::Loss;
use crate::release_order::{BlockOrder, Way};
use crate::tenants::Tenant;
use crate::worker::Worker;

/// Seconds after which heat counts half.
const HEAT_HALF_LIFE_SECS: u32 = 60;

/// Free blocks beyond this go back to the kernel, a part each second.
const FREE_KEPT: Bytes = Bytes::mib(128);

/// The part of the surplus of free blocks that goes back in a second.
const SURPLUS_ONE_IN: usize = 4;

/// Blocks that a tenant over its limit gives up in one call of the chores.
const LIMIT_PIECE: u32 = 32;

/// Waits for readers of the last moment in vain, at the most: half a second where others want the processor, as a reader does
/// that has lost it.
const WAITS_MAX: u32 = 50_000;

/// How hot a block of an engine is, and for how many blocks it stands.
struct Heat {
    heat: u32,
    engine: usize,
    blocks: f64,
}

/// How many of the `quota` coldest blocks each engine has.
fn shares(mut heats: Vec<Heat>, quota: u32) -> [u32; ENGINES] {
    heats.sort_by_key(|heat| heat.heat);
    let (mut shares, mut left) = ([0.0; ENGINES], f64::from(quota));
    for Heat { engine, blocks, .. } in heats {
        let take = blocks.min(left);
        shares[engine] += take;
        left -= take;
    }
    shares.map(|blocks| blocks.round() as u32)
}

impl Worker {
    /// Gives memory back to the kernel. Returns after the last block has left. Not within `pinned`.
    pub fn release(&self, release: Release, now: Second) -> Released {
        let way = Way::of(release.mode);
        self.release_from(release.tenant, release.amount, way, now)
    }

    /// The same from all tenants: whole blocks, in an order of the caller's own.
    pub fn release_by(&self, order: BlockOrder, amount: Bytes, now: Second) -> Released {
        self.release_from(None, amount, Way::Whole(order), now)
    }

    fn release_from(
        &self,
        tenant: Option<TenantId>,
        amount: Bytes,
        way: Way,
        now: Second,
    ) -> Released {
        let arena = &self.store().arena;
        let wanted = u64::from(self.store().blocks(amount));
        let before = arena.left();
        let missing = || wanted.saturating_sub(arena.left() - before);
        let mut total = Loss::default();
        if tenant.is_none() {
            arena.give_back(missing() as usize, arena.reserve());
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
        // Where the tenants have nothing left to give, eviction needs no reserve either.
        arena.give_back(missing() as usize, 0);
        Released {
            bytes: self.store().bytes((arena.left() - before) as u32),
            items_lost: total.items,
            bytes_lost: Bytes(total.bytes),
            bytes_kept: Bytes(total.bytes_kept),
            pages_lost: PageCount(total.pages),
        }
    }

    /// Has each tenant give up its quota of blocks, the coldest of whichever engine.
    fn shrink(&self, quotas: &[(&Tenant, u32)], way: Way, now: Second) -> Loss {
        let mut total = Loss::default();
        for (tenant, quota) in quotas {
            total.add(self.shrink_tenant(tenant, *quota, way, now));
        }
        total
    }

    /// Each engine gives as many as it has of the coldest, and what those before it could not; the last one gives all that is left, and
    /// the others what even that one could not.
    fn shrink_tenant(&self, tenant: &Tenant, quota: u32, way: Way, now: Second) -> Loss {
        let engines = self.store().engines();
        let give = |engine: &dyn Engine, blocks: u32| {
            let cause = Cause::Release(way);
            self.pinned(|| engine.give(tenant, blocks, cause, now, self))
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

    /// How many of a tenant's `quota` coldest blocks each engine has: where it has many, as far as a thousand of them tell, others each time.
    fn shares(&self, engines: &Engines<'_>, tenant: &Tenant, quota: u32) -> [u32; ENGINES] {
        let have_some = engines.map(|engine| engine.held(tenant) > 0);
        if have_some.iter().filter(|has| **has).count() < 2 {
            return have_some.map(|has| if has { quota } else { 0 });
        }
        let heats = (0..ENGINES).flat_map(|n| self.heats(engines, tenant, n));
        shares(heats.collect(), quota)
    }

    /// How hot some of a tenant's blocks in one engine are.
    fn heats(&self, engines: &Engines<'_>, tenant: &Tenant, engine: usize) -> Vec<Heat> {
        let arena = &self.store().arena;
        let Some(list) = engines[engine].blocks_of(tenant) else {
            return Vec::new();
        };
        let sample = list.sample(arena);
        let blocks = f64::from(list.len()) / sample.len().max(1) as f64;
        let of_sample = sample.iter().map(|block| Heat {
            heat: arena.block(*block).heat(),
            engine,
            blocks,
        });
        of_sample.collect()
    }

    /// Brings tenants under their ceilings and, unless the store was told to leave that, their targets: a piece of each a
    /// call. Says whether there is more to do.
    fn keep_limits(&self, now: Second) -> bool {
        let shrinking = self.store().shrinking();
        let over = |tenant: &Tenant| match shrinking {
            Shrinking::Active => tenant.blocks_over_limit(),
            Shrinking::Never => tenant.blocks_over_ceiling(),
        };
        let tenants = self.store().tenants.iter();
        let quotas: Vec<(&Tenant, u32)> = tenants
            .filter(|tenant| over(tenant) > 0)
            .map(|tenant| (tenant, over(tenant).min(LIMIT_PIECE)))
            .collect();
        self.shrink(&quotas, Way::Ordered, now).blocks > 0
            && quotas.iter().any(|(tenant, _)| over(tenant) > 0)
    }

    /// Who gives how many blocks: again and again the one with the largest fairness.
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

    /// The chores of the background: dead segments, dropped pages, the index's size, heat, surplus, limits. Takes about a
    /// millisecond; says whether there is more to do at once. Call it at least each second.
    pub fn upkeep(&self, now: Second) -> bool {
        let mut more = false;
        for engine in self.store().engines() {
            more |= self.pinned(|| engine.chores(now));
        }
        if let Some(before) = self.store().begin_second(now) {
            for engine in self.store().engines() {
                self.pinned(|| engine.chores_of_second(now, self));
            }
            // Seconds may be left out where there is much to do.
            if before.0 / HEAT_HALF_LIFE_SECS < now.0 / HEAT_HALF_LIFE_SECS {
                self.store().arena.cool_all();
            }
            self.return_surplus();
        }
        more |= self.pinned(|| self.reclaiming(now).clear_floors());
        more |= self.keep_limits(now);
        more
    }

    /// Has tenants that have all they may have evict a few pages ahead of their puts. Says whether any of them puts: then it is worth to come
    /// again in some milliseconds.
    pub fn evict_ahead(&self, whom: Whom, now: Second) -> bool {
        let mut puts = false;
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
    fn shrinking(&self) -> Shrinking {
        match self.shrinks.load(Ordering::Relaxed) {
            true => Shrinking::Active,
            false => Shrinking::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heats(engine: usize, blocks: f64, heats: impl Iterator<Item = u32>) -> Vec<Heat> {
        let of = |heat| Heat {
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

    /// Of 4,000 blocks a thousand were looked at, each stands for four; the other engine's 100 were looked at themselves.
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
