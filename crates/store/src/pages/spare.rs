//! Frames for new pages: free ones, and those that a tenant's other shards can spare.

use sublet_types::Second;

use super::Pages;
use super::evict::{Patience, evict};
use super::frame_source::{Asked, Spare};
use super::shard::Shard;
use super::shards_with_spare::Stock;
use crate::arena::PageKind;
use crate::frames::FrameId;
use crate::tenants::Tenant;

/// Free frames that a shard takes over at once, with the one that it needs.
const BORROWED: usize = 8;

impl Pages {
    /// A free frame of a shard of the tenant's, of a block that stays.
    pub(super) fn free_frame(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        patience: &mut Patience,
    ) -> Option<FrameId> {
        while !patience.is_over() {
            let frame = shard.pop_free(&self.frames, kind)?;
            if self.takes_pages(frame, tenant, kind) {
                return Some(frame);
            }
            patience.wear();
        }
        None
    }

    /// A free frame of another shard with such a stock, and a few more that become this one's with it. Locks only who is not
    /// locked.
    pub(super) fn borrow_frames(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        wanted: (Stock, PageKind),
        patience: &mut Patience,
    ) -> Asked {
        let (stock, kind) = wanted;
        let (mut is_one_held, mut from) = (false, 0);
        while let Some(number) = shard.sibling_with(stock, kind, from) {
            from = number + 1;
            let Some(mut sibling) = self.holdings(tenant).shards()[number].try_lock() else {
                is_one_held = true;
                continue;
            };
            if let Some(spare) = self.take_over(tenant, shard, &mut sibling, kind, patience) {
                return Asked::Has(spare);
            }
        }
        match is_one_held && !patience.is_over() {
            true => Asked::Perhaps,
            false => Asked::Nobody,
        }
    }

    /// A free frame of a sibling, and a few more that become this shard's with it.
    fn take_over(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        sibling: &mut Shard,
        kind: PageKind,
        patience: &mut Patience,
    ) -> Option<Spare> {
        let mut free = || self.free_spare(tenant, sibling, kind, patience);
        let first = free()?;
        self.frames.get(first.frame()).set_shard(shard.number());
        // Not one of its own: those may be of a dropped block, and patience have ended amid them.
        for free in std::iter::from_fn(free).take(BORROWED - 1) {
            self.push_spare(shard, &free, kind);
        }
        Some(first)
    }

    /// Makes a frame of another shard a free one of this one. The put that takes it displaced the page that went for it.
    pub(super) fn push_spare(&self, shard: &mut Shard, spare: &Spare, kind: PageKind) {
        if let Spare::Displaced(frame) = spare {
            self.lose(*frame);
        }
        self.frames.get(spare.frame()).set_shard(shard.number());
        shard.push_free(&self.frames, spare.frame(), kind);
        if !matches!(spare, Spare::Free(_)) {
            shard.ahead.add(1);
        }
    }

    /// A free frame of a shard, of a block that stays, by how it came to be free.
    pub(super) fn free_spare(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        patience: &mut Patience,
    ) -> Option<Spare> {
        let frame = self.free_frame(tenant, shard, kind, patience)?;
        Some(shard.spared(frame, kind))
    }

    /// A frame that a shard has for another one of its tenant: free, or of an ephemeral page that goes.
    pub(super) fn spare(
        &self,
        tenant: &Tenant,
        shard: &mut Shard,
        kind: PageKind,
        now: Second,
        patience: &mut Patience,
    ) -> Option<Spare> {
        match self.free_spare(tenant, shard, kind, patience) {
            Some(free) => Some(free),
            None if kind == PageKind::Persistent => None,
            None => evict(self, tenant, shard, now, patience).map(Spare::Displaced),
        }
    }
}
