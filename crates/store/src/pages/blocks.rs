//! The page store among the engines: blocks of frames.

use sublet_types::Second;

use super::Pages;
use super::shrink::Clearing;
use crate::arena::{BlockList, PageKind};
use crate::engine::{Cause, Engine};
use crate::loss::Loss;
use crate::tenants::Tenant;
use crate::thread::Thread;

/// Blocks whose pages are moved together for one tenant in a second.
const EVACUATED_AT_ONCE: u32 = 16;

impl Engine for Pages {
    fn own_blocks(&self) -> usize {
        0
    }

    fn blocks_of(&self, tenant: &Tenant) -> Option<&BlockList> {
        let holdings = self.known(tenant)?;
        Some(holdings.list(PageKind::Ephemeral))
    }

    fn give(
        &self,
        tenant: &Tenant,
        blocks: u32,
        cause: Cause,
        now: Second,
        thread: &dyn Thread,
    ) -> Loss {
        if blocks == 0 || self.known(tenant).is_none() {
            return Loss::default();
        }
        let mut clearing = self.clearing(tenant, now, thread);
        clearing.shrink(blocks, cause);
        clearing.loss
    }

    fn chores(&self, _now: Second) -> bool {
        self.sweep_some()
    }

    fn chores_of_second(&self, now: Second, thread: &dyn Thread) {
        for tenant in self.tenants.iter() {
            self.evacuate(tenant, now, thread);
        }
        self.fit_all(now);
    }
}

impl Pages {
    /// Moves a tenant's pages together where there are many free frames between them.
    fn evacuate(&self, tenant: &Tenant, now: Second, thread: &dyn Thread) {
        for _ in 0..EVACUATED_AT_ONCE {
            if !self.clearing(tenant, now, thread).evacuate() {
                break;
            }
            thread.renew();
        }
    }

    /// Getting pages out of a tenant's blocks.
    fn clearing<'a>(
        &'a self,
        tenant: &'a Tenant,
        now: Second,
        thread: &'a dyn Thread,
    ) -> Clearing<'a> {
        Clearing {
            pages: self,
            tenant,
            now,
            thread,
            loss: Loss::default(),
        }
    }
}
