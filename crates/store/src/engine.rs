//! What the engines have in common: they hold blocks of tenants and give them up again.
//!
//! This interface is about blocks, never about an item or a page. Each engine has its own reads, puts and gets.

use sublet_types::Second;

use crate::arena::BlockList;
use crate::loss::Loss;
use crate::pinned_thread::PinnedThread;
use crate::release_order::ReleaseMethod;
use crate::tenants::Tenant;

/// Why an engine gives up blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReclaimCause {
    /// A put needs a block, and a put waits for no disk (R-P5). Blocks with persistent pages stay.
    Put,
    /// Other tenants' floors need blocks that persistent pages are in. No other block goes.
    Floors,
    /// The host needs the blocks, or their tenant has more than it may have.
    Release(ReleaseMethod),
}

/// An engine keeps its content in blocks of the arena. Each block belongs to one tenant.
pub(crate) trait Engine {
    /// The number of blocks that the engine holds for itself, such as an index.
    fn own_blocks(&self) -> usize;

    /// The tenant's blocks that may go for a put. `None` if the tenant never had one.
    fn blocks_of(&self, tenant: &Tenant) -> Option<&BlockList>;

    /// The number of these blocks.
    fn held(&self, tenant: &Tenant) -> u32 {
        self.blocks_of(tenant).map_or(0, BlockList::len)
    }

    /// Makes a tenant give up this many blocks, or all that it has. The thread is pinned and holds no lock.
    fn reclaim_blocks(
        &self,
        tenant: &Tenant,
        blocks: u32,
        cause: ReclaimCause,
        now: Second,
        thread: &dyn PinnedThread,
    ) -> Loss;

    /// Does about a millisecond of the work that is left over from blocks that were given up. Returns whether there is
    /// more. The thread is pinned.
    fn chores(&self, now: Second) -> bool;

    /// Does the work that is due once per second. The thread is pinned and holds no lock.
    fn chores_each_second(&self, now: Second, thread: &dyn PinnedThread);
}

/// All engines, each at its fixed index.
pub(crate) type Engines<'a> = [&'a dyn Engine; ENGINES];

/// The number of engines.
pub(crate) const ENGINES: usize = 2;

/// Blocks that engines hold for themselves.
pub(crate) fn own_blocks(engines: &Engines<'_>) -> usize {
    engines.iter().map(|engine| engine.own_blocks()).sum()
}
