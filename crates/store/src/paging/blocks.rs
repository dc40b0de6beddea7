//! How blocks come to pages, and go from one engine to the other.

use sublet_types::{ReleaseMode, Second};

use crate::arena::PageKind;
use crate::pages::{Displacing, PageLoss, Spilling};
use crate::store::{Pin, Worker};
use crate::tenants::Tenant;

/// A tenant's items give a block to its pages, or the other way round, when their coldest block is colder by this
/// factor: so that blocks do not go to and fro.
const WORTH_FACTOR: u32 = 2;

/// Blocks of persistent pages that make way for floors in one call of the chores.
const PIECE: u32 = 8;

impl Worker {
    /// Finds a block for a tenant's pages, or says that the put may displace one.
    pub(super) fn page_block(&self, tenant: &Tenant, kind: PageKind, now: Second) -> Displacing {
        let arena = &self.store().arena;
        if tenant.is_at_limit(1) {
            return match kind == PageKind::Ephemeral && self.trade(tenant, now) {
                true => Displacing::IfBound,
                false => Displacing::Always,
            };
        }
        if !self.may_pin(tenant, kind) {
            return Displacing::Always;
        }
        if self.open_block(tenant, kind, now) || matches!(arena.grow(), Ok(true)) {
            return Displacing::IfBound;
        }
        if arena.in_limbo() > 0 {
            self.unpinned(|| arena.settle());
            return Displacing::IfBound;
        }
        let room = self.items().capacity();
        let giver = match kind {
            PageKind::Ephemeral => self.store().tenants.gives_way(tenant, room),
            // The curves of persistent pages are straight lines: no order among them is better than equal shares.
            PageKind::Persistent => self.store().tenants.largest_gives_way(tenant, room),
        };
        let is_own = giver.tenant.id == tenant.id;
        let gave = match giver.pledge(1) {
            // One's own ephemeral pages are displaced singly, not a block at a time.
            _ if is_own && kind == PageKind::Ephemeral => self.trade(tenant, now),
            // Others had it, and somebody else gives way now.
            None => true,
            Some(_pledge) => {
                let given = self.give_block(giver.tenant, now);
                giver.tenant.gave_to(tenant, given);
                given > 0
            }
        };
        match gave {
            true => {
                self.unpinned(|| arena.settle());
                Displacing::IfBound
            }
            false => Displacing::Always,
        }
    }

    /// Whether another block of a kind leaves all floors as they are.
    fn may_pin(&self, tenant: &Tenant, kind: PageKind) -> bool {
        let tenants = &self.store().tenants;
        kind == PageKind::Ephemeral || tenants.may_pin(tenant, self.items().capacity())
    }

    /// Opens a free block for a tenant's pages, if it may have one. Says whether there was one.
    fn open_block(&self, tenant: &Tenant, kind: PageKind, now: Second) -> bool {
        let pages = &self.store().pages;
        if kind == PageKind::Ephemeral {
            return pages.open_block(tenant, kind, now);
        }
        let _pinning = self.store().tenants.pinning.lock();
        self.may_pin(tenant, kind) && pages.open_block(tenant, kind, now)
    }

    /// Has persistent pages that stand on others' floors go to their disks, a piece a call. Says whether there are more.
    pub(crate) fn clear_floors(&self, now: Second) -> bool {
        let tenants = &self.store().tenants;
        let Some((tenant, blocks)) = tenants.pinned_on_floors(self.items().capacity()) else {
            return false;
        };
        let _pin = Pin::new(self);
        let mut clearing = self.clearing(tenant, now);
        clearing.spill(blocks.min(PIECE));
        clearing.loss.blocks > 0
    }

    /// Has a tenant's items give a block to its pages, if it is worth much less than theirs, or if pages have none.
    fn trade(&self, tenant: &Tenant, now: Second) -> bool {
        let items = self.items().coldest(tenant);
        let trades = items.is_some_and(|items| {
            let pages = self.store().pages.coldest(tenant);
            pages.is_none_or(|pages| items.saturating_mul(WORTH_FACTOR) < pages)
        });
        trades
            && self
                .shrink_items(tenant, 1, ReleaseMode::Ordered, now)
                .blocks
                > 0
    }

    /// Has a tenant give up a block of whichever engine has the colder one. Says how many it gave.
    pub(crate) fn give_block(&self, tenant: &Tenant, now: Second) -> u32 {
        let items = self.items().coldest(tenant);
        let pages = self.store().pages.coldest(tenant);
        let from_pages = match (items, pages) {
            (Some(items), Some(pages)) => pages <= items,
            (items, _) => items.is_none(),
        };
        let given = match from_pages {
            true => self.evict_block(tenant, now),
            false => {
                self.shrink_items(tenant, 1, ReleaseMode::Ordered, now)
                    .blocks
            }
        };
        match (given, from_pages) {
            (0, true) => {
                self.shrink_items(tenant, 1, ReleaseMode::Ordered, now)
                    .blocks
            }
            (0, false) => self.evict_block(tenant, now),
            (given, _) => given,
        }
    }

    /// Whether the tenant that must give way for items of `tenant` has pages that are colder than its items.
    pub(crate) fn pages_are_colder(&self, tenant: &Tenant, blocks: u32) -> bool {
        let giver = self.items().giver(tenant, blocks).tenant;
        if self.store().pages.known(giver).is_none() || self.store().arena.may_grow() {
            return false;
        }
        match (
            self.items().coldest(giver),
            self.store().pages.coldest(giver),
        ) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(items), Some(pages)) => pages.saturating_mul(WORTH_FACTOR) < items,
        }
    }

    /// Has the tenant that must give way for items of `tenant` give up a block of pages.
    pub(crate) fn pages_give_way(&self, tenant: &Tenant, now: Second) -> bool {
        let giver = self.items().giver(tenant, 1);
        let Some(_pledge) = giver.pledge(1) else {
            return false;
        };
        let given = self.evict_block(giver.tenant, now);
        giver.tenant.gave_to(tenant, given);
        given > 0
    }

    /// Has a tenant's pages give up blocks.
    pub(crate) fn shrink_pages(
        &self,
        tenant: &Tenant,
        blocks: u32,
        mode: ReleaseMode,
        now: Second,
    ) -> PageLoss {
        if blocks == 0 || self.store().pages.known(tenant).is_none() {
            return PageLoss::default();
        }
        self.clear(tenant, blocks, mode, Spilling::Allowed, now)
    }

    fn clear(
        &self,
        tenant: &Tenant,
        blocks: u32,
        mode: ReleaseMode,
        spilling: Spilling,
        now: Second,
    ) -> PageLoss {
        let luck = self.moment(now).luck;
        let _pin = Pin::new(self);
        let mut clearing = self.clearing(tenant, now);
        clearing.shrink(blocks, mode, spilling, luck);
        clearing.loss
    }

    /// Has a tenant's ephemeral pages give up a block for a put. Says how many they gave.
    fn evict_block(&self, tenant: &Tenant, now: Second) -> u32 {
        if self.store().pages.known(tenant).is_none() {
            return 0;
        }
        let (mode, spilling) = (ReleaseMode::Ordered, Spilling::Never);
        self.clear(tenant, 1, mode, spilling, now).blocks
    }
}
