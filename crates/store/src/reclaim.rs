//! Finds a block when one is needed: which tenant gives way, which of its engines gives, and what is tried first.

use sublet_types::Second;

use crate::arena::Arena;
use crate::engine::{Engines, ReclaimCause, own_blocks};
use crate::floors::Capacity;
use crate::giving::Giver;
use crate::lent::LentBlocks;
use crate::pinned_thread::PinnedThread;
use crate::tenants::{Tenant, Tenants};

/// How often a writer yields before it gives up. Readers that hold blocks back leave after microseconds. But a reader
/// may be off its core for as long as the machine is busy.
const WAITS_MAX: u32 = 1_000_000;

/// An engine of a tenant gives a block to another engine only if its coldest block is colder by this factor. Otherwise
/// blocks would go to and fro.
const WORTH_FACTOR: u32 = 2;

/// Blocks of persistent pages that one call of the chores moves out for floors.
const FLOORS_PIECE: u32 = 8;

/// What tenants may hold together. This leaves out the engines' own blocks and the reserve for eviction.
pub(crate) fn capacity(arena: &Arena, engines: &Engines<'_>) -> Capacity {
    let nobodys = (own_blocks(engines) + arena.reserve()) as u32;
    Capacity {
        block_bytes: arena.block_bytes(),
        blocks: arena.limit().saturating_sub(nobodys),
    }
}

/// Returns whether a tenant can have this many more blocks at once.
pub(crate) fn has_room(arena: &Arena, tenant: &Tenant, blocks: u32) -> bool {
    arena.ready() >= blocks + arena.reserve() as u32 && !tenant.is_at_limit(blocks)
}

/// A tenant's need of blocks.
#[derive(Clone, Copy)]
pub(crate) struct BlockRequest<'a> {
    pub(crate) tenant: &'a Tenant,
    /// The index of the engine that needs the blocks.
    pub(crate) engine: usize,
    /// Whether the blocks can no longer go for a put.
    pub(crate) pins: bool,
}

/// What to try next for a tenant that needs blocks.
enum ReclaimStep {
    /// The arena may hold more.
    Grow,
    /// An engine holds blocks for itself that it does not need.
    Tidy,
    /// Other hosts have blocks, which come back without asking them.
    TakeBack,
    /// Blocks come free on their own.
    Wait,
    /// A tenant gives blocks up.
    Evict,
    /// The tenant can never have the blocks.
    Hopeless,
}

/// A thread that looks for blocks. It is pinned and holds no lock.
#[derive(Clone, Copy)]
pub(crate) struct Reclaim<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) tenants: &'a Tenants,
    pub(crate) engines: Engines<'a>,
    pub(crate) lent: &'a LentBlocks,
    pub(crate) thread: &'a dyn PinnedThread,
    pub(crate) now: Second,
}

impl<'a> Reclaim<'a> {
    fn capacity(&self) -> Capacity {
        capacity(self.arena, &self.engines)
    }

    /// The tenant that gives way so that `tenant` gets blocks.
    pub(crate) fn giver(&self, tenant: &'a Tenant, blocks: u32) -> Giver<'a> {
        match tenant.is_at_limit(blocks) || self.tenants.are_one() {
            true => Giver::itself(tenant),
            false => self.tenants.gives_way(tenant, self.capacity()),
        }
    }

    /// Makes a block free, which `open` then takes from the free list. Returns false if no block is to be had. The
    /// tenant then has to do with what it has.
    pub(crate) fn find_block(&self, need: BlockRequest<'a>, open: impl Fn() -> bool) -> bool {
        let (arena, tenant) = (self.arena, need.tenant);
        if tenant.is_at_limit(1) {
            return !need.pins && self.trade_engines(need);
        }
        if !self.may_have(need) {
            return false;
        }
        if open() || matches!(arena.grow(), Ok(true)) {
            return true;
        }
        if arena.in_limbo() > 0 {
            self.drain_limbo();
            return true;
        }
        if self.lent.take_back_some() {
            self.drain_limbo();
            return true;
        }
        let giver = match need.pins {
            false => self.tenants.gives_way(tenant, self.capacity()),
            // The curves of persistent pages are straight lines: no order among them beats equal shares.
            true => self.tenants.largest_gives_way(tenant, self.capacity()),
        };
        // A tenant's own pages are displaced one by one, not a block at a time.
        let gave = match giver.tenant.id == tenant.id && !need.pins {
            true => self.trade_engines(need),
            false => self.reclaim_from(need, giver),
        };
        if gave {
            self.drain_limbo();
        }
        gave
    }

    /// Returns whether all floors stay kept if the tenant gets another block.
    pub(crate) fn may_have(&self, need: BlockRequest<'_>) -> bool {
        !need.pins || self.tenants.may_pin(need.tenant, self.capacity())
    }

    /// Makes a tenant give a block. This may be the tenant that needs it. Returns whether a block came free or another
    /// tenant gives way now.
    fn reclaim_from(&self, need: BlockRequest<'a>, giver: Giver<'a>) -> bool {
        let Some(_reservation) = giver.reserve_blocks(1) else {
            return true;
        };
        let first = self.colder_engine(giver.tenant, need.engine);
        let first = first.unwrap_or(need.engine);
        self.reclaim_from_engine(need, giver.tenant, first) > 0
            || self.reclaim_from_others(need, giver.tenant, first) > 0
    }

    /// Makes another engine of the tenant give a block, if the block is worth much less there or if the engine in need
    /// has none.
    fn trade_engines(&self, need: BlockRequest<'a>) -> bool {
        let from = self.colder_engine(need.tenant, need.engine);
        from.is_some_and(|from| self.reclaim_from_engine(need, need.tenant, from) > 0)
    }

    /// The engine whose coldest block of the tenant is much colder than the coldest block of `own`. If `own` has no
    /// block, this is the engine with the coldest one.
    fn colder_engine(&self, tenant: &Tenant, own: usize) -> Option<usize> {
        let others = self.other_engines(own);
        let least_heat = |n: usize| {
            let blocks = self.engines[n].blocks_of(tenant);
            blocks.and_then(|blocks| blocks.least_heat(self.arena))
        };
        let heats = others.filter_map(|n| Some((least_heat(n)?, n)));
        let (heat, coldest) = heats.min()?;
        let is_colder = |own: u32| heat.saturating_mul(WORTH_FACTOR) < own;
        least_heat(own).is_none_or(is_colder).then_some(coldest)
    }

    fn other_engines(&self, own: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.engines.len()).filter(move |n| *n != own)
    }

