//! What the engines have in common: blocks of tenants, which they give up again.
//!
//! An engine is asked for blocks, never for an item or a page: reading, putting and getting are its own.

use sublet_types::Second;

use crate::arena::BlockList;
use crate::loss::Loss;
use crate::release_order::Way;
use crate::tenants::Tenant;
use crate::thread::Thread;

/// Why blocks are given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// A put needs one, and waits for no disk (R-P5): what persistent pages are in stays.
    Put,
    /// Others' floors need what persistent pages are in; nothing else goes.
    Floors,
    /// The host needs them, or their tenant has more than it may.
    Release(Way),
}

/// An engine: what it keeps lies in blocks of the arena, each of one tenant.
pub(crate) trait Engine {
    /// Blocks that it holds for itself: an index.
    fn own_blocks(&self) -> usize;

    /// A tenant's blocks that may go for a put. None of one that never had any.
    fn blocks_of(&self, tenant: &Tenant) -> Option<&BlockList>;

    /// How many these are.
    fn held(&self, tenant: &Tenant) -> u32 {
        self.blocks_of(tenant).map_or(0, BlockList::len)
    }

    /// Has a tenant give up so many blocks, or all that it has. The thread is pinned and holds no lock.
    fn give(
        &self,
        tenant: &Tenant,
        blocks: u32,
        cause: Cause,
        now: Second,
        thread: &dyn Thread,
    ) -> Loss;

    /// Does a little of what it owes for what has been given up: about a millisecond. Says whether there is more. The thread is pinned.
    fn chores(&self, now: Second) -> bool;

    /// What is to be done once a second. The thread is pinned and holds no lock.
    fn chores_of_second(&self, now: Second, thread: &dyn Thread);
}

/// All engines, each in its place.
pub(crate) type Engines<'a> = [&'a dyn Engine; ENGINES];

/// How many there are.
pub(crate) const ENGINES: usize = 2;

/// Blocks that engines hold for themselves.
pub(crate) fn own_blocks(engines: &Engines<'_>) -> usize {
    engines.iter().map(|engine| engine.own_blocks()).sum()
}
