//! Eviction of items: copies what is hot out of the oldest full segment and gives its block up.
//!
//! ```text
//!   oldest ─► [S][S][S][S][S][S][S] ◄─ newest: filled by new items, or by survivors
//!              │                 ▲
//!              └──── survivors ──┘
//! ```
//!
//! The order is Segcache's: survivors join the newest segments, so that every item is looked at once per turnover. Age
//! since the last hit times size decides which items survive. It is compared with a bar that moves, so that at most
//! half of what is worked through is kept. Threads that need room do the work in small steps. There is no extra thread
//! and no pause.

use std::sync::atomic::Ordering;

use sublet_types::Second;

use super::Items;
use super::record::{Record, RecordFields};
use super::segment_cursor::{SegmentCursor, SurvivalRule};
use super::segments::{FullSegments, Recycling};
use super::slot::{RecordAddress, Slot};
use super::space_time::HitStamp;
use super::table::LockedStripe;
use super::tenant_items::TenantItems;
use crate::arena::{BlockId, BlockOwner, PinSlot};
use crate::tenants::Tenant;

/// The most segments that are looked at to find one that is dead or mostly dead.
const CANDIDATES_MAX: usize = 512;

/// While memory is free, a segment is worked through only if less than this fraction of it is alive. Copying that costs
/// less than having the kernel clear another block.
const RECYCLED_BELOW: u32 = 4;

/// Where work through segments ends: at whichever of these comes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvictionGoal {
    /// Bytes of records that are not kept.
    pub(super) freed: u64,
    /// Bytes of records worked through.
    pub(super) worked: u64,
    /// Blocks given up.
    pub(super) blocks: u32,
}

impl EvictionGoal {
    /// No limit.
    const ALL: EvictionGoal = EvictionGoal {
        freed: u64::MAX,
        worked: u64::MAX,
        blocks: u32::MAX,
    };

    /// One block, whatever it takes.
    pub(super) const BLOCK: EvictionGoal = EvictionGoal {
        blocks: 1,
        ..EvictionGoal::ALL
    };

    /// About this many bytes worked through.
    pub(super) fn piece(worked: u64) -> EvictionGoal {
        EvictionGoal {
            worked,
            ..EvictionGoal::ALL
        }
    }
}

/// The result of work through segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EvictionProgress {
    /// Bytes of records worked through.
    pub(super) worked: u64,
    /// Blocks given up.
    pub(super) blocks: u32,
    /// Of these, blocks that were entirely dead.
    dead: u32,
    /// Blocks opened for survivors.
    opened: u32,
    pub(super) items_lost: u64,
    pub(super) bytes_lost: u64,
    pub(super) bytes_kept: u64,
    /// Whether an item that must survive found no room.
    pub(super) stuck: bool,
    /// Whether the next segment is still being written.
    pub(super) waits: bool,
}

impl EvictionProgress {
    fn has_reached(&self, aim: &EvictionGoal) -> bool {
        self.blocks >= aim.blocks
            || self.worked >= aim.worked
            || self.worked - self.bytes_kept >= aim.freed
    }
}

/// How far a step came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    /// It reached its goal.
    Goal,
    /// Nothing is left in the segment.
    SegmentDone,
    /// An item that must survive found no room.
    Stuck,
}

/// A thread that works on one tenant's segments.
pub(super) struct Evictor<'a> {
    items: &'a Items,
    tenant: &'a Tenant,
    tenant_items: &'a TenantItems,
    pub(super) full: &'a mut FullSegments,
    /// The pin of the thread.
    pin: &'a PinSlot,
    now: Second,
    pub(super) done: EvictionProgress,
}

