//! Giving memory back, and the chores that keep tenants within what they may hold.

use std::sync::atomic::Ordering;

use sublet_types::{Bytes, Pages as PageCount, ReleaseMode, Second, Shrinking, TenantId};

use crate::api::*;
use crate::arena::PageKind;
use crate::items::{Loss, Shrink};
use crate::pages::PageLoss;
use crate::store::{Pin, Worker};
use crate::tenants::Tenant;

/// Seconds after which heat counts half.
const HEAT_HALF_LIFE_SECS: u32 = 60;

/// Seconds that expired and flushed segments are left alone where nobody needs room, so that a read of them
/// can still say why it missed.
const EXPIRED_GRACE_SECS: u32 = 30;

/// Free blocks beyond this go back to the kernel, a part each second.
const FREE_KEPT: Bytes = Bytes::mib(128);

/// The part of the surplus of free blocks that goes back in a second.
const SURPLUS_ONE_IN: usize = 4;

/// Blocks that a tenant over its limit gives up in one call of the chores.
const LIMIT_PIECE: u32 = 32;

/// Blocks whose pages are moved together for one tenant in a second.
const EVACUATED_AT_ONCE: u32 = 16;

/// Waits for readers of the last moment in vain, at the most: half a second where others want the processor, as a reader does
/// that has lost it.
const WAITS_MAX: u32 = 50_000;

/// What shrinking cost, in both engines.
#[derive(Clone, Copy, Debug, Default)]
struct Shrunk {
    items: Loss,
    pages: PageLoss,
}

impl Shrunk {
    fn blocks(&self) -> u32 {
        self.items.blocks + self.pages.blocks
    }

    fn add(&mut self, other: Shrunk) {
        self.items.add(other.items);
        self.pages.add(other.pages);
    }
}

impl Worker {
    /// Gives memory back to the kernel. Returns after the last block has left. Not within `pinned`.
    pub fn release(&self, release: Release, now: Second) -> Released {
        let arena = &self.store().arena;
        let wanted = u64::from(self.store().blocks(release.amount));
        let before = arena.left();
        let missing = || wanted.saturating_sub(arena.left() - before);
        let mut total = Shrunk::default();
        if release.tenant.is_none() {
            arena.give_back(missing() as usize, arena.reserve());
        }
        let mut waits = 0;
        while waits < WAITS_MAX {
            let missed = missing();
            if missed == 0 {
                break;
            }
            let blocks = (missed as u32).saturating_sub(arena.in_limbo() as u32);
            let loss = self.shrink(&self.quotas(release.tenant, blocks), release.mode, now);
            total.add(loss);
            arena.give_back(missing() as usize, arena.reserve());
            if missing() == missed {
                if loss.blocks() == 0 && arena.in_limbo() == 0 {
                    break;
                }
                waits += 1;
                std::thread::yield_now();
            }
        }
        // Where the tenants have nothing left to give, eviction needs no reserve either.
        arena.give_back(missing() as usize, 0);
        let page_bytes = self.store().pages.page_bytes() as u64;
        Released {
            bytes: self.store().bytes((arena.left() - before) as u32),
            items_lost: total.items.items,
            bytes_lost: Bytes(total.items.bytes + total.pages.pages * page_bytes),
            bytes_kept: Bytes(total.items.bytes_kept + total.pages.kept * page_bytes),
            pages_lost: PageCount(total.pages.pages),
        }
    }

    /// Has each tenant give up its quota of blocks, the coldest of either engine.
    fn shrink(&self, quotas: &[(&Tenant, u32)], mode: ReleaseMode, now: Second) -> Shrunk {
        let mut total = Shrunk::default();
        for (tenant, quota) in quotas {
            let mut pages = self.shrink_pages(tenant, self.pages_share(tenant, *quota), mode, now);
            let left = quota.saturating_sub(pages.blocks);
            let items = self.shrink_items(tenant, left, mode, now);
            let left = left.saturating_sub(items.blocks);
            pages.add(self.shrink_pages(tenant, left, mode, now));
            total.add(Shrunk { items, pages });
        }
        total
    }

    /// How many of a tenant's `quota` coldest blocks are of pages.
    fn pages_share(&self, tenant: &Tenant, quota: u32) -> u32 {
        if self.store().pages.held_by(tenant) == 0 {
            return 0;
        }
        let heat = |block| self.store().arena.block(block).heat();
        let of_pages = self.store().pages.blocks_of(tenant, PageKind::Ephemeral);
        let of_pages = of_pages.into_iter().map(|block| (heat(block), true));
        let of_items = self.items().blocks_of(tenant).into_iter();
        let of_items = of_items.map(|block| (heat(block), false));
        let mut heats: Vec<(u32, bool)> = of_pages.chain(of_items).collect();
        heats.sort_unstable_by_key(|(heat, _)| *heat);
        let coldest = heats.iter().take(quota as usize);
        coldest.filter(|(_, of_pages)| *of_pages).count() as u32
    }

    /// Has a tenant's items give up blocks.
    pub(crate) fn shrink_items(
        &self,
        tenant: &Tenant,
        blocks: u32,
        mode: ReleaseMode,
        now: Second,
    ) -> Loss {
        if blocks == 0 {
            return Loss::default();
        }
        let renew_pin = || self.renew_pin();
        let shrink = Shrink {
            items: self.items(),
            me: self.slot(),
            renew_pin: &renew_pin,
            now,
            luck: self.moment(now).luck | 1,
        };
        let _pin = Pin::new(self);
        loop {
            if let Some(ring) = self.items().part(tenant).segments.try_ring() {
                return shrink.tenant(tenant, ring, blocks, mode);
            }
            // Who looks at items has to hold blocks still, and waits for nobody.
            if self.keeps_its_pin() {
                return Loss::default();
            }
            self.unpinned(|| self.items().part(tenant).segments.await_ring());
        }
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
        self.shrink(&quotas, ReleaseMode::Ordered, now).blocks() > 0
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
        let mut more = self.pinned(|| self.items().tidy_index(now));
        more |= self.pinned(|| self.store().pages.sweep_some());
        if self.items().is_new_second(now) {
            let then = Second(now.0.saturating_sub(EXPIRED_GRACE_SECS));
            self.pinned(|| self.items().drop_expired(self.slot(), then));
            self.pinned(|| self.items().crawl(then));
            if now.0.is_multiple_of(HEAT_HALF_LIFE_SECS) {
                self.store().arena.cool_all();
            }
            self.evacuate(now);
            self.return_surplus();
            self.pinned(|| self.store().pages.fit_all(now));
        }
        more |= self.clear_floors(now);
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

    /// Moves pages together where there are many free frames between them.
    fn evacuate(&self, now: Second) {
        for tenant in self.store().tenants.iter() {
            let evacuates = |_: &u32| self.pinned(|| self.clearing(tenant, now).evacuate());
            (0..EVACUATED_AT_ONCE).take_while(evacuates).for_each(drop);
        }
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