    /// Makes any engine but one give a block.
    fn reclaim_from_others(&self, need: BlockRequest<'a>, giver: &'a Tenant, but: usize) -> u32 {
        let mut given = self
            .other_engines(but)
            .map(|n| self.reclaim_from_engine(need, giver, n));
        given.find(|given| *given > 0).unwrap_or(0)
    }

    /// Makes one engine of a tenant give a block.
    fn reclaim_from_engine(&self, need: BlockRequest<'a>, giver: &'a Tenant, engine: usize) -> u32 {
        let loss =
            self.engines[engine].reclaim_blocks(giver, 1, ReclaimCause::Put, self.now, self.thread);
        giver.gave_to(need.tenant, loss.blocks);
        loss.blocks
    }

    /// Makes room for this many blocks. Returns whether it is worth trying again.
    ///
    /// `evict` makes the engine in need free some blocks itself, at the expense of the tenant that gives way. It
    /// returns whether there are more than before.
    pub(crate) fn make_room(
        &self,
        need: BlockRequest<'a>,
        blocks: u32,
        evict: &mut dyn FnMut(Giver<'a>) -> bool,
    ) -> bool {
        for _ in 0..WAITS_MAX {
            if has_room(self.arena, need.tenant, blocks) {
                return true;
            }
            let more = self.reclaim_from_colder(need, blocks)
                || self.step(need.tenant, blocks, evict)
                || self.reclaim_from_any_other(need, blocks);
            if !more {
                return has_room(self.arena, need.tenant, blocks);
            }
            self.drain_limbo();
        }
        false
    }

    /// Makes another engine of the giver give a block, if the block is worth much less there.
    fn reclaim_from_colder(&self, need: BlockRequest<'a>, blocks: u32) -> bool {
        if self.arena.may_spare() {
            return false;
        }
        let giver = self.giver(need.tenant, blocks);
        let Some(from) = self.colder_engine(giver.tenant, need.engine) else {
            return false;
        };
        let reservation = giver.reserve_blocks(1);
        reservation
            .is_some_and(|_reservation| self.reclaim_from_engine(need, giver.tenant, from) > 0)
    }

    /// Makes any other engine of the giver give a block.
    fn reclaim_from_any_other(&self, need: BlockRequest<'a>, blocks: u32) -> bool {
        let giver = self.giver(need.tenant, blocks);
        let reservation = giver.reserve_blocks(1);
        reservation.is_some_and(|_reservation| {
            self.reclaim_from_others(need, giver.tenant, need.engine) > 0
        })
    }

    /// Makes some room. The arena grows if it may; otherwise blocks are evicted.
    fn step(
        &self,
        tenant: &'a Tenant,
        blocks: u32,
        evict: &mut dyn FnMut(Giver<'a>) -> bool,
    ) -> bool {
        match self.next_step(tenant, blocks) {
            ReclaimStep::Grow if matches!(self.arena.grow(), Ok(true)) => true,
            ReclaimStep::Hopeless => false,
            ReclaimStep::Wait => true,
            ReclaimStep::TakeBack => self.lent.take_back_some(),
            ReclaimStep::Tidy => self.engines.iter().any(|engine| engine.chores(self.now)),
            ReclaimStep::Grow | ReclaimStep::Evict => evict(self.giver(tenant, blocks)),
        }
    }

    fn next_step(&self, tenant: &Tenant, blocks: u32) -> ReclaimStep {
        let limit = u64::from(self.arena.limit());
        let needed = blocks as usize + self.arena.reserve();
        let at_limit = tenant.is_at_limit(blocks);
        if !tenant.may_ever_hold(blocks) || needed as u64 > limit {
            ReclaimStep::Hopeless // not even an empty arena has room for it
        } else if !at_limit && self.arena.may_grow() {
            ReclaimStep::Grow
        } else if (needed + own_blocks(&self.engines)) as u64 > limit {
            ReclaimStep::Tidy // an index was made for more items than there may be now
        } else if !at_limit && self.arena.ready() as usize + self.arena.in_limbo() >= needed {
            ReclaimStep::Wait // enough was given up, and is only waiting for its last readers
        } else if !at_limit && self.lent.len() > 0 {
            ReclaimStep::TakeBack
        } else {
            ReclaimStep::Evict
        }
    }

    /// Moves persistent pages that stand on other tenants' floors to their disks, one piece per call. Returns whether
    /// there are more.
    pub(crate) fn clear_floors(&self) -> bool {
        let Some((tenant, blocks)) = self.tenants.pinned_on_floors(self.capacity()) else {
            return false;
        };
        let blocks = blocks.min(FLOORS_PIECE);
        let given = self.engines.map(|engine| {
            let loss =
                engine.reclaim_blocks(tenant, blocks, ReclaimCause::Floors, self.now, self.thread);
            loss.blocks
        });
        given.iter().sum::<u32>() > 0
    }

    fn drain_limbo(&self) {
        self.thread.try_unpinned(&mut || self.arena.drain_limbo());
    }
}
