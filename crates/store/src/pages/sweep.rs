//! Sweeping: removes what leads to the frames of a dropped block, before they are used again.
//!
//! Dropping a block costs the same whatever it holds. The cost is paid here, later: by the chores, or by the thread
//! that opens the block for pages again.

use std::sync::atomic::Ordering;

use sublet_types::{Second, TenantId};

use super::PageStore;
use super::shard::Shard;
use crate::arena::{BlockId, PageKind};
use crate::eviction::PageRef;
use crate::frames::{FrameId, QueueId};
use crate::tenants::Tenant;

/// Blocks that the chores sweep in one call, which takes less than a millisecond.
const SWEPT_AT_ONCE: usize = 4;

impl PageStore {
    /// Drops blocks of a tenant's ephemeral pages with all that is in them, and retires them. Their memory goes when
    /// their readers have left. Returns the pages that were lost.
    pub(super) fn drop_blocks(&self, tenant: &Tenant, blocks: &[BlockId]) -> u64 {
        let mut lost = 0;
        for block in blocks {
            let facts = self.arena.block(*block);
            // Before the block is listed for sweeping: from then on no thread gets a frame of it.
            self.remove_block(tenant, PageKind::Ephemeral, *block);
            facts.former.store(tenant.id.0, Ordering::Relaxed);
            facts.unswept.store(true, Ordering::Release);
            lost += u64::from(self.arena.lose_all(*block).items);
        }
        self.unswept.lock().extend(blocks);
        self.arena.retire(blocks);
        lost
    }

    /// Records that a block is no longer the tenant's.
    pub(super) fn remove_block(&self, tenant: &Tenant, kind: PageKind, block: BlockId) {
        let tenant_pages = self.tenant_pages(tenant);
        tenant_pages.remove_block(kind, &self.arena, block);
        tenant.lost_block();
        if kind == PageKind::Persistent {
            tenant.lost_pinned_block();
        }
        if tenant_pages.blocks(PageKind::Ephemeral) == 0 {
            tenant.tails.clear_pages();
        }
    }

    /// Sweeps some of the dropped blocks. Returns whether there are more.
    pub(super) fn sweep_some(&self) -> bool {
        for _ in 0..SWEPT_AT_ONCE {
            let Some(block) = self.unswept.lock().pop() else {
                return false;
            };
            self.sweep(block);
        }
        !self.unswept.lock().is_empty()
    }

    /// Sweeps a block, if that is still due. The caller holds no shard's lock.
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
            // A thread that moves a frame of the block from one shard to another does so under a shard's lock. A later
            // thread sees that the block is leaving. So after this loop no thread moves one.
            for shard in self.tenant_pages(tenant).shards() {
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
        // Only under this lock is the frame known to be in no queue. An eviction that spares a page takes it out and
        // puts it back.
        let mut shard = self.lock_shard_of(self.tenant_pages(tenant), frame);
        if self.frames.get(frame).queue() != QueueId::NONE {
            self.unlink_dropped(&mut shard, frame);
        }
    }

    /// Removes a dropped frame from its shard, whatever is in it.
    fn unlink_dropped(&self, shard: &mut Shard, frame: FrameId) {
        let facts = self.frames.get(frame);
        if facts.queue() == QueueId::FREE {
            shard.remove_free(&self.frames, frame, PageKind::Ephemeral);
            return;
        }
        let key = facts.key();
        let object = self.seed.object(key.pool, key.object);
        shard.remove(&self.frames, object, key);
        shard.eviction.drop_with_block(PageRef {
            frames: &self.frames,
            frame,
            hash: self.seed.page_of(object, key.index),
            now: Second(0),
        });
    }
}