impl<'a> Evictor<'a> {
    pub(super) fn new(
        items: &'a Items,
        tenant: &'a Tenant,
        full: &'a mut FullSegments,
        pin: &'a PinSlot,
        now: Second,
    ) -> Evictor<'a> {
        Evictor {
            items,
            tenant,
            tenant_items: items.tenant_items(tenant),
            full,
            pin,
            now,
            done: EvictionProgress::default(),
        }
    }

    /// Works through what goes next until `aim` is reached.
    pub(super) fn evict(&mut self, aim: EvictionGoal) {
        while !self.done.has_reached(&aim) {
            let Some(source) = self.full.source.or_else(|| self.next_source()) else {
                return;
            };
            if !self.step(source, &aim) {
                return;
            }
        }
    }

    /// By how many blocks the tenant has shrunk through eviction. Dead blocks do not count. Segments that were opened
    /// for survivors are subtracted, now or when the next blocks are given up.
    pub(super) fn settle_given(&mut self) -> u32 {
        let fewer = i64::from(self.done.blocks - self.done.dead);
        let owed = &mut self.full.owed;
        *owed += i64::from(self.done.opened);
        let given = (fewer - *owed).max(0);
        *owed = (*owed - fewer).max(0);
        given as u32
    }

    /// Works on a segment that is dead or almost dead, so that no free memory is needed. Returns whether there is more
    /// to do on it.
    pub(super) fn recycle(&mut self, aim: EvictionGoal) -> Recycling {
        let most = self.items.arena.block_bytes() as u32 / RECYCLED_BELOW;
        let begun = self
            .full
            .source
            .filter(|source| source.bar == SurvivalRule::Live);
        let source = match (begun, self.full.source) {
            (None, Some(_)) => return Recycling::Done, // what eviction began, it ends
            (begun, _) => begun.or_else(|| {
                let sparsest = self.sparsest(most)?;
                Some(SegmentCursor::new(sparsest, SurvivalRule::Live))
            }),
        };
        let goes_on = |source| self.step(source, &aim) && self.full.source.is_some();
        match source.is_some_and(goes_on) {
            true => Recycling::Pending,
            false => Recycling::Done,
        }
    }

    /// Works through one segment to its end. Returns whether it could be given up.
    pub(super) fn empty(&mut self, block: BlockId, bar: SurvivalRule) -> bool {
        self.step(SegmentCursor::new(block, bar), &EvictionGoal::ALL)
    }

    /// Works on a segment until it reaches `aim` or the end. Returns whether to go on.
    fn step(&mut self, mut source: SegmentCursor, aim: &EvictionGoal) -> bool {
        let reach = self.work_through(&mut source, aim);
        self.full.source = (reach == StepOutcome::Goal).then_some(source);
        if reach == StepOutcome::SegmentDone {
            self.full
                .survival_bar
                .move_bar(self.items.arena.block_bytes() as u64);
            self.give_up(source.block);
        }
        if reach == StepOutcome::Stuck && self.items.evicts {
            // There is no block for survivors. From now on only what is hot survives, if even that.
            self.full.source = Some(SegmentCursor {
                bar: SurvivalRule::Moving,
                ..source
            });
            return true;
        }
        self.done.stuck |= reach == StepOutcome::Stuck;
        reach != StepOutcome::Stuck
    }

    /// The segment to work through next. It drops segments that are entirely dead on the way.
    fn next_source(&mut self) -> Option<SegmentCursor> {
        let dropped = self.drop_dead();
        if dropped > 0 {
            return None;
        }
        // Without eviction only dead items can go. A tenth of them is worth the work.
        let size = self.items.arena.block_bytes() as u32;
        let most = if self.items.evicts {
            size / 2
        } else {
            size / 10 * 9
        };
        if let Some(sparse) = self.sparsest(most) {
            return Some(SegmentCursor::new(sparse, SurvivalRule::Live));
        }
        if !self.items.evicts {
            return None;
        }
        let block = self.full.blocks.front()?;
        let complete = self.items.arena.is_complete(block, self.pin);
        self.done.waits |= !complete;
        complete.then(|| SegmentCursor::new(block, SurvivalRule::Moving))
    }

    fn candidates(&self) -> impl Iterator<Item = BlockId> {
        self.full.blocks.iter().take(CANDIDATES_MAX)
    }

    /// Drops the segments in which everything was flushed or has expired, in constant time each. Returns how many.
    pub(super) fn drop_dead(&mut self) -> u32 {
        let dead: Vec<BlockId> = self
            .candidates()
            .filter(|block| self.is_dead(*block))
            .collect();
        if !dead.is_empty() {
            let (items, _) = self.drop_all(&dead);
            self.tenant_items.tally.reclaimed.add(items);
        }
        self.done.dead += dead.len() as u32;
        dead.len() as u32
    }

    fn is_flushed(&self, block: BlockId) -> bool {
        self.tenant_items
            .segments
            .is_flushed(self.items.arena.block(block).sequence())
    }

    fn is_dead(&self, block: BlockId) -> bool {
        let facts = self.items.arena.block(block);
        let segments = &self.tenant_items.segments;
        segments.was_flushed(facts.sequence(), self.now)
            || (facts.is_expired(self.now) && self.items.arena.is_complete(block, self.pin))
    }

    /// Drops segments with all that they hold. Returns the items and bytes that were in them.
    pub(super) fn drop_all(&mut self, blocks: &[BlockId]) -> (u64, u64) {
        let arena = &self.items.arena;
        for block in blocks {
            self.full.remove(arena, *block);
            self.tenant_items
                .segments
                .record_given_up(self.tenant, arena, *block);
        }
        let lost = arena.drop_blocks(blocks);
        self.report_tail();
        self.items.sweeper.add_stale(lost.0);
        self.done.blocks += blocks.len() as u32;
        lost
    }

    /// The segment with the fewest live bytes, and a dead one before all others. It must have less than `most`, and
    /// working through it must free more than it takes.
    fn sparsest(&self, most: u32) -> Option<BlockId> {
        let arena = &self.items.arena;
        let [(live, sparsest), (second, _)] = self.two_sparsest();
        let size = arena.block_bytes() as u32;
        // With a new target segment it pays only together with another source segment.
        let room = self
            .full
            .target
            .map(|target| size - arena.block(target).filled.load(Ordering::Relaxed));
        let pays = live == 0
            || room.is_some_and(|room| live <= room)
            || (arena.ready() > 0 && second < most);
        let may_go = |block: &BlockId| arena.is_complete(*block, self.pin);
        sparsest.filter(|block| pays && live < most && may_go(block))
    }

    /// The two segments with the fewest live bytes, and how many these are. A dead segment has none.
    fn two_sparsest(&self) -> [(u32, Option<BlockId>); 2] {
        let mut least = [(u32::MAX, None); 2];
        for block in self.candidates() {
            let live = match self.is_dead(block) {
                true => 0,
                false => {
                    let facts = self.items.arena.block(block);
                    facts.live_bytes()
                }
            };
            if live < least[0].0 {
                least = [(live, Some(block)), least[0]];
            } else if live < least[1].0 {
                least[1] = (live, Some(block));
            }
        }
        least
    }

    fn work_through(&mut self, source: &mut SegmentCursor, aim: &EvictionGoal) -> StepOutcome {
        let generation = self.items.arena.block(source.block).generation();
        while !self.done.has_reached(aim) {
            let Some((record, next)) = self.items.walk(source.block, source.at) else {
                return StepOutcome::SegmentDone;
            };
            let len = record.len() as u32;
            let place = RecordAddress::new(source.block, next - len, generation);
            if !self.decide(place, &record, source.bar) {
                return StepOutcome::Stuck;
            }
            self.done.worked += u64::from(len);
            source.at = next;
        }
        StepOutcome::Goal
    }

    /// Keeps a record or drops it. Returns whether that was possible.
    fn decide(&mut self, place: RecordAddress, record: &Record<'_>, bar: SurvivalRule) -> bool {
        let items = self.items;
        let hash = items.hash_of_record(self.tenant.id, record);
        let Some(table) = items.table_of(record.fields.role) else {
            return true;
        };
        let mut held = table.lock(hash);
        let Some((cell, ())) =
            held.find(hash, |slot| (slot.record_address() == place).then_some(()))
        else {
            return true; // dead: replaced or deleted since
        };
        let len = record.len() as u64;
        let dead = self.is_flushed(place.block) || record.fields.expiry.is_past(self.now);
        if !dead && self.keeps(bar, cell.slot, len, hash) {
            if self.copy_survivor(&held, hash, place, record) {
                self.done.bytes_kept += len;
                return true;
            }
            if bar == SurvivalRule::Live {
                return false;
            }
        }
        let slot = held.remove(cell);
        let lives = record.live_amount();
        items.arena.lose(place.block, lives);
        if dead {
            self.tenant_items.tally.reclaim(lives.items, slot);
        } else {
            self.done.items_lost += u64::from(lives.items);
            self.done.bytes_lost += len;
            items.record_eviction(self.tenant, hash, slot, record);
        }
        true
    }

    fn keeps(&mut self, bar: SurvivalRule, slot: Slot, len: u64, hash: u64) -> bool {
        let now = self.tenant_items.segments.clock().now();
        match bar {
            SurvivalRule::Moving => self.full.survival_bar.keeps(slot.stamp(), now, len),
            SurvivalRule::Live => true,
            SurvivalRule::Spared(cut) => cut.spares(slot.stamp(), len, hash),
        }
    }

    /// Copies a record into the survivors' segment and makes its slot name the copy. Returns whether there was room.
    fn copy_survivor(
        &mut self,
        held: &LockedStripe<'_>,
        hash: u64,
        place: RecordAddress,
        record: &Record<'_>,
    ) -> bool {
        let items = self.items;
        // A reader may mark the slot while the record is copied. The record is then copied once more, because the copy
        // may lack a cas unique that was just reported.
        while let Some((cell, ())) =
            held.find(hash, |slot| (slot.record_address() == place).then_some(()))
        {
            let mut fields = record.fields;
            if cell.slot.is_cas_reported() && fields.cas.is_none() {
                fields.cas = Some(items.implied_cas(place));
            }
            // Read this before a segment that the copy opens advances the clock.
            let stamp = cell
                .slot
                .stamp()
                .carried(self.tenant_items.segments.clock().now());
            let Some(copy) = self.write_survivor(place.block, hash, &fields, record.value) else {
                return false;
            };
            let moved = copy.with_stamp(stamp).with_fetched(cell.slot.fetch_state());
            let moved = if cell.slot.is_cas_reported() {
                moved.with_cas_reported()
            } else {
                moved
            };
            if cell.exchange(moved).is_ok() {
                let lives = fields.live_amount(record.value.len());
                let target = copy.record_address().block;
                items.arena.gain(target, lives);
                // What was hit is no colder in its new place.
                let hit = u32::from(stamp != HitStamp::NEVER);
                let target = items.arena.block(target);
                target.heat.fetch_add(hit, Ordering::Relaxed);
                items.arena.lose(place.block, record.live_amount());
                return true;
            }
        }
        false
    }

    /// Writes a record into the survivors' segment.
    fn write_survivor(
        &mut self,
        source: BlockId,
        hash: u64,
        fields: &RecordFields<'_>,
        value: &[u8],
    ) -> Option<Slot> {
        let arena = &self.items.arena;
        let len = fields.record_len(value.len()) as u32;
        let class = arena.block(source).class.load(Ordering::Relaxed);
        let of_class = |block: &BlockId| arena.block(*block).class.load(Ordering::Relaxed) == class;
        let here = self
            .full
            .target
            .filter(of_class)
            .and_then(|target| arena.claim(target, len));
        let claim = match here {
            Some(claim) => claim,
            None => {
                self.full.settle_target(arena);
                let opened = arena.block(source).opened();
                let target = arena.allocate(BlockOwner::Items(self.tenant.id), 0, opened)?;
                self.tenant_items
                    .segments
                    .record_opened(self.tenant, arena, target);
                self.done.opened += 1;
                arena.block(target).class.store(class, Ordering::Relaxed);
                self.full.target = Some(target);
                arena.claim(target, len)?
            }
        };
        Some(self.items.fill(claim, hash, fields, &[value], value.len()))
    }

    /// Reports the age of the items in the remaining segments that just survive.
    fn report_tail(&self) {
        let arena = &self.items.arena;
        let oldest = self.tenant_items.segments.oldest(arena, self.full);
        let now = arena.clock();
        let bar_age = |opened: u64| self.full.survival_bar.bar_age(now.saturating_sub(opened));
        self.tenant.tails.record_items(now, oldest.map(bar_age));
    }

    /// Gives up a segment in which nothing is alive any more.
    fn give_up(&mut self, block: BlockId) {
        let arena = &self.items.arena;
        self.full.remove(arena, block);
        self.tenant_items
            .segments
            .record_given_up(self.tenant, arena, block);
        self.report_tail();
        arena.retire(&[block]);
        self.done.blocks += 1;
    }
}
