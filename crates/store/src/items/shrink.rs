//! Giving blocks back: ordered, where what is hot survives, and fast, where whole blocks go.

use parking_lot::MutexGuard;
use sublet_types::Second;

use super::Items;
use super::merge::Evictor;
use super::segments::Ring;
use super::source::Bar;
use super::space_time::{Cut, Spread, Stamp};
use crate::arena::BlockId;
use crate::loss::Loss;
use crate::release_order::{BlockOrder, Candidate, Way};
use crate::tenants::Tenant;
use crate::thread::Thread;

/// Segments looked into to learn how space-time is spread, for each so many that are to go.
const SAMPLE_ONE_IN: usize = 4;

/// Segments looked into, at the least and at the most.
const SAMPLE_MIN: usize = 4;
const SAMPLE_MAX: usize = 32;

/// A release chooses among so many of the coldest segments for each that is to go. So it copies at most twice
/// what it gives back: a host that is short cannot wait for all that is held to be looked through.
const CHOICE: usize = 3;

/// But among so many at the least: heat is a segment's, and a few hot items may sit in a cold one.
const CHOICE_MIN: usize = 8;

/// How a tenant's items give blocks up.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// Of the coldest full segments that are known the coldest of what is in them goes; where none of those can go, of a sample. A put does
    /// not wait until all were looked at.
    OfFew,
    /// Of all segments, in a way.
    OfAll(Way),
}

/// A thread that gets blocks out of tenants' items.
struct Shrink<'a> {
    items: &'a Items,
    thread: &'a dyn Thread,
    now: Second,
    luck: u64,
}

impl Items {
    /// Has a tenant's items give up so many blocks, or all they have. The thread is pinned.
    pub(super) fn shrink(
        &self,
        tenant: &Tenant,
        blocks: u32,
        how: How,
        now: Second,
        thread: &dyn Thread,
    ) -> Loss {
        let shrink = Shrink {
            items: self,
            thread,
            now,
            luck: thread.luck(),
        };
        let segments = &self.part(tenant).segments;
        loop {
            if let Some(ring) = segments.try_ring(&self.arena) {
                return shrink.tenant(tenant, ring, blocks, how);
            }
            // Who looks at items has to hold blocks still, and waits for nobody.
            if !thread.unpinned(&mut || segments.await_ring()) {
                return Loss::default();
            }
        }
    }
}

