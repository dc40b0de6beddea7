//! Eviction: what is hot is copied out of the oldest full segment, and its block is given up.
//!
//! ```text
//!   oldest ─► [S][S][S][S][S][S][S] ◄─ newest: filled by new items, or by survivors
//!              │                 ▲
//!              └──── survivors ──┘
//! ```
//!
//! Segcache's order: survivors join the newest, so that every item is looked at once a turnover. Who survives is
//! decided by age since the last hit times size, against a bar that moves so that at most half of what is
//! worked through is kept. The work is done in small steps by whoever needs room: no thread of its own, no pause.

use std::sync::atomic::Ordering;

use sublet_types::Second;

use super::Items;
use super::part::Part;
use super::record::{Fields, Record};
use super::segments::Ring;
use super::slot::{Place, Slot};
use super::source::{Bar, Source};
use super::space_time::Stamp;
use super::table::Held;
use crate::arena::{BlockId, Claimant, PinSlot};
use crate::tenants::Tenant;

/// Segments looked at to find a dead one, or one that is mostly dead, at the most.
const CANDIDATES_MAX: usize = 512;

/// While memory is free, a segment is worked through only if less than one byte in so many is alive: copying
/// those costs less than having the kernel clear another block.
const RECYCLED_BELOW: u32 = 4;

/// Where working through segments ends: at whichever of these comes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// Bytes of records that are not kept.
    pub(super) freed: u64,
    /// Bytes of records worked through.
    pub(super) worked: u64,
    /// Blocks given up.
    pub(super) blocks: u32,
}

impl Aim {
    /// All that there is.
    const ALL: Aim = Aim {
        freed: u64::MAX,
        worked: u64::MAX,
        blocks: u32::MAX,
    };

    /// One block, whatever it takes.
    pub(super) const BLOCK: Aim = Aim {
        blocks: 1,
        ..Aim::ALL
    };

    /// About so many bytes worked through.
    pub(super) fn piece(worked: u64) -> Aim {
        Aim { worked, ..Aim::ALL }
    }
}

/// What working through segments came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Yield {
    /// Bytes of records worked through.
    pub(super) worked: u64,
    /// Blocks given up.
    pub(super) blocks: u32,
    /// Of these, what was dead as a whole.
    dead: u32,
    /// Blocks opened for survivors.
    opened: u32,
    pub(super) items_lost: u64,
    pub(super) bytes_lost: u64,
    pub(super) bytes_kept: u64,
    /// Whether what must survive found no room.
    pub(super) stuck: bool,
    /// Whether the next segment is still being written into.
    pub(super) waits: bool,
}

impl Yield {
    fn has_reached(&self, aim: &Aim) -> bool {
        self.blocks >= aim.blocks
            || self.worked >= aim.worked
            || self.worked - self.bytes_kept >= aim.freed
    }
}

/// How far a step came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Its aim.
    Aim,
    /// Nothing is left in the segment.
    End,
    /// What must survive finds no room.
    Stuck,
}

/// Somebody at work on one tenant's segments.
pub(super) struct Evictor<'a> {
    items: &'a Items,
    tenant: &'a Tenant,
    part: &'a Part,
    pub(super) ring: &'a mut Ring,
    /// Whose step it is: the caller, pinned.
    me: &'a PinSlot,
    now: Second,
    pub(super) done: Yield,
}

