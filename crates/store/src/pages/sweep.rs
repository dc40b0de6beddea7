//! Sweeping: what leads to the frames of a dropped block is removed, before they are used again.
//!
//! Dropping a block costs the same whatever it holds; the price is paid here, later and elsewhere: by the chores,
//! or by whoever opens the block for pages again.

use std::sync::atomic::Ordering;

use sublet_types::{Second, TenantId};

use super::Pages;
use super::shard::Shard;
use crate::arena::{BlockId, PageKind};
use crate::eviction::Page;
use crate::frames::{FrameId, QueueId};
use crate::tenants::Tenant;

/// Blocks that the chores sweep in one call: under a millisecond.
const SWEPT_AT_ONCE: usize = 4;

impl Pages {
    /// Drops blocks of a tenant's ephemeral pages with all that is in them, and retires them: their memory goes when
    /// their readers have. Returns the pages that were lost.
    pub(super) fn drop_blocks(&self, tenant: &Tenant, blocks: &[BlockId]) -> u64 {
        let mut lost = 0;
        for block in blocks {
            let facts = self.arena.block(*block);
            // Before it is to be swept: nobody is handed a frame of it from then on.
            self.lost_block(tenant, PageKind::Ephemeral, *block);
            facts.former.store(tenant.id.0, Ordering::Relaxed);
            facts.unswept.store(true, Ordering::Release);
            lost += u64::from(self.arena.lose_all(*block).items);
        }
        self.unswept.lock().extend(blocks);
        self.arena.retire(blocks);
        lost
    }

    /// Hears that a block is the tenant's no longer.
    pub(super) fn lost_block(&self, tenant: &Tenant, kind: PageKind, block: BlockId) {
        let holdings = self.holdings(tenant);
        holdings.lost_block(kind, &self.arena, block);
        tenant.lost_block();
        if kind == PageKind::Persistent {
            tenant.lost_pinned_block();
        }
        if holdings.blocks(PageKind::Ephemeral) == 0 {
            tenant.tails.note_no_pages();
        }
    }

    /// Sweeps some of the dropped blocks. Says whether there are more.
    pub(super) fn sweep_some(&self) -> bool {
        for _ in 0..SWEPT_AT_ONCE {
            let Some(block) = self.unswept.lock().pop() else {
                return false;
            };
            self.sweep(block);
        }
        !self.unswept.lock().is_empty()
    }

    /// Sweeps a block, if that is still to be done. The caller holds no shard's lock.
    pub(super) fn sweep(&self, block: BlockId) {
        let facts = self.arena.block(block);
        if !facts.unswept.load(Ordering::Acquire) {
            return;
        }
        let _sweeping = self.sweeping.lock();
        if !facts.unswept.load(Ordering::Acquire) {
            return;
        }
        let former = TenantId(facts.former.load(Ordering::Relaxed));
        if let Some(tenant) = self.tenants.get(former) {
            // Whoever carries a frame of it from one shard to another does so under a shard's lock, and whoever comes
            // later sees that the block is leaving: so after this nobody carries one.
            for shard in self.holdings(tenant).shards() {
                drop(shard.lock());
            }
            for frame in self.frames.of_block(block) {
                self.sweep_frame(tenant, frame);
            }
            debug_assert!(self.is_clear(block), "a swept block is in no queue");
        }
        facts.unswept.store(false, Ordering::Release);
    }

    fn is_clear(&self, block: BlockId) -> bool {
        let mut frames = self.frames.of_block(block);
        frames.all(|frame| self.frames.get(frame).queue() == QueueId::NONE)
    }

    fn sweep_frame(&self, tenant: &Tenant, frame: FrameId) {
        // Only so is it known that it is in no queue: an eviction that lets a page be takes it out and puts it back.
        let mut shard = self.lock_shard_of(self.holdings(tenant), frame);
        if self.frames.get(frame).queue() != QueueId::NONE {
            self.unlink(&mut shard, frame);
        }
    }

    /// Takes a dropped frame out of its shard, whatever is in it.
    fn unlink(&self, shard: &mut Shard, frame: FrameId) {
        let facts = self.frames.get(frame);
        if facts.queue() == QueueId::FREE {
            shard.remove_free(&self.frames, frame, PageKind::Ephemeral);
            return;
        }
        let key = facts.key();
        let object = self.seed.object(key.pool, key.object);
        shard.remove(&self.frames, object, key);
        shard.eviction.lose(Page {
            frames: &self.frames,
            frame,
            hash: self.seed.page_of(object, key.index),
            now: Second(0),
        });
    }
}
