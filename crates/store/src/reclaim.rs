//! Where a block comes from when one is needed: who gives way, which of its engines gives, and what is tried before.

use sublet_types::Second;

use crate::arena::Arena;
use crate::engine::{Cause, Engines, own_blocks};
use crate::floors::Capacity;
use crate::giving::Giver;
use crate::tenants::{Tenant, Tenants};
use crate::thread::Thread;

/// Times that a writer lets others run before it gives up hope of room: readers that hold blocks back
/// leave after microseconds, but may be off their core for as long as the machine is busy.
const WAITS_MAX: u32 = 1_000_000;

/// One engine of a tenant gives a block to another when its coldest block is colder by this factor: so that blocks do not go to and
/// fro.
const WORTH_FACTOR: u32 = 2;

/// Blocks of persistent pages that make way for floors in one call of the chores.
const FLOORS_PIECE: u32 = 8;

/// What tenants may hold together: what is neither an engine's own nor kept for eviction.
pub(crate) fn capacity(arena: &Arena, engines: &Engines<'_>) -> Capacity {
    let nobodys = (own_blocks(engines) + arena.reserve()) as u32;
    Capacity {
        block_bytes: arena.block_bytes(),
        blocks: arena.limit().saturating_sub(nobodys),
    }
}

/// Whether a tenant can have so many blocks more at once.
pub(crate) fn has_room(arena: &Arena, tenant: &Tenant, blocks: u32) -> bool {
    arena.ready() >= blocks + arena.reserve() as u32 && !tenant.is_at_limit(blocks)
}

/// Whose need of blocks it is.
#[derive(Clone, Copy)]
pub(crate) struct Need<'a> {
    pub(crate) tenant: &'a Tenant,
    /// The place of the engine that needs them among all engines.
    pub(crate) engine: usize,
    /// Whether they cannot go for a put any more.
    pub(crate) pins: bool,
}

/// What to try next for a tenant that needs blocks.
enum Step {
    /// The arena may hold more.
    Grow,
    /// An engine holds blocks for itself that it does not need.
    Tidy,
    /// Blocks come free by themselves.
    Wait,
    /// Somebody gives blocks up.
    Evict,
    /// It can never have them.
    Hopeless,
}

/// A thread in search of blocks: pinned, with no lock held.
#[derive(Clone, Copy)]
pub(crate) struct Reclaim<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) tenants: &'a Tenants,
    pub(crate) engines: Engines<'a>,
    pub(crate) thread: &'a dyn Thread,
    pub(crate) now: Second,
}

impl<'a> Reclaim<'a> {
    fn capacity(&self) -> Capacity {
        capacity(self.arena, &self.engines)
    }

    /// Whose blocks go so that a tenant gets some.
    pub(crate) fn giver(&self, tenant: &'a Tenant, blocks: u32) -> Giver<'a> {
        match tenant.is_at_limit(blocks) || self.tenants.are_one() {
            true => Giver::itself(tenant),
            false => self.tenants.gives_way(tenant, self.capacity()),
        }
    }

    /// Finds a block, which `open` takes from the free list. False if none is to be had: then what needs it has to make do with what its
    /// tenant has.
    pub(crate) fn block(&self, need: Need<'a>, open: impl Fn() -> bool) -> bool {
        let (arena, tenant) = (self.arena, need.tenant);
        if tenant.is_at_limit(1) {
            return !need.pins && self.trade(need);
        }
        if !self.may_have(need) {
            return false;
        }
        if open() || matches!(arena.grow(), Ok(true)) {
            return true;
        }
        if arena.in_limbo() > 0 {
            self.settle();
            return true;
        }
        let giver = match need.pins {
            false => self.tenants.gives_way(tenant, self.capacity()),
            // The curves of persistent pages are straight lines: no order among them is better than equal shares.
            true => self.tenants.largest_gives_way(tenant, self.capacity()),
        };
        // One's own are displaced singly, not a block at a time.
        let gave = match giver.tenant.id == tenant.id && !need.pins {
            true => self.trade(need),
            false => self.give_for(need, giver),
        };
        if gave {
            self.settle();
        }
        gave
    }

    /// Whether another block leaves all floors as they are.
    pub(crate) fn may_have(&self, need: Need<'_>) -> bool {
        !need.pins || self.tenants.may_pin(need.tenant, self.capacity())
    }

    /// Has another tenant, or the same, give a block. Says whether there is one more, or somebody else gives way now.
    fn give_for(&self, need: Need<'a>, giver: Giver<'a>) -> bool {
        let Some(_pledge) = giver.pledge(1) else {
            return true;
        };
        let first = self.colder(giver.tenant, need.engine);
        let first = first.unwrap_or(need.engine);
        self.give(need, giver.tenant, first) > 0 || self.others_give(need, giver.tenant, first) > 0
    }

    /// Has another engine of the tenant give a block, if that is worth much less there, or if the engine that needs it has none.
    fn trade(&self, need: Need<'a>) -> bool {
        let from = self.colder(need.tenant, need.engine);
        from.is_some_and(|from| self.give(need, need.tenant, from) > 0)
    }

    /// The engine, other than `own`, whose coldest block of the tenant is colder by far than the coldest of `own`; where that has none,
    /// whichever has the coldest.
    fn colder(&self, tenant: &Tenant, own: usize) -> Option<usize> {
        let others = self.others(own);
        let least_heat = |n: usize| {
            let blocks = self.engines[n].blocks_of(tenant);
            blocks.and_then(|blocks| blocks.least_heat(self.arena))
        };
        let heats = others.filter_map(|n| Some((least_heat(n)?, n)));
        let (heat, coldest) = heats.min()?;
        let is_colder = |own: u32| heat.saturating_mul(WORTH_FACTOR) < own;
        least_heat(own).is_none_or(is_colder).then_some(coldest)
    }

    fn others(&self, own: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.engines.len()).filter(move |n| *n != own)
    }