impl<'a> Evictor<'a> {
    pub(super) fn new(
        items: &'a Items,
        tenant: &'a Tenant,
        ring: &'a mut Ring,
        me: &'a PinSlot,
        now: Second,
    ) -> Evictor<'a> {
        Evictor {
            items,
            tenant,
            part: items.part(tenant),
            ring,
            me,
            now,
            done: Yield::default(),
        }
    }

    /// Works through what goes next until `aim` is reached.
    pub(super) fn evict(&mut self, aim: Aim) {
        while !self.done.has_reached(&aim) {
            let Some(source) = self.ring.source.or_else(|| self.next_source()) else {
                return;
            };
            if !self.step(source, &aim) {
                return;
            }
        }
    }

    /// Blocks that the tenant has fewer for what was evicted. What was dead is not counted, and survivors' segments are counted off, now
    /// or when the next blocks are given up.
    pub(super) fn given(&mut self) -> u32 {
        let fewer = i64::from(self.done.blocks - self.done.dead);
        let owed = &mut self.ring.owed;
        *owed += i64::from(self.done.opened);
        let given = (fewer - *owed).max(0);
        *owed = (*owed - fewer).max(0);
        given as u32
    }

    /// Works at a segment that is dead, or of which hardly anything is alive, so that no free memory is needed. Says
    /// whether there is more to do at it.
    pub(super) fn recycle(&mut self, aim: Aim) -> bool {
        let most = self.items.arena.block_bytes() as u32 / RECYCLED_BELOW;
        let begun = self.ring.source.filter(|source| source.bar == Bar::Live);
        let source = match (begun, self.ring.source) {
            (None, Some(_)) => return false, // what eviction began, it ends
            (begun, _) => begun.or_else(|| {
                let sparsest = self.sparsest(most)?;
                Some(Source::new(sparsest, Bar::Live))
            }),
        };
        source.is_some_and(|source| self.step(source, &aim) && self.ring.source.is_some())
    }

    /// Works through one segment to its end. Says whether it could be given up.
    pub(super) fn empty(&mut self, block: BlockId, bar: Bar) -> bool {
        self.step(Source::new(block, bar), &Aim::ALL)
    }

    /// Works at a segment until `aim` is reached, or its end. Says whether to go on.
    fn step(&mut self, mut source: Source, aim: &Aim) -> bool {
        let reach = self.work_through(&mut source, aim);
        self.ring.source = (reach == Reach::Aim).then_some(source);
        if reach == Reach::End {
            self.ring.window.turn(self.items.arena.block_bytes() as u64);
            self.give_up(source.block);
        }
        if reach == Reach::Stuck && self.items.evicts {
            // No block for survivors: then only what is hot survives, if even that.
            self.ring.source = Some(Source {
                bar: Bar::Moving,
                ..source
            });
            return true;
        }
        self.done.stuck |= reach == Reach::Stuck;
        reach != Reach::Stuck
    }

    /// The segment to work through next. Segments that are dead as a whole are dropped on the way.
    fn next_source(&mut self) -> Option<Source> {
        let dropped = self.drop_dead();
        if dropped > 0 {
            return None;
        }
        // Without eviction nothing but the dead can go: a tenth of them is worth the work.
        let size = self.items.arena.block_bytes() as u32;
        let most = if self.items.evicts {
            size / 2
        } else {
            size / 10 * 9
        };
        if let Some(sparse) = self.sparsest(most) {
            return Some(Source::new(sparse, Bar::Live));
        }
        if !self.items.evicts {
            return None;
        }
        let block = self.ring.blocks.front()?;
        let complete = self.items.arena.is_complete(block, self.me);
        self.done.waits |= !complete;
        complete.then(|| Source::new(block, Bar::Moving))
    }

    fn candidates(&self) -> impl Iterator<Item = BlockId> {
        self.ring.blocks.iter().take(CANDIDATES_MAX)
    }

    /// Drops the segments of which everything was flushed or has expired, in constant time for each.
    /// Returns how many.
    pub(super) fn drop_dead(&mut self) -> u32 {
        let dead: Vec<BlockId> = self
            .candidates()
            .filter(|block| self.is_dead(*block))
            .collect();
        if !dead.is_empty() {
            let (items, _) = self.drop_all(&dead);
            self.part.tally.reclaimed.add(items);
        }
        self.done.dead += dead.len() as u32;
        dead.len() as u32
    }

    fn is_flushed(&self, block: BlockId) -> bool {
        self.part
            .segments
            .is_flushed(self.items.arena.block(block).sequence())
    }

    fn is_dead(&self, block: BlockId) -> bool {
        let facts = self.items.arena.block(block);
        let segments = &self.part.segments;
        segments.was_flushed(facts.sequence(), self.now)
            || (facts.is_expired(self.now) && self.items.arena.is_complete(block, self.me))
    }

    /// Drops segments with all that they hold; returns the items and bytes that were in them.
    pub(super) fn drop_all(&mut self, blocks: &[BlockId]) -> (u64, u64) {
        let arena = &self.items.arena;
        for block in blocks {
            self.ring.remove(arena, *block);
            self.part.segments.note_given_up(self.tenant, arena, *block);
        }
        let lost = arena.drop_blocks(blocks);
        self.tell_tail();
        self.items.sweeper.note_stale(lost.0);
        self.done.blocks += blocks.len() as u32;
        lost
    }

    /// The segment with the fewest live bytes, a dead one before all others, if they are less than `most` and working
    /// through it frees more than it takes.
    fn sparsest(&self, most: u32) -> Option<BlockId> {
        let arena = &self.items.arena;
        let [(live, sparsest), (second, _)] = self.two_sparsest();
        let size = arena.block_bytes() as u32;
        // Into a new target it pays only together with another segment.
        let room = self
            .ring
            .target
            .map(|target| size - arena.block(target).filled.load(Ordering::Relaxed));
        let pays = live == 0
            || room.is_some_and(|room| live <= room)
            || (arena.ready() > 0 && second < most);
        let may_go = |block: &BlockId| arena.is_complete(*block, self.me);
        sparsest.filter(|block| pays && live < most && may_go(block))
    }

    /// The two segments with the fewest live bytes, and how many these are: none in a dead one.
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

    fn work_through(&mut self, source: &mut Source, aim: &Aim) -> Reach {
        let generation = self.items.arena.block(source.block).generation();
        while !self.done.has_reached(aim) {
            let Some((record, next)) = self.items.walk(source.block, source.at) else {
                return Reach::End;
            };
            let len = record.len() as u32;
            let place = Place::new(source.block, next - len, generation);
            if !self.decide(place, &record, source.bar) {
                return Reach::Stuck;
            }
            self.done.worked += u64::from(len);
            source.at = next;
        }
        Reach::Aim
    }

    /// Keeps a record or lets it go. Says whether that could be done.
    fn decide(&mut self, place: Place, record: &Record<'_>, bar: Bar) -> bool {
        let items = self.items;
        let hash = items.hash_of_record(self.tenant.id, record);
        let Some(table) = items.table_of(record.fields.role) else {
            return true;
        };
        let mut held = table.lock(hash);
        let Some((cell, ())) = held.find(hash, |slot| (slot.place() == place).then_some(())) else {
            return true; // dead: replaced or deleted since
        };
        let len = record.len() as u64;
        let dead = self.is_flushed(place.block) || record.fields.expiry.is_past(self.now);
        if !dead && self.keeps(bar, cell.slot, len, hash) {
            if self.carry(&held, hash, place, record) {
                self.done.bytes_kept += len;
                return true;
            }
            if bar == Bar::Live {
                return false;
            }
        }
        let slot = held.remove(cell);
        let lives = record.lives();
        items.arena.lose(place.block, lives);
        if dead {
            self.part.tally.reclaim(lives.items, slot);
        } else {
            self.done.items_lost += u64::from(lives.items);
            self.done.bytes_lost += len;
            items.evicted(self.tenant, hash, slot, record);
        }
        true
    }

    fn keeps(&mut self, bar: Bar, slot: Slot, len: u64, hash: u64) -> bool {
        let now = self.part.segments.clock().now();
        match bar {
            Bar::Moving => self.ring.window.keeps(slot.stamp(), now, len),
            Bar::Live => true,
            Bar::Spared(cut) => cut.spares(slot.stamp(), len, hash),
        }
    }

    /// Copies a record into the survivors' segment and lets its slot name the copy. Says whether there
    /// was room.
    fn carry(&mut self, held: &Held<'_>, hash: u64, place: Place, record: &Record<'_>) -> bool {
        let items = self.items;
        // A reader may mark the slot while the record is copied; then it is copied once more, since the
        // copy may lack a cas unique that was just told.
        while let Some((cell, ())) = held.find(hash, |slot| (slot.place() == place).then_some(())) {
            let mut fields = record.fields;
            if cell.slot.told() && fields.cas.is_none() {
                fields.cas = Some(items.implied_cas(place));
            }
            // Before the clock goes on by a segment that the copy opens.
            let stamp = cell.slot.stamp().carried(self.part.segments.clock().now());
            let Some(copy) = self.copy(place.block, hash, &fields, record.value) else {
                return false;
            };
            let moved = copy.with_stamp(stamp).with_fetched(cell.slot.fetched());
            let moved = if cell.slot.told() {
                moved.with_told()
            } else {
                moved
            };
            if cell.exchange(moved).is_ok() {
                let lives = fields.lives(record.value.len());
                let target = copy.place().block;
                items.arena.gain(target, lives);
                // What was hit is no colder where it is now.
                let hit = u32::from(stamp != Stamp::NEVER);
                let target = items.arena.block(target);
                target.heat.fetch_add(hit, Ordering::Relaxed);
                items.arena.lose(place.block, record.lives());
                return true;
            }
        }
        false
    }

    /// Writes a record into the survivors' segment.
    fn copy(
        &mut self,
        source: BlockId,
        hash: u64,
        fields: &Fields<'_>,
        value: &[u8],
    ) -> Option<Slot> {
        let arena = &self.items.arena;
        let len = fields.record_len(value.len()) as u32;
        let class = arena.block(source).class.load(Ordering::Relaxed);
        let of_class = |block: &BlockId| arena.block(*block).class.load(Ordering::Relaxed) == class;
        let here = self
            .ring
            .target
            .filter(of_class)
            .and_then(|target| arena.claim(target, len));
        let claim = match here {
            Some(claim) => claim,
            None => {
                self.ring.settle_target(arena);
                let opened = arena.block(source).opened();
                let target = arena.take(Claimant::Tenant(self.tenant.id), 0, opened)?;
                self.part.segments.note_opened(self.tenant, arena, target);
                self.done.opened += 1;
                arena.block(target).class.store(class, Ordering::Relaxed);
                self.ring.target = Some(target);
                arena.claim(target, len)?
            }
        };
        Some(self.items.fill(claim, hash, fields, &[value], value.len()))
    }

    /// Says how old the items of what is left are that just survive.
    fn tell_tail(&self) {
        let arena = &self.items.arena;
        let oldest = self.part.segments.oldest(arena, self.ring);
        let now = arena.clock();
        let bar_age = |opened: u64| self.ring.window.bar_age(now.saturating_sub(opened));
        self.tenant.tails.note_items(now, oldest.map(bar_age));
    }

    /// Gives up a segment in which nothing is alive any more.
    fn give_up(&mut self, block: BlockId) {
        let arena = &self.items.arena;
        self.ring.remove(arena, block);
        self.part.segments.note_given_up(self.tenant, arena, block);
        self.tell_tail();
        arena.retire(&[block]);
        self.done.blocks += 1;
    }
}
