//! Prefetches what the next pages to go from a shard will touch.

use super::PageStore;
use super::arrivals::TOGETHER_MAX;
use super::shard::Shard;
use super::tenant_pages::TenantPages;
use crate::arena::{PageKind, PrefetchBatch};
use crate::frames::{FrameId, FrameQueue};

/// Prefetches what the next victim of a shard will touch. Its record was read when the last one went, and there is time
/// until it is needed.
pub(super) fn prefetch_next_victim(pages: &PageStore, tenant_pages: &TenantPages, shard: &Shard) {
    if !tenant_pages.are_beyond_caches() {
        return;
    }
    let next = shard.eviction.next_victim();
    if let Some((object, key)) = next.and_then(|frame| pages.page_in(frame)) {
        shard.prefetch_victim(object, key, pages.seed.page_of(object, key.index));
    }
}

/// Prefetches what the next victims of a shard will touch, this many of them.
pub(super) fn prefetch_next_victims(pages: &PageStore, shard: &Shard, count: usize) {
    let after = |frame: &FrameId| FrameQueue::after(&pages.frames, *frame);
    let next = std::iter::successors(shard.next_frame(PageKind::Ephemeral), after).take(count);
    let mut batch = PrefetchBatch::new();
    let mut going = [None; TOGETHER_MAX];
    for (gone, frame) in going.iter_mut().zip(next) {
        *gone = pages.page_in(frame);
        if let Some((object, gone)) = *gone {
            shard.directory.batch_slot(object, gone, &mut batch);
            let hash = pages.seed.page_of(object, gone.index);
            batch_ghost(shard, hash, &mut batch);
        }
        batch.fetch();
    }
    for (object, gone) in going.into_iter().flatten() {
        shard.directory.batch_leaf(object, gone, &mut batch);
    }
    batch.fetch();
}

/// Adds what will remember a page of that hash, when it is gone, to the batch.
pub(super) fn batch_ghost(shard: &Shard, hash: u64, batch: &mut PrefetchBatch) {
    let line = shard.eviction.ghost_line(hash);
    line.into_iter().for_each(|line| batch.add(line));
}