    /// Has any engine but one give a block.
    fn others_give(&self, need: Need<'a>, giver: &'a Tenant, but: usize) -> u32 {
        let mut given = self.others(but).map(|n| self.give(need, giver, n));
        given.find(|given| *given > 0).unwrap_or(0)
    }

    /// Has an engine of a tenant give a block.
    fn give(&self, need: Need<'a>, giver: &'a Tenant, engine: usize) -> u32 {
        let loss = self.engines[engine].give(giver, 1, Cause::Put, self.now, self.thread);
        giver.gave_to(need.tenant, loss.blocks);
        loss.blocks
    }

    /// Makes room for so many blocks. `evict` has the engine that needs them make some by itself, at the expense of who gives way; it says
    /// whether there is more than before. Says whether it is worth trying again.
    pub(crate) fn make_room(
        &self,
        need: Need<'a>,
        blocks: u32,
        evict: &mut dyn FnMut(Giver<'a>) -> bool,
    ) -> bool {
        for _ in 0..WAITS_MAX {
            if has_room(self.arena, need.tenant, blocks) {
                return true;
            }
            let more = self.colder_gives(need, blocks)
                || self.step(need.tenant, blocks, evict)
                || self.others_give_way(need, blocks);
            if !more {
                return has_room(self.arena, need.tenant, blocks);
            }
            self.settle();
        }
        false
    }

    /// Has another engine of who gives way give a block, if that is worth much less there.
    fn colder_gives(&self, need: Need<'a>, blocks: u32) -> bool {
        if self.arena.may_grow() {
            return false;
        }
        let giver = self.giver(need.tenant, blocks);
        let Some(from) = self.colder(giver.tenant, need.engine) else {
            return false;
        };
        let pledge = giver.pledge(1);
        pledge.is_some_and(|_pledge| self.give(need, giver.tenant, from) > 0)
    }

    /// Has any other engine of who gives way give a block.
    fn others_give_way(&self, need: Need<'a>, blocks: u32) -> bool {
        let giver = self.giver(need.tenant, blocks);
        let pledge = giver.pledge(1);
        pledge.is_some_and(|_pledge| self.others_give(need, giver.tenant, need.engine) > 0)
    }

    /// Makes some room, growing where the arena may, evicting where it may not.
    fn step(
        &self,
        tenant: &'a Tenant,
        blocks: u32,
        evict: &mut dyn FnMut(Giver<'a>) -> bool,
    ) -> bool {
        match self.next_step(tenant, blocks) {
            Step::Grow if matches!(self.arena.grow(), Ok(true)) => true,
            Step::Hopeless => false,
            Step::Wait => true,
            Step::Tidy => self.engines.iter().any(|engine| engine.chores(self.now)),
            Step::Grow | Step::Evict => evict(self.giver(tenant, blocks)),
        }
    }

    fn next_step(&self, tenant: &Tenant, blocks: u32) -> Step {
        let limit = u64::from(self.arena.limit());
        let needed = blocks as usize + self.arena.reserve();
        let at_limit = tenant.is_at_limit(blocks);
        if !tenant.may_ever_hold(blocks) || needed as u64 > limit {
            Step::Hopeless // not even an empty arena has room for it
        } else if !at_limit && self.arena.may_grow() {
            Step::Grow
        } else if (needed + own_blocks(&self.engines)) as u64 > limit {
            Step::Tidy // an index was made for more items than there may be now
        } else if !at_limit && self.arena.ready() as usize + self.arena.in_limbo() >= needed {
            Step::Wait // enough was given up, and is only waiting for its last readers
        } else {
            Step::Evict
        }
    }

    /// Has persistent pages that stand on others' floors go to their disks, a piece a call. Says whether there are more.
    pub(crate) fn clear_floors(&self) -> bool {
        let Some((tenant, blocks)) = self.tenants.pinned_on_floors(self.capacity()) else {
            return false;
        };
        let blocks = blocks.min(FLOORS_PIECE);
        let given = self.engines.map(|engine| {
            let loss = engine.give(tenant, blocks, Cause::Floors, self.now, self.thread);
            loss.blocks
        });
        given.iter().sum::<u32>() > 0
    }

    fn settle(&self) {
        self.thread.unpinned(&mut || self.arena.settle());
    }
}
