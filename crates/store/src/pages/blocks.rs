//! The page store's side of the engine interface. Its blocks hold frames.

use sublet_types::Second;

use super::PageStore;
use super::shrink::PageShrinker;
use crate::arena::{BlockList, PageKind};
use crate::engine::{Engine, ReclaimCause};
use crate::loss::Loss;
use crate::pinned_thread::PinnedThread;
use crate::tenants::Tenant;

/// The most blocks per tenant and second whose pages are moved together.
const EVACUATED_AT_ONCE: u32 = 16;

impl Engine for PageStore {
    fn own_blocks(&self) -> usize {
        0
    }

    fn blocks_of(&self, tenant: &Tenant) -> Option<&BlockList> {
        let tenant_pages = self.existing_tenant_pages(tenant)?;
        Some(tenant_pages.list(PageKind::Ephemeral))
    }

    fn reclaim_blocks(
        &self,
        tenant: &Tenant,
        blocks: u32,
        cause: ReclaimCause,
        now: Second,
        thread: &dyn PinnedThread,
    ) -> Loss {
        if blocks == 0 || self.existing_tenant_pages(tenant).is_none() {
            return Loss::default();
        }
        let mut shrinker = self.shrinker(tenant, now, thread);
        shrinker.shrink(blocks, cause);
        shrinker.loss
    }

    fn chores(&self, _now: Second) -> bool {
        let more = self.sweep_some();
        self.sweep_some_far() || more
    }

    fn chores_each_second(&self, now: Second, thread: &dyn PinnedThread) {
        for tenant in self.tenants.iter() {
            self.evacuate(tenant, now, thread);
            self.make_room_for_rows(tenant);
        }
        self.look_at_far_blocks(now);
        self.fit_all(now);
    }
}

impl PageStore {
    /// Moves a tenant's pages together if there are many free frames between them.
    fn evacuate(&self, tenant: &Tenant, now: Second, thread: &dyn PinnedThread) {
        for _ in 0..EVACUATED_AT_ONCE {
            if !self.shrinker(tenant, now, thread).evacuate() {
                break;
            }
            thread.renew_pin();
        }
    }

    /// A shrinker for a tenant's blocks.
    fn shrinker<'a>(
        &'a self,
        tenant: &'a Tenant,
        now: Second,
        thread: &'a dyn PinnedThread,
    ) -> PageShrinker<'a> {
        PageShrinker {
            pages: self,
            tenant,
            now,
            thread,
            loss: Loss::default(),
        }
    }
}
