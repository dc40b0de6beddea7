//! The page store as the store's handles have it.
//!
//! `tenancy` is what a tenant is given and told, `verbs` puts, gets and flushes, `blocks` how blocks come to pages and go
//! from one engine to the other, and `saves` a tenant's pages in a file.

mod blocks;
mod saves;
mod tenancy;
mod verbs;

use sublet_types::{Second, TenantId};

use crate::pages::{Aside, Clearing, Desk, PageLoss};
use crate::store::{Pin, Worker};
use crate::tenants::Tenant;

impl Worker {
    fn desk<'a>(&'a self, tenant: &'a Tenant, now: Second) -> Desk<'a> {
        Desk {
            pages: &self.store().pages,
            tenant,
            now,
            luck: self.moment(now).luck,
            worker: self,
        }
    }

    /// Getting pages out of a tenant's blocks.
    pub(crate) fn clearing<'a>(&'a self, tenant: &'a Tenant, now: Second) -> Clearing<'a> {
        Clearing {
            pages: &self.store().pages,
            tenant,
            now,
            worker: self,
            loss: PageLoss::default(),
        }
    }

    fn at_desk<R>(
        &self,
        tenant: TenantId,
        now: Second,
        work: impl FnOnce(Desk<'_>) -> R,
    ) -> Option<R> {
        let tenant = self.store().tenants.get(tenant)?;
        let _pin = Pin::new(self);
        Some(work(self.desk(tenant, now)))
    }
}

impl Aside for Worker {
    fn aside(&self, wait: &mut dyn FnMut()) {
        match self.keeps_its_pin() {
            true => wait(),
            false => self.unpinned(wait),
        }
    }
}
