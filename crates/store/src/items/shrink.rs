//! Gives blocks back: in order, so that what is hot survives, or fast, as whole blocks.

use parking_lot::MutexGuard;
use sublet_types::Second;

use super::Items;
use super::merge::Evictor;
use super::segment_cursor::SurvivalRule;
use super::segments::FullSegments;
use super::space_time::{HitStamp, ReleaseCutoff, SpaceTimeHistogram};
use crate::arena::BlockId;
use crate::loss::Loss;
use crate::pinned_thread::PinnedThread;
use crate::release_order::{BlockOrder, ReleaseCandidate, ReleaseMethod};
use crate::tenants::Tenant;

/// For this many segments that are to go, one is sampled to learn how space-time is spread.
const SAMPLE_ONE_IN: usize = 4;

/// The least and the most segments that are sampled.
const SAMPLE_MIN: usize = 4;
const SAMPLE_MAX: usize = 32;

/// A release chooses among this many of the coldest segments per segment that is to go. So it copies at most twice what
/// it gives back. A host that is short cannot wait until everything is examined.
const CHOICE: usize = 3;

/// It chooses among at least this many. Heat belongs to a segment, and a few hot items may sit in a cold one.
const CHOICE_MIN: usize = 8;

/// The segments from which a tenant's items give blocks up.
#[derive(Clone, Copy)]
pub(super) enum ShrinkScope {
    /// The coldest full segments that are known; their coldest items go. If none of these segments can go, a sample is
    /// used. A put does not wait until all segments were examined.
    OfFew,
    /// All segments, by this method.
    OfAll(ReleaseMethod),
}

/// A thread that frees blocks of tenants' items.
struct ItemShrinker<'a> {
    items: &'a Items,
    thread: &'a dyn PinnedThread,
    now: Second,
    random: u64,
}

impl Items {
    /// Makes a tenant's items give up this many blocks, or all they have. The thread is pinned.
    pub(super) fn shrink(
        &self,
        tenant: &Tenant,
        blocks: u32,
        how: ShrinkScope,
        now: Second,
        thread: &dyn PinnedThread,
    ) -> Loss {
        let shrink = ItemShrinker {
            items: self,
            thread,
            now,
            random: thread.next_random(),
        };
        let segments = &self.tenant_items(tenant).segments;
        loop {
            if let Some(full) = segments.try_lock_full(&self.arena) {
                return shrink.shrink_tenant(tenant, full, blocks, how);
            }
            // A thread that looks at items must stay pinned, and waits for nobody.
            if !thread.try_unpinned(&mut || segments.await_full()) {
                return Loss::default();
            }
        }
    }
}