impl Shrink<'_> {
    /// Makes a tenant, whose ring is held, give up `blocks` blocks, or all it has. They go to the free list.
    fn tenant(
        &self,
        tenant: &Tenant,
        mut ring: MutexGuard<'_, Ring>,
        blocks: u32,
        how: How,
    ) -> Loss {
        let segments = &self.items.part(tenant).segments;
        let held = segments.all().len();
        let given = || held.saturating_sub(segments.all().len());
        let mut loss = Loss::default();
        if let How::OfFew = how {
            self.ordered(tenant, &mut ring, blocks, Self::coldest_of_few, &mut loss);
        }
        if given() < blocks {
            segments.close_all(&self.items.arena, &mut ring);
            match how {
                // None of the few could go: somebody may still write into each of them.
                How::OfFew => {
                    self.ordered(
                        tenant,
                        &mut ring,
                        blocks,
                        Self::coldest_of_sample,
                        &mut loss,
                    );
                }
                How::OfAll(Way::Ordered) => {
                    self.ordered(tenant, &mut ring, blocks, Self::coldest_of_all, &mut loss);
                }
                How::OfAll(Way::Whole(order)) => {
                    self.drop_dead(tenant, &mut ring);
                    let order = self.whole_order(&ring, order);
                    self.drop_all(tenant, &mut ring, order, blocks, &mut loss);
                }
            }
        }
        loss.blocks = given();
        loss
    }

    fn evictor<'a>(&'a self, tenant: &'a Tenant, ring: &'a mut Ring) -> Evictor<'a> {
        Evictor::new(self.items, tenant, ring, self.thread.slot(), self.now)
    }

    fn drop_dead(&self, tenant: &Tenant, ring: &mut Ring) {
        let mut evictor = self.evictor(tenant, ring);
        while evictor.drop_dead() > 0 {}
    }

    /// The order in which whole blocks go.
    fn whole_order(&self, ring: &Ring, order: BlockOrder) -> Vec<BlockId> {
        let arena = &self.items.arena;
        let candidate = |block: BlockId| {
            let live = arena.block(block).live_bytes();
            Candidate::new(arena, block, live)
        };
        let mut candidates: Vec<Candidate> = ring.blocks.iter().map(candidate).collect();
        order(&mut candidates, self.luck);
        candidates.iter().map(|candidate| candidate.block).collect()
    }

    fn drop_all(
        &self,
        tenant: &Tenant,
        ring: &mut Ring,
        mut order: Vec<BlockId>,
        blocks: u32,
        loss: &mut Loss,
    ) {
        order.truncate(blocks as usize);
        let (items, bytes) = self.evictor(tenant, ring).drop_all(&order);
        loss.items += items;
        loss.bytes += bytes;
    }

    /// Expired first, then what has most space-time of the coldest segments: what has less than what must go is
    /// copied together. Others get at the ring between two segments.
    fn ordered(
        &self,
        tenant: &Tenant,
        ring: &mut MutexGuard<'_, Ring>,
        blocks: u32,
        coldest: fn(&Self, &Tenant, &Ring, usize) -> Vec<BlockId>,
        loss: &mut Loss,
    ) {
        let held = || self.items.part(tenant).segments.all().len();
        let until = held().saturating_sub(blocks);
        self.drop_dead(tenant, ring);
        let mut cut = None;
        while held() > until {
            let left = held().saturating_sub(until) as usize;
            let coldest = coldest(self, tenant, ring, left);
            if coldest.is_empty() {
                break;
            }
            let by = cut.unwrap_or_else(|| self.cut(tenant, &coldest, left));
            for block in coldest {
                if held() <= until {
                    break;
                }
                self.empty(tenant, ring, block, by, loss);
                self.thread.renew();
                MutexGuard::bump(ring);
            }
            ring.settle_target(&self.items.arena);
            cut = match by.lowered() {
                None => break,
                lower => lower,
            };
        }
    }

    /// The segments among which a put that takes a block chooses: the coldest that are known.
    fn coldest_of_few(&self, tenant: &Tenant, _: &Ring, _: usize) -> Vec<BlockId> {
        let all = self.items.part(tenant).segments.all();
        all.coldest(&self.items.arena).to_vec()
    }

    /// The segments among which such a put chooses where none of those could go.
    fn coldest_of_sample(&self, tenant: &Tenant, _: &Ring, blocks: usize) -> Vec<BlockId> {
        let all = self.items.part(tenant).segments.all();
        self.coldest_of(all.sample(&self.items.arena).into_iter(), blocks)
    }

    /// The segments among which a release of `blocks` blocks chooses.
    fn coldest_of_all(&self, _: &Tenant, ring: &Ring, blocks: usize) -> Vec<BlockId> {
        self.coldest_of(ring.blocks.iter(), blocks)
    }

    /// The coldest of some segments, of which `blocks` are to go.
    fn coldest_of(&self, some: impl Iterator<Item = BlockId>, blocks: usize) -> Vec<BlockId> {
        let choice = blocks.saturating_mul(CHOICE).max(CHOICE_MIN);
        // Looked at once: readers heat blocks meanwhile.
        let heats = some.map(|block| (self.items.arena.block(block).heat(), block));
        let mut coldest: Vec<(u32, BlockId)> = heats.collect();
        if choice < coldest.len() {
            coldest.select_nth_unstable_by_key(choice, |(heat, _)| *heat);
            coldest.truncate(choice);
        }
        coldest.sort_by_key(|(heat, _)| *heat);
        coldest.into_iter().map(|(_, block)| block).collect()
    }

    /// Works one segment out, if it is still there and complete.
    fn empty(&self, tenant: &Tenant, ring: &mut Ring, block: BlockId, cut: Cut, loss: &mut Loss) {
        let complete = self.items.arena.is_complete(block, self.thread.slot());
        if !complete || !ring.blocks.contains(&self.items.arena, block) {
            return;
        }
        let mut evictor = self.evictor(tenant, ring);
        evictor.empty(block, Bar::Spared(cut));
        loss.items += evictor.done.items_lost;
        loss.bytes += evictor.done.bytes_lost;
        loss.bytes_kept += evictor.done.bytes_kept;
    }

    /// Which items of `coldest` may stay if `blocks` of them are to go, by a sample.
    fn cut(&self, tenant: &Tenant, coldest: &[BlockId], blocks: usize) -> Cut {
        let wanted = (blocks / SAMPLE_ONE_IN).clamp(SAMPLE_MIN, SAMPLE_MAX);
        let stride = coldest.len().div_ceil(wanted).max(1);
        let mut spread = Spread::default();
        let now = self.items.part(tenant).segments.clock().now();
        let mut looked = 0;
        let complete = |block: &&BlockId| self.items.arena.is_complete(**block, self.thread.slot());
        for block in coldest.iter().step_by(stride).filter(complete) {
            self.count_levels(tenant, *block, now, &mut spread);
            looked += 1;
        }
        let room = looked as u64 * self.items.arena.block_bytes() as u64;
        let stays = coldest.len().saturating_sub(blocks) as u64;
        spread.cut(room * stays / coldest.len().max(1) as u64, now)
    }

    fn count_levels(&self, tenant: &Tenant, block: BlockId, now: Stamp, spread: &mut Spread) {
        let mut at = 0;
        while let Some((record, next)) = self.items.walk(block, at) {
            let here = next - record.len() as u32;
            let named = |slot: super::Slot| {
                let place = slot.place();
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