impl ItemShrinker<'_> {
    /// Makes a tenant whose full segments are locked give up `blocks` blocks, or all it has. They go to the free list.
    fn shrink_tenant(
        &self,
        tenant: &Tenant,
        mut full: MutexGuard<'_, FullSegments>,
        blocks: u32,
        how: ShrinkScope,
    ) -> Loss {
        let segments = &self.items.tenant_items(tenant).segments;
        let held = segments.all().len();
        let given = || held.saturating_sub(segments.all().len());
        let mut loss = Loss::default();
        if let ShrinkScope::OfFew = how {
            self.shrink_ordered(tenant, &mut full, blocks, Self::coldest_of_few, &mut loss);
        }
        if given() < blocks {
            segments.close_all(&self.items.arena, &mut full);
            match how {
                // None of the few could go. A thread may still write into each of them.
                ShrinkScope::OfFew => {
                    self.shrink_ordered(
                        tenant,
                        &mut full,
                        blocks,
                        Self::coldest_of_sample,
                        &mut loss,
                    );
                }
                ShrinkScope::OfAll(ReleaseMethod::Ordered) => {
                    self.shrink_ordered(tenant, &mut full, blocks, Self::coldest_of_all, &mut loss);
                }
                ShrinkScope::OfAll(ReleaseMethod::Whole(order)) => {
                    self.drop_dead(tenant, &mut full);
                    let order = self.whole_order(&full, order);
                    self.drop_all(tenant, &mut full, order, blocks, &mut loss);
                }
            }
        }
        loss.blocks = given();
        loss
    }

    fn evictor<'a>(&'a self, tenant: &'a Tenant, full: &'a mut FullSegments) -> Evictor<'a> {
        Evictor::new(self.items, tenant, full, self.thread.pin_slot(), self.now)
    }

    fn drop_dead(&self, tenant: &Tenant, full: &mut FullSegments) {
        let mut evictor = self.evictor(tenant, full);
        while evictor.drop_dead() > 0 {}
    }

    /// The order in which whole blocks go.
    fn whole_order(&self, full: &FullSegments, order: BlockOrder) -> Vec<BlockId> {
        let arena = &self.items.arena;
        let candidate = |block: BlockId| {
            let live = arena.block(block).live_bytes();
            ReleaseCandidate::new(arena, block, live)
        };
        let mut candidates: Vec<ReleaseCandidate> = full.blocks.iter().map(candidate).collect();
        order(&mut candidates, self.random);
        candidates.iter().map(|candidate| candidate.block).collect()
    }

    fn drop_all(
        &self,
        tenant: &Tenant,
        full: &mut FullSegments,
        mut order: Vec<BlockId>,
        blocks: u32,
        loss: &mut Loss,
    ) {
        order.truncate(blocks as usize);
        let (items, bytes) = self.evictor(tenant, full).drop_all(&order);
        loss.items += items;
        loss.bytes += bytes;
    }

    /// Expired items go first. Then those with most space-time in the coldest segments go, and the others are copied
    /// together. Between two segments, other threads can lock the full segments.
    fn shrink_ordered(
        &self,
        tenant: &Tenant,
        full: &mut MutexGuard<'_, FullSegments>,
        blocks: u32,
        coldest: fn(&Self, &Tenant, &FullSegments, usize) -> Vec<BlockId>,
        loss: &mut Loss,
    ) {
        let held = || self.items.tenant_items(tenant).segments.all().len();
        let until = held().saturating_sub(blocks);
        self.drop_dead(tenant, full);
        let mut cut = None;
        while held() > until {
            let left = held().saturating_sub(until) as usize;
            let coldest = coldest(self, tenant, full, left);
            if coldest.is_empty() {
                break;
            }
            let by = cut.unwrap_or_else(|| self.cut(tenant, &coldest, left));
            for block in coldest {
                if held() <= until {
                    break;
                }
                self.empty_segment(tenant, full, block, by, loss);
                self.thread.renew_pin();
                MutexGuard::bump(full);
            }
            full.settle_target(&self.items.arena);
            cut = match by.lowered() {
                None => break,
                lower => lower,
            };
        }
    }

    /// The segments among which a put that takes a block chooses: the coldest that are known.
    fn coldest_of_few(&self, tenant: &Tenant, _: &FullSegments, _: usize) -> Vec<BlockId> {
        let all = self.items.tenant_items(tenant).segments.all();
        all.coldest(&self.items.arena).to_vec()
    }

    /// The segments among which such a put chooses if none of those could go.
    fn coldest_of_sample(&self, tenant: &Tenant, _: &FullSegments, blocks: usize) -> Vec<BlockId> {
        let all = self.items.tenant_items(tenant).segments.all();
        self.coldest_of(all.sample(&self.items.arena).into_iter(), blocks)
    }

    /// The segments among which a release of `blocks` blocks chooses.
    fn coldest_of_all(&self, _: &Tenant, full: &FullSegments, blocks: usize) -> Vec<BlockId> {
        self.coldest_of(full.blocks.iter(), blocks)
    }

    /// The coldest of some segments, of which `blocks` are to go.
    fn coldest_of(&self, some: impl Iterator<Item = BlockId>, blocks: usize) -> Vec<BlockId> {
        let choice = blocks.saturating_mul(CHOICE).max(CHOICE_MIN);
        // Read each heat once, because readers heat blocks meanwhile.
        let heats = some.map(|block| (self.items.arena.block(block).heat(), block));
        let mut coldest: Vec<(u32, BlockId)> = heats.collect();
        if choice < coldest.len() {
            coldest.select_nth_unstable_by_key(choice, |(heat, _)| *heat);
            coldest.truncate(choice);
        }
        coldest.sort_by_key(|(heat, _)| *heat);
        coldest.into_iter().map(|(_, block)| block).collect()
    }

    /// Empties one segment, if it is still there and complete.
    fn empty_segment(
        &self,
        tenant: &Tenant,
        full: &mut FullSegments,
        block: BlockId,
        cut: ReleaseCutoff,
        loss: &mut Loss,
    ) {
        let complete = self.items.arena.is_complete(block, self.thread.pin_slot());
        if !complete || !full.blocks.contains(&self.items.arena, block) {
            return;
        }
        let mut evictor = self.evictor(tenant, full);
        evictor.empty(block, SurvivalRule::Spared(cut));
        loss.items += evictor.done.items_lost;
        loss.bytes += evictor.done.bytes_lost;
        loss.bytes_kept += evictor.done.bytes_kept;
    }

    /// A cutoff for the items of `coldest` that may stay if `blocks` of its segments are to go, from a sample.
    fn cut(&self, tenant: &Tenant, coldest: &[BlockId], blocks: usize) -> ReleaseCutoff {
        let wanted = (blocks / SAMPLE_ONE_IN).clamp(SAMPLE_MIN, SAMPLE_MAX);
        let stride = coldest.len().div_ceil(wanted).max(1);
        let mut spread = SpaceTimeHistogram::default();
        let now = self.items.tenant_items(tenant).segments.clock().now();
        let mut looked = 0;
        let complete = |block: &&BlockId| {
            self.items
                .arena
                .is_complete(**block, self.thread.pin_slot())
        };
        for block in coldest.iter().step_by(stride).filter(complete) {
            self.count_levels(tenant, *block, now, &mut spread);
            looked += 1;
        }
        let room = looked as u64 * self.items.arena.block_bytes() as u64;
        let stays = coldest.len().saturating_sub(blocks) as u64;
        spread.cut(room * stays / coldest.len().max(1) as u64, now)
    }

    fn count_levels(
        &self,
        tenant: &Tenant,
        block: BlockId,
        now: HitStamp,
        spread: &mut SpaceTimeHistogram,
    ) {
        let mut at = 0;
        while let Some((record, next)) = self.items.walk(block, at) {
            let here = next - record.len() as u32;
            let named = |slot: super::Slot| {
                let place = slot.record_address();
                (place.block == block && place.at == here).then_some(slot.stamp())
            };
            let hash = self.items.hash_of_record(tenant.id, &record);
            let table = self.items.table_of(record.fields.role);
            let expired = record.fields.expiry.is_past(self.now);
            let found = table.filter(|_| !expired);
            if let Some((_, stamp)) = found.and_then(|table| table.find(hash, named)) {
                let len = record.len() as u64;
                spread.add(stamp.level(now, len), len);
            }
            at = next;
        }
    }
}
